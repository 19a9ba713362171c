"""The language of the api about agents that get back what they were: by events that undo others, so
that nothing is erased."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from libs.contracts.bus_messages import Command, Event
from libs.contracts.deterministic_ids import derived_id

SERVICE = "api"

RestoredPart = Literal["blocks", "configuration", "context"]


def restores_id(agent_id: str) -> str:
    """The id of the aggregate that knows which restore of an agent is under way."""
    return derived_id("restores", agent_id)


def replacement_id(agent_id: str, block_id: str, number: int) -> str:
    """The id of a block that an agent gets in the place of one that was deleted; of the next one,
    where that was deleted too."""
    return derived_id("block", agent_id, block_id, "restored", str(number))


class RequestRestore(Command, service=SERVICE, topic="agent_restore.request"):
    """Give an agent back what it had right after a commit; `moment` is how the client named it."""

    restore_id: str
    agent_id: str
    moment: str
    cut: int
    cut_at: datetime
    what: list[RestoredPart]

    @property
    def target(self) -> str:
        return restores_id(self.agent_id)


class RestoreEvent(Event, service=SERVICE):
    """Something about a restore of an agent."""

    restore_id: str

    @property
    def about(self) -> str:
        return self.restore_id


class RestoreRequested(RestoreEvent, topic="agent_restore.requested"):
    """An agent is to get back what it had right after the commit `cut`, at `cut_at`; `moment` is
    how the client named that."""

    agent_id: str
    moment: str
    cut: int
    cut_at: datetime
    what: list[RestoredPart]
    requested_by: str


class RestoreDelayed(RestoreEvent, topic="agent_restore.delayed"):
    """An attempt has failed, and another one follows."""

    attempts: int
    reason: str


class RestoreRefused(RestoreEvent, topic="agent_restore.refused"):
    """A part could not be restored; what was done before is undone (`undoes`), if there is any."""

    code: str
    reason: str
    undoes: bool


class RestoreUndone(RestoreEvent, topic="agent_restore.undone"):
    """Everything is again as it was before a restore that was refused."""


class RestoreCompleted(RestoreEvent, topic="agent_restore.completed"):
    """The agent has back what was wanted."""
