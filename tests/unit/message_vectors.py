"""Messages by their meaning, from the in-memory rows of the agent service."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.contracts.memory.semantic_message_search import EMBEDDED_ROLES
from libs.embeddings.ports import Embedders, Vector
from libs.eventstore.in_memory_database import InMemoryDatabase
from services.memory.adapters.message_vectors import Backlog, MessageScope, NearestQuery
from services.memory.engine.message_embedding import MessageEmbedding

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class InMemoryMessageVectors:
    """Keeps the contract of `MessageVectors`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.vectors: dict[str, tuple[str, Vector]] = {}
        self.waiting: dict[MessageScope, tuple[datetime, int]] = {}
        self.forgotten: dict[str, datetime] = {}
        self.turns = 0

    @property
    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.database.clock())

    def messages(self, scope: MessageScope) -> list[Any]:
        rows: list[Any] = [
            row
            for row in self.database.schema("agent").rows("messages")
            if row["org"] == scope.org
            and row["role"] in EMBEDDED_ROLES
            and row["text"]
            and scope.agent_id in ("", row["agent_id"])
            and scope.conversation_id in ("", row["conversation_id"])
        ]
        return sorted(rows, key=lambda row: (row["created_at"], row["position"]), reverse=True)

    async def unembedded_messages(
        self, scope: MessageScope, model: str, limit: int
    ) -> list[tuple[str, str]]:
        rows = self.messages(scope)
        left = [row for row in rows if self.vectors.get(row["id"], ("",))[0] != model]
        return [(row["id"], row["text"]) for row in left[:limit]]

    async def keep(self, scope: MessageScope, model: str, vectors: Mapping[str, Vector]) -> None:
        there = {row["id"] for row in self.messages(MessageScope(scope.org))}
        self.vectors |= {
            message_id: (model, vector)
            for message_id, vector in vectors.items()
            if message_id in there
        }

    async def nearest(self, query: NearestQuery) -> list[tuple[str, float]]:
        found = []
        for row in self.messages(query.scope):
            model, vector = self.vectors.get(row["id"], ("", ()))
            at = datetime.fromisoformat(row["created_at"])
            if (
                model != query.model
                or row["role"] not in query.roles
                or (query.after and at < query.after)
                or (query.before and at > query.before)
            ):
                continue
            near = sum(a * b for a, b in zip(vector, query.vector, strict=True))
            if near >= query.similarity_min:
                found.append((row["id"], near))
        return sorted(found, key=lambda scored: (-scored[1], scored[0]))[: query.limit]

    async def put_off(self, scope: MessageScope) -> None:
        self.turns += 1
        self.waiting[scope] = (self.now, self.waiting.get(scope, (None, self.turns))[1])

    async def backlog(self) -> list[Backlog]:
        longest: dict[str, Backlog] = {}
        for scope, (asked_at, _) in sorted(self.waiting.items(), key=lambda entry: entry[1][1]):
            longest.setdefault(scope.org, Backlog(scope, asked_at))
        return [*longest.values()]

    async def worked_on(self, backlog: Backlog, *, done: bool) -> None:
        self.turns += 1
        asked_at = self.waiting[backlog.scope][0]
        if done and asked_at == backlog.asked_at:
            del self.waiting[backlog.scope]
        else:
            self.waiting[backlog.scope] = (asked_at, self.turns)

    async def forget(self, org: str, conversation_id: str) -> None:
        self.forgotten.setdefault(conversation_id, self.now)

    async def remove_forgotten(self, settled_seconds: float) -> bool:
        there = {row["id"] for row in self.database.schema("agent").rows("messages")}
        gone = [message_id for message_id in self.vectors if message_id not in there]
        for message_id in gone:
            del self.vectors[message_id]
        if gone:
            return True
        settled = self.now - timedelta(seconds=settled_seconds)
        self.forgotten = {key: at for key, at in self.forgotten.items() if at >= settled}
        return False


def message_embedding(
    vectors: InMemoryMessageVectors, embedders: Embedders, clock: Any
) -> MessageEmbedding:
    """What embeds the messages of these vectors."""
    return MessageEmbedding(vectors=vectors, embedders=embedders, clock=clock, leads=lambda: True)
