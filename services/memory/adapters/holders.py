"""Which agents see a block: read from the view that the agent service publishes."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.database import Database


class Holders(Protocol):
    """Who sees which block."""

    async def blocks_without_holder(self, block_ids: list[str]) -> list[str]:
        """Of these blocks those that no agent sees."""
        ...


class PostgresHolders:
    """Reads the published view."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def blocks_without_holder(self, block_ids: list[str]) -> list[str]:
        """Of these blocks those that no agent sees."""
        rows = await self.database.fetch(
            "select b.id from unnest(%s::text[]) as b(id)"
            " where not exists (select from agent.agent_view a where a.block_ids @> array[b.id])",
            [block_ids],
        )
        return [block_id for (block_id,) in rows]
