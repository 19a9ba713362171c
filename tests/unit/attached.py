"""Which blocks are attached to whom, from the in-memory rows of both services."""

from __future__ import annotations

from typing import Any

from libs.eventstore.in_memory_database import InMemoryDatabase
from services.memory.domain.block import SameLabel


class InMemoryAttachedAgents:
    """Keeps the contract of `AttachedAgents`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        seen = {block_id for agent in self.agents(org) for block_id in agent["block_ids"]}
        return [one for one in block_ids if one not in seen]

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        blocks = self.database.schema("memory").rows("blocks")
        alike = {str(row["id"]) for row in blocks if row["label"] == label} - {block_id}
        found = [
            SameLabel(str(agent["id"]), other)
            for agent in self.agents(org)
            if block_id in agent["block_ids"]
            for other in alike.intersection(agent["block_ids"])
        ]
        return min(found, key=lambda one: (one.agent_id, one.block_id), default=None)

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        return any(row["id"] == agent_id for row in self.agents(org))

    async def has_folders(self, org: str, agent_id: str) -> bool:
        return any(row["agent_id"] == agent_id for row in self.folders(org))

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[str]:
        found = [row for row in self.folders(org) if row["folder_id"] == folder_id]
        return [str(row["agent_id"]) for row in found][:limit]

    def folders(self, org: str) -> list[Any]:
        rows = self.database.schema("memory").rows("agent_folders")
        return [row for row in rows if row["org"] == org]

    def agents(self, org: str) -> list[Any]:
        agents = self.database.schema("agent").rows("agents")
        return [row for row in agents if row["org"] == org]
