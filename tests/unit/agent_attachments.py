"""Which blocks are attached to whom, from the in-memory rows of both services."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from libs.eventstore.in_memory_database import InMemoryDatabase
from services.memory.adapters.agent_attachments import AttachedAgent, LostFiles, LostFolder
from services.memory.domain.block import SameLabel


class InMemoryAgentAttachments:
    """Keeps the contract of `AgentAttachments`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        seen = {block_id for agent in self.agents(org) for block_id in agent["block_ids"]}
        return [block_id for block_id in block_ids if block_id not in seen]

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        blocks = self.database.schema("memory").rows("blocks")
        alike = {str(row["id"]) for row in blocks if row["label"] == label} - {block_id}
        found = [
            SameLabel(str(agent["id"]), other)
            for agent in self.agents(org)
            if block_id in agent["block_ids"]
            for other in alike.intersection(agent["block_ids"])
        ]
        return min(
            found, key=lambda attachment: (attachment.agent_id, attachment.block_id), default=None
        )

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        return any(row["id"] == agent_id for row in self.agents(org))

    async def has_folders(self, org: str, agent_id: str) -> bool:
        known = self.known("folders")
        return any(
            row["agent_id"] == agent_id and row["folder_id"] in known for row in self.folders(org)
        )

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[AttachedAgent]:
        agents = {row["id"]: row for row in self.agents(org)}
        found = [row for row in self.folders(org) if row["folder_id"] == folder_id]
        found = sorted(found, key=lambda row: (row["created_at"], row["agent_id"]))[:limit]
        return [
            AttachedAgent(row["agent_id"], agents[row["agent_id"]].get("files_max", 5))
            for row in found
            if row["agent_id"] in agents
        ]

    async def lost_folders(self, limit: int) -> list[LostFolder]:
        known = self.known("folders")
        rows: list[Any] = self.database.schema("memory").rows("agent_folders")
        lost = [
            row
            for row in sorted(rows, key=lambda row: str(row["id"]))
            if row["folder_id"] not in known
            or not await self.agent_exists(row["org"], row["agent_id"])
        ]
        return [
            LostFolder(
                row["agent_id"],
                row["folder_id"],
                row["org"],
                await self.agent_exists(row["org"], row["agent_id"])
                and not any(
                    each_row["agent_id"] == row["agent_id"]
                    and each_row["folder_id"] in known - {row["folder_id"]}
                    for each_row in rows
                ),
            )
            for row in lost
        ][:limit]

    async def lost_files(self, limit: int) -> list[LostFiles]:
        known = self.known("files")
        lost: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row in self.database.schema("memory").rows("open_files"):
            if row["file_id"] not in known:
                lost[str(row["agent_id"]), str(row["org"])].append(str(row["file_id"]))
        return [LostFiles(*agent, sorted(files)) for agent, files in sorted(lost.items())][:limit]

    def known(self, table: str) -> set[str]:
        return {str(row["id"]) for row in self.database.schema("memory").rows(table)}

    def folders(self, org: str) -> list[Any]:
        rows = self.database.schema("memory").rows("agent_folders")
        return [row for row in rows if row["org"] == org]

    def agents(self, org: str) -> list[Any]:
        agents = self.database.schema("agent").rows("agents")
        return [row for row in agents if row["org"] == org]
