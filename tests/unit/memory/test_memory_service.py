"""The memory service on the twins: commands in, events, rows and replies out."""

from __future__ import annotations

from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.bus_messages import DEFAULT_ORG, Accepted, Command, Context, Rejected
from libs.contracts.memory.blocks import (
    CreateBlocks,
    DeleteBlock,
    EditBlock,
    InsertText,
    RewriteBlock,
    UpdateBlock,
)
from libs.embeddings.hash_embedder import OneEmbedder
from libs.embeddings.ports import Embedders
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.memory.handlers import Handlers
from services.memory.handlers.ports import HandlerPorts
from services.memory.policies import Policies
from services.memory.projections import project
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.examples import AGENT, BLOCK, CAUSE, HUMAN, SHARED_BLOCK
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import InMemoryFolderQueries, not_processed
from tests.unit.given import fact
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


async def test_blocks_are_made_all_or_none() -> None:
    memory = await Memory().start()
    bad = SHARED.model_copy(update={"label": ""})
    reply = await memory.ask(CreateBlocks(blocks=[HUMAN, bad]), "m-1")
    assert isinstance(reply, Rejected)
    assert memory.schema.committed == []
    assert await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-2") == Accepted()
    assert memory.rows().keys() == {BLOCK, SHARED_BLOCK}


async def test_a_command_that_comes_twice_has_the_effect_of_once() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN]), "m-1")
    edit = EditBlock(block_id=BLOCK, edit=InsertText(new_text="Likes tea"), cause=CAUSE)
    first = await memory.ask(edit, "m-2")
    assert first == Accepted(result={"value": "Name: Ada\nLikes tea"})
    assert await memory.ask(edit, "m-2") == first
    assert memory.rows()[BLOCK]["doc"]["value"] == "Name: Ada\nLikes tea"
    assert memory.rows()[BLOCK]["version"] == 2
    [_, changed] = memory.schema.streams[BLOCK]
    assert changed.payload["cause"] == CAUSE.model_dump()


async def test_a_block_is_rewritten_unless_it_is_read_only_or_too_short() -> None:
    memory = await Memory().start()
    locked = SHARED.model_copy(update={"read_only": True})
    await memory.ask(CreateBlocks(blocks=[HUMAN, locked]), "m-1")
    rewrite = RewriteBlock(block_id=BLOCK, value="Name: Grace", cause=CAUSE)
    first = await memory.ask(rewrite, "m-2")
    assert first == Accepted(result={"value": "Name: Grace"})
    assert await memory.ask(rewrite, "m-2") == first
    assert (memory.rows()[BLOCK]["doc"]["value"], memory.rows()[BLOCK]["version"]) == (
        "Name: Grace",
        2,
    )
    [_, changed] = memory.schema.streams[BLOCK]
    assert changed.payload["cause"] == CAUSE.model_dump()
    same = await memory.ask(rewrite, "m-3")
    assert same == first, "a value that it has already is no event"
    assert len(memory.schema.streams[BLOCK]) == 2
    for block_id, value, words in (
        (SHARED_BLOCK, "x", "read-only"),
        (BLOCK, "x" * (HUMAN.limit + 1), "`limit`"),
        ("block-none", "x", "not found"),
    ):
        refused = await memory.ask(
            RewriteBlock(block_id=block_id, value=value, cause=CAUSE), f"m-{words}"
        )
        assert isinstance(refused, Rejected)
        assert words in refused.reason


async def test_an_update_and_a_deletion_reach_the_rows() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-1")
    update = UpdateBlock(block_id=BLOCK, changes={"label": "me", "description": None})
    assert await memory.ask(update, "m-2") == Accepted()
    row = memory.rows()[BLOCK]
    assert (row["label"], row["doc"]["label"], row["doc"]["description"]) == ("me", "me", None)
    assert await memory.ask(DeleteBlock(block_id=BLOCK), "m-3") == Accepted()
    assert memory.rows().keys() == {SHARED_BLOCK}
    again = await memory.ask(DeleteBlock(block_id=BLOCK), "m-4")
    assert BLOCK not in memory.repository.cache, "what is deleted takes no room"
    assert again == Rejected(code="not_found", reason=f"Block with id '{BLOCK}' not found")


async def test_a_block_gets_no_label_that_its_agent_has_on_another() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-1")
    rename = UpdateBlock(block_id=SHARED_BLOCK, changes={"label": "human", "value": "x"})
    memory.attach(AGENT, BLOCK, SHARED_BLOCK)
    refused = await memory.ask(rename, "m-2")
    assert isinstance(refused, Rejected)
    assert refused.code == "conflict"
    assert all(said in refused.reason for said in ("`label`", AGENT, BLOCK, "'human'"))
    assert memory.rows()[SHARED_BLOCK]["label"] == "shared"
    same = UpdateBlock(block_id=SHARED_BLOCK, changes={"label": "shared", "value": "y"})
    assert await memory.ask(same, "m-3") == Accepted()
    memory.attach(AGENT, BLOCK)
    memory.attach("agent-2", SHARED_BLOCK)
    assert await memory.ask(rename, "m-4") == Accepted()
    assert memory.rows()[SHARED_BLOCK]["label"] == "human"


async def test_the_blocks_of_a_deleted_agent_go_unless_another_sees_them() -> None:
    memory = await Memory().start()
    await memory.ask(CreateBlocks(blocks=[HUMAN, SHARED]), "m-1")

    memory.attach("agent-2", SHARED_BLOCK)
    policies = memory.policies()
    deleted = fact(AgentDeleted, own_block_ids=[BLOCK, SHARED_BLOCK]).at(AGENT, 2)
    for _ in range(2):  # the log may tell it again
        await policies.agent_deleted(deleted, Context("e-1", actor="user-1"))
    assert memory.rows().keys() == {SHARED_BLOCK}
    [_, gone] = memory.schema.streams[BLOCK]
    assert gone.topic == "block.deleted"
    assert gone.metadata["actor"] == "user-1"
