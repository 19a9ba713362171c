"""Which runs and steps a conversation has."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database


class PastRunQueries(Protocol):
    """What the commands about runs and steps read."""

    async def run_of_step(self, org: str, conversation_id: str, step_id: str) -> str | None:
        """The run of a step; None if the conversation has no such step."""
        ...

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        """Whether the conversation has such a run."""
        ...


class PostgresPastRunQueries:
    """Keeps the contract of `PastRunQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def run_of_step(self, org: str, conversation_id: str, step_id: str) -> str | None:
        """The run of a step; None if the conversation has no such step."""
        row = await self.database.fetch_one(
            "select run_id from agent.steps where id = %s and conversation_id = %s and org = %s",
            [step_id, conversation_id, org],
        )
        return row[0] if row else None

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        """Whether the conversation has such a run."""
        row = await self.database.fetch_one(
            "select from agent.runs where id = %s and conversation_id = %s and org = %s",
            [run_id, conversation_id, org],
        )
        return row is not None
