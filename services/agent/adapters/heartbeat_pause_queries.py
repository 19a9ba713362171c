"""Conversations that pause."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.eventstore.connection_pool import Database

PAUSES_SEEN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class PausedConversation:
    """A conversation whose agent pauses, for so many minutes and until when, as the clock said of
    the process that recorded it."""

    conversation_id: str
    org: str
    agent_id: str
    minutes: int
    until: datetime

    @property
    def seconds(self) -> float:
        """How long the pause is."""
        return self.minutes * 60.0


class PauseQueries(Protocol):
    """What the sweep of pauses reads."""

    async def paused_conversations(self) -> list[PausedConversation]:
        """Those whose pause ends first, `PAUSES_SEEN_MAX` at most."""
        ...


class PostgresPauseQueries:
    """Keeps the contract of `PauseQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def paused_conversations(self) -> list[PausedConversation]:
        """Those whose pause ends first."""
        if not await self.database.any_row("agent.heartbeat_pauses"):
            return []
        rows = await self.database.fetch(
            "select conversation_id, org, agent_id, minutes, until from agent.heartbeat_pauses"
            " order by until limit %s",
            [PAUSES_SEEN_MAX],
        )
        return [PausedConversation(*row) for row in rows]
