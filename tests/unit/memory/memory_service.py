"""The memory service in memory, asked over the bus."""

from __future__ import annotations

from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.bus_messages import (
    DEFAULT_ORG,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.embeddings.ports import Embedders
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.memory.handlers import Handlers
from services.memory.handlers.ports import HandlerPorts
from services.memory.policies import Policies
from services.memory.projections import project
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.examples import HUMAN, SHARED_BLOCK
from tests.hash_embedder import OneEmbedder
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import InMemoryFolderQueries, not_processed
from tests.unit.message_vectors import InMemoryMessageVectors, message_embedding
from tests.unit.passage_search import InMemoryPassageSearch
from tests.unit.past_block_versions import InMemoryPastBlockVersions

SHARED = HUMAN.model_copy(update={"id": SHARED_BLOCK, "label": "shared"})


class Memory:
    """The service, asked over the bus."""

    def __init__(self, embedders: Embedders | None = None) -> None:
        self.database = InMemoryDatabase(lambda: self.clock.monotonic())
        self.schema = self.database.schema("memory")
        store = InMemoryEventStore(self.database, "memory", "memory-1")
        self.repository = Repository(store, "memory", project)
        self.clock = ManualClock()
        self.archives = InMemoryArchiveQueries(self.database)
        self.vectors = InMemoryMessageVectors(self.database)
        embedders = embedders or OneEmbedder()
        self.message_embedding = message_embedding(self.vectors, embedders, self.clock)
        ports = HandlerPorts(
            clock=self.clock,
            attached=InMemoryAgentAttachments(self.database),
            past_block_versions=InMemoryPastBlockVersions(self.database),
            archives=self.archives,
            passages=InMemoryPassageSearch(self.database),
            embedders=embedders,
            locks=AggregateLocks(),
            folders=InMemoryFolderQueries(self.database),
            file_added=not_processed,
            message_vectors=self.vectors,
            embed_messages=self.message_embedding.catch_up,
        )
        handlers = Handlers(ports)
        self.shell = CommandDispatcher(self.repository, handlers.table())
        self.bus = InMemoryBus(InMemoryNetwork())

    async def start(self) -> Memory:
        await self.bus.serve("memory", self.shell.answer)
        return self

    async def ask(
        self, command: Command, message_id: str, org: str = DEFAULT_ORG
    ) -> Accepted | Rejected:
        return await self.bus.request(command, Context(message_id, org=org))

    def attach(self, agent_id: str, *block_ids: str) -> None:
        """Let the agent service's rows say what is attached to an agent."""
        agents = self.database.schema("agent").tables.setdefault("agents", {})
        agents[(agent_id,)] = {"id": agent_id, "org": DEFAULT_ORG, "block_ids": [*block_ids]}

    def rows(self, table: str = "blocks") -> dict[Any, Any]:
        return {row["id"]: row for row in self.schema.rows(table)}

    def policies(self) -> Policies:
        attached = InMemoryAgentAttachments(self.database)
        return Policies(self.bus, attached, self.archives, self.vectors, self.clock, CountingIds())


ADA, BOB = "agent-ada", "agent-bob"


def said(memory: Memory, *texts: str, agent: str = ADA, role: str = "user", **more: str) -> None:
    """Let the agent service's rows say what was said."""
    rows = memory.database.schema("agent").tables.setdefault("messages", {})
    for text in texts:
        number = len(rows)
        row = {
            "id": f"message-{number}",
            "org": DEFAULT_ORG,
            "agent_id": agent,
            "conversation_id": f"conv-of-{agent}",
            "position": number,
            "role": role,
            "created_at": f"2026-01-01T00:{number // 60:02}:{number % 60:02}+00:00",
            "text": text,
            **more,
        }
        rows[(row["id"],)] = row
