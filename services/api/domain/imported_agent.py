"""Which import makes an agent: one at a time."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.api.imports import ImportedAgentTaken
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event


class ImportedAgentState(BaseModel):
    """The last import that has made the agent, or is about to."""

    import_id: str | None = None


class ImportedAgent(Aggregate[ImportedAgentState]):
    """An agent that an import makes. Two at a time would delete what the other has made."""

    State = ImportedAgentState

    def take(self, agent_id: str, import_id: str, *, at: datetime) -> None:
        """Leave the agent to this import; whoever calls it knows that the last one has ended."""
        if self.state.import_id != import_id:
            self.record(ImportedAgentTaken, at=at, agent_id=agent_id, import_id=import_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        if isinstance(event, ImportedAgentTaken):
            self.state.import_id = event.import_id
