"""Which agents a block is attached to: read from the view that the agent service publishes."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.memory.domain.block import SameLabel


class AttachedAgents(Protocol):
    """Which blocks are attached to whom."""

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        """Of these blocks those that no agent of the organisation sees."""
        ...

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        """An agent of the organisation that the block is attached to and that has another block
        of this label."""
        ...

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        """Whether the organisation has this agent."""
        ...

    async def has_folders(self, org: str, agent_id: str) -> bool:
        """Whether an agent sees a folder."""
        ...

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[str]:
        """The agents that see a folder."""
        ...


class PostgresAttachedAgents:
    """Reads the published view."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        """Of these blocks those that no agent of the organisation sees."""
        rows = await self.database.fetch(
            "select b.id from unnest(%s::text[]) as b(id)"
            " where not exists (select from agent.agent_view a"
            " where a.block_ids @> array[b.id] and a.org = %s)",
            [block_ids, org],
        )
        return [block_id for (block_id,) in rows]

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        """An agent of the organisation that the block is attached to and that has another block
        of this label."""
        row = await self.database.fetch_one(
            "select a.id, b.id from agent.agent_view a, unnest(a.block_ids) as attached(id)"
            " cross join lateral (select id, label from memory.blocks"
            " where id = attached.id limit 1) b where a.block_ids @> array[%(block)s]"
            " and b.id <> %(block)s and b.label = %(label)s and a.org = %(org)s limit 1",
            {"org": org, "block": block_id, "label": label},
        )
        return SameLabel(*row) if row else None

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        """Whether the organisation has this agent."""
        row = await self.database.fetch_one(
            "select true from agent.agent_view where id = %s and org = %s", [agent_id, org]
        )
        return row is not None

    async def has_folders(self, org: str, agent_id: str) -> bool:
        """Whether an agent sees a folder."""
        row = await self.database.fetch_one(
            "select true from memory.agent_folders where agent_id = %s and org = %s limit 1",
            [agent_id, org],
        )
        return row is not None

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[str]:
        """The agents that see a folder."""
        rows = await self.database.fetch(
            "select agent_id from memory.agent_folders where folder_id = %s and org = %s limit %s",
            [folder_id, org, limit],
        )
        return [agent_id for (agent_id,) in rows]
