"""What is decided about archives by, from the in-memory rows of both services."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.eventstore.in_memory_database import InMemoryDatabase
from services.memory.adapters.archive_queries import (
    REEMBEDDINGS_MAX,
    SWEPT_MAX,
    Attachment,
    Collection,
    Reembedding,
    RememberingAgent,
    Removal,
    Unembedded,
)
from tests.unit.given import NOW


class InMemoryArchiveQueries:
    """Keeps the contract of `ArchiveQueries`. `NOW` is when time began."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database

    def rows(self, table: str, service: str = "memory") -> list[Any]:
        return self.database.schema(service).rows(table)

    async def agent(self, org: str, agent_id: str) -> RememberingAgent | None:
        attached = [
            (row["attached_at"], row["archive_id"])
            for row in self.rows("archive_agents")
            if row["agent_id"] == agent_id and row["org"] == org
        ]
        for row in self.rows("agents", "agent"):
            if row["id"] == agent_id and row["org"] == org:
                ids = [archive_id for _, archive_id in sorted(attached)]
                return RememberingAgent(str(row.get("name", "")), None, ids)
        return None

    async def collections_of(self, org: str, agent_id: str) -> list[Collection]:
        ids = {
            row["archive_id"] for row in self.rows("archive_agents") if row["agent_id"] == agent_id
        }
        return await self.collections(org, sorted(ids))

    async def collections(self, org: str, ids: list[str]) -> list[Collection]:
        return [
            collection for collection in await self.all_collections(org) if collection.id in ids
        ]

    async def named_collections(self, org: str, ids: list[str]) -> list[Collection]:
        before = {row["id"]: row for row in self.rows("folder_reembeddings")}
        folders = [
            Collection(
                row["id"],
                config_of(row["fields"]["embedding_config"]),
                (config_of(before[row["id"]]["previous_config"]),) if row["id"] in before else (),
            )
            for row in self.rows("folders")
            if row["org"] == org and row["id"] in ids
        ]
        return await self.collections(org, ids) + folders

    async def all_collections(self, org: str) -> list[Collection]:
        rows = [row for row in self.rows("archives") if row["org"] == org]
        before = {row["id"]: row for row in self.rows("archive_reembeddings")}
        return [
            Collection(
                row["id"],
                config_of(row["fields"]["embedding_config"]),
                (config_of(before[row["id"]]["previous_config"]),) if row["id"] in before else (),
            )
            for row in rows
        ]

    async def passages_to_embed(
        self, org: str, collection_id: str, model: str, dimensions: int, limit: int
    ) -> list[Unembedded]:
        found = sorted(
            (row["created_at"], row["id"], row["file_id"] or "", row["text"])
            for row in self.rows("passages")
            if row["org"] == org
            and row["collection_id"] == collection_id
            and (row["embedding_model"] != model or row["embedding"].count(",") != dimensions - 1)
        )
        return [Unembedded(*row[1:]) for row in found[:limit]]

    async def reembeddings(self) -> list[Reembedding]:
        rows = [*self.rows("archive_reembeddings"), *self.rows("folder_reembeddings")]
        rows.sort(key=lambda row: row["started_at"])
        places = Counter[str]()
        found = []
        for row in rows:
            places[row["org"]] += 1
            found.append((places[row["org"]], Reembedding(row["id"], row["org"])))
        return [reembedding for _, reembedding in sorted(found, key=lambda each: each[0])][
            :REEMBEDDINGS_MAX
        ]

    async def passages_left(self, org: str, archive_id: str, limit: int) -> list[str]:
        rows = [row for row in self.rows("passages") if row["collection_id"] == archive_id]
        return sorted(row["id"] for row in rows if row["org"] == org)[:limit]

    async def passage_count(self, org: str, archive_id: str) -> int:
        return len(await self.passages_left(org, archive_id, 1_000_000))

    async def archive_count(self, org: str) -> int:
        return len(await self.all_collections(org))

    async def removals(self, settled_seconds: float) -> list[Removal]:
        left = {row["collection_id"] for row in self.rows("passages")}
        return [
            Removal(row["id"], row["org"])
            for row in sorted(self.rows("archive_removals"), key=lambda row: row["id"])
            if row["id"] in left or self.age(row["deleted_at"]) > settled_seconds
        ][:SWEPT_MAX]

    def age(self, moment: str) -> float:
        """How long ago a moment was, in seconds."""
        since = (datetime.fromisoformat(moment) - NOW).total_seconds()
        return self.database.clock() - since

    async def orphaned_attachments(self, agent_ids: list[str] | None) -> list[Attachment]:
        agents = {(row["id"], row["org"]) for row in self.rows("agents", "agent")}
        rows = sorted(self.rows("archive_agents"), key=lambda row: row["id"])
        found = [Attachment(row["archive_id"], row["agent_id"], row["org"]) for row in rows]
        return [
            attachment
            for attachment in found
            if (attachment.agent_id, attachment.org) not in agents
            and (agent_ids is None or attachment.agent_id in agent_ids)
        ][:SWEPT_MAX]


def config_of(plain: Any) -> EmbeddingConfig | None:
    """The config in a document."""
    return EmbeddingConfig.model_validate(plain) if plain else None
