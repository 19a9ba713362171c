"""Outcome of the last time that somebody applied the file that describes an agent."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.api import configurations
from libs.contracts.api.configurations import (
    ConfigurationApplied,
    ConfigurationDeleted,
    ConfigurationRejected,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event, Rejected
from services.api.domain.refusals import missing


class KnownConfigurationState(BaseModel):
    """The last report about the file of an agent."""

    last: configurations.Configuration | None = None
    deleted: bool = False


class Configuration(Aggregate[KnownConfigurationState]):
    """The file of one agent."""

    State = KnownConfigurationState

    @property
    def deleted(self) -> bool:
        """Whether its agent was deleted."""
        return self.state.deleted

    def report(
        self, agent_id: str, reported: configurations.Configuration, *, at: datetime
    ) -> Rejected | None:
        """Record what became of the file; the same as before is not an event."""
        if self.state.deleted:
            return missing("agent", agent_id)
        if reported != self.state.last:
            applied = reported.status == "applied"
            kind = ConfigurationApplied if applied else ConfigurationRejected
            self.record(kind, at=at, agent_id=agent_id, configuration=reported)
        return None

    def delete(self, agent_id: str, *, at: datetime) -> Rejected | None:
        """Forget the file of an agent that was deleted; twice is once."""
        if not self.exists:
            return missing("agent", agent_id)
        if not self.state.deleted:
            self.record(ConfigurationDeleted, at=at, agent_id=agent_id)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ConfigurationApplied() | ConfigurationRejected():
                self.state.last = event.configuration
            case ConfigurationDeleted():
                self.state = KnownConfigurationState(deleted=True)
