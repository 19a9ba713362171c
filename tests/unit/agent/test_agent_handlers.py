"""Commands to the agent service on the twins; agents are made across two services."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts.agent import (
    AttachBlock,
    BlockAttached,
    CreateAgent,
    DeleteAgent,
    DetachBlock,
    UpdateAgent,
)
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory import BlockDeleted, CreateBlocks, DeleteBlock
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.policies.detach_deleted_blocks import UNSURE_MAX, DetachDeletedBlocks
from tests.contract.examples import AGENT, BLOCK, EMBEDDING, HUMAN, LLM, SHARED_BLOCK
from tests.unit.agent.world import CONVERSATION, FakeClock, Process, World
from tests.unit.given import fact

SHARED = HUMAN.model_copy(update={"id": SHARED_BLOCK, "label": "shared"})
OWN = derived_id("block", AGENT, "0")
BLOCKS = [{"label": "human", "value": "Name: Ada"}, {"label": "persona", "value": "Kind"}]


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    return world


def wanted(**fields: Any) -> CreateAgent:
    return CreateAgent(agent_id=AGENT, request={"model": LLM.handle, **fields})


async def make_blocks(process: Process) -> None:
    reply = await process.bus.request(
        CreateBlocks(blocks=[HUMAN, SHARED]), Context("blocks", org="org-1")
    )
    assert reply == Accepted()


def memory_rows(world: World) -> dict[Any, Any]:
    return {row["id"]: row for row in world.database.schema("memory").rows("blocks")}


class CrashingBus:
    """A bus at which the process dies: before the command is sent, or after it took effect."""

    def __init__(self, process: Process, *, sent: bool) -> None:
        self.bus = process.bus
        self.sent = sent

    async def request(self, command: Command, context: Context) -> Accepted | Rejected:
        if self.sent:
            await self.bus.request(command, context)
        raise BusUnavailable("the process is gone")


class FastClock(FakeClock):
    """A clock that somebody has set twelve minutes ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=12)


class TestCreation:
    async def test_an_agent_with_its_blocks_its_conversation_and_its_first_messages(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        first = [
            {"role": "assistant", "content": "Hello, I am new."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        ]
        command = wanted(
            name="Ada", memory_blocks=BLOCKS, tags=["b"], initial_message_sequence=first
        )
        assert await process.tell(command, "m-1") == Accepted(result={"agent_id": AGENT})
        assert world.story(AGENT) == ["agent.requested", "agent.created"]
        row = world.row("agents", AGENT)
        assert (row["name"], row["tags"], row["org"]) == ("Ada", ["b"], "org-1")
        assert row["block_ids"] == [OWN, derived_id("block", AGENT, "1")]
        assert row["conversation_id"] == CONVERSATION
        assert world.schema.rows("creations") == []
        assert [one["label"] for one in memory_rows(world).values()] == ["human", "persona"]
        system, hello, hi = world.schema.rows("messages")
        assert "Name: Ada" in str(system["text"])
        assert (hello["role"], hello["text"]) == ("assistant", "Hello, I am new.")
        assert (hi["role"], hi["text"]) == ("user", "Hi")

    async def test_an_agent_without_blocks_of_its_own_is_there_at_once(self, world: World) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        command = wanted(block_ids=[SHARED_BLOCK], embedding=EMBEDDING.handle)
        assert isinstance(await process.tell(command, "m-1"), Accepted)
        assert world.story(AGENT) == ["agent.created"]
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]

    async def test_a_command_that_comes_twice_makes_one_agent(self, world: World) -> None:
        process = world.process("p-1")
        first = await process.tell(wanted(memory_blocks=BLOCKS), "m-1")
        assert await process.tell(wanted(memory_blocks=BLOCKS), "m-1") == first
        assert await process.tell(wanted(memory_blocks=BLOCKS), "m-2") == first
        assert world.story(AGENT) == ["agent.requested", "agent.created"]
        assert len(memory_rows(world)) == 2

    @pytest.mark.parametrize(
        ("fields", "code", "words"),
        [
            ({"model": "openai/unknown"}, "not_found", "openai/unknown"),
            ({"model": ""}, "not_found", "Handle"),
            ({"model": None}, "invalid", "model"),
            ({"embedding": "openai/away"}, "unavailable", "openai/away"),
            ({"block_ids": [BLOCK]}, "not_found", BLOCK),
            ({"timezone": "Mars/Olympus"}, "invalid", "Mars/Olympus"),
        ],
    )
    async def test_an_agent_that_cannot_be_is_refused_and_leaves_nothing(
        self, world: World, fields: Any, code: str, words: str
    ) -> None:
        reply = await world.process("p-1").tell(wanted(**fields), "m-1")
        assert isinstance(reply, Rejected)
        assert reply.code == code
        assert words in reply.reason
        assert world.schema.committed == []

    async def test_a_refusal_by_memory_gives_the_agent_up_and_is_remembered(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        too_long = [{"label": "human", "value": "x" * 10, "limit": 5}]
        refused = await process.tell(wanted(memory_blocks=too_long), "m-1")
        assert isinstance(refused, Rejected)
        assert refused.code == "unprocessable"
        assert "10 characters" in refused.reason
        assert world.story(AGENT) == ["agent.requested", "agent.abandoned"]
        assert world.schema.rows("creations") == []
        assert memory_rows(world) == {}
        assert await process.tell(wanted(memory_blocks=too_long), "m-1") == refused

    @pytest.mark.parametrize("sent", [False, True], ids=["before memory", "after memory"])
    async def test_a_crash_between_the_services_is_mended_by_the_sweeper(
        self, world: World, sent: bool
    ) -> None:
        dying = world.process("p-1")
        dying.handlers.bus = CrashingBus(dying, sent=sent)  # type: ignore[assignment]
        with pytest.raises(BusUnavailable):
            await dying.tell(wanted(memory_blocks=BLOCKS), "m-1")
        assert world.story(AGENT) == ["agent.requested"]
        assert world.schema.rows("agents") == []
        [creation] = world.schema.rows("creations")
        assert (creation["agent_id"], creation["actor"]) == (AGENT, "user-1")
        process = world.process("p-2")
        await process.handlers.sweep_creations()
        assert world.story(AGENT) == ["agent.requested"], "somebody may still be working on it"
        world.clock.seconds += 16
        await process.handlers.sweep_creations()
        assert world.story(AGENT) == ["agent.requested", "agent.created"]
        assert world.row("agents", AGENT)["block_ids"] == list(memory_rows(world))
        assert len(memory_rows(world)) == 2
        assert world.schema.rows("creations") == []
        reply = await process.tell(wanted(memory_blocks=BLOCKS), "m-1")
        assert reply == Accepted(result={"agent_id": AGENT})

    async def test_a_creation_by_a_process_whose_clock_was_wrong_is_finished_as_soon(
        self, world: World
    ) -> None:
        dying = world.process("p-1")
        dying.handlers.bus = CrashingBus(dying, sent=False)  # type: ignore[assignment]
        dying.handlers.clock = FastClock()
        with pytest.raises(BusUnavailable):
            await dying.tell(wanted(memory_blocks=BLOCKS), "m-1")
        [creation] = world.schema.rows("creations")
        assert datetime.fromisoformat(creation["requested_at"]) > world.clock.now()
        process = world.process("p-2")
        await process.handlers.sweep_creations()
        world.clock.seconds += 16
        await process.handlers.sweep_creations()
        assert world.story(AGENT) == ["agent.requested", "agent.created"]

    async def test_the_command_itself_finishes_what_was_begun(self, world: World) -> None:
        dying = world.process("p-1")
        dying.handlers.bus = CrashingBus(dying, sent=True)  # type: ignore[assignment]
        with pytest.raises(BusUnavailable):
            await dying.tell(wanted(memory_blocks=BLOCKS), "m-1")
        reply = await world.process("p-2").tell(wanted(memory_blocks=BLOCKS), "m-1")
        assert reply == Accepted(result={"agent_id": AGENT})
        assert world.story(AGENT) == ["agent.requested", "agent.created"]

    async def test_a_creation_that_was_begun_is_not_finished_for_another_request(
        self, world: World
    ) -> None:
        dying = world.process("p-1")
        dying.handlers.bus = CrashingBus(dying, sent=True)  # type: ignore[assignment]
        with pytest.raises(BusUnavailable):
            await dying.tell(wanted(memory_blocks=BLOCKS), "m-1", fingerprint="one")
        process = world.process("p-2")
        other = await process.tell(wanted(memory_blocks=[]), "m-1", fingerprint="two")
        assert isinstance(other, Rejected)
        assert other.code == "conflict"
        assert "Idempotency-Key" in other.reason
        assert world.story(AGENT) == ["agent.requested"]
        reply = await process.tell(wanted(memory_blocks=BLOCKS), "m-1", fingerprint="one")
        assert isinstance(reply, Accepted)
        other = await process.tell(wanted(memory_blocks=[]), "m-1", fingerprint="two")
        assert isinstance(other, Rejected)

    async def test_the_sweeper_gives_up_what_memory_refuses(self, world: World) -> None:
        dying = world.process("p-1")
        dying.handlers.bus = CrashingBus(dying, sent=False)  # type: ignore[assignment]
        too_long = [{"label": "human", "value": "x" * 10, "limit": 5}]
        with pytest.raises(BusUnavailable):
            await dying.tell(wanted(memory_blocks=too_long), "m-1")
        process = world.process("p-2")
        await process.handlers.sweep_creations()
        world.clock.seconds += 16
        await process.handlers.sweep_creations()
        assert world.story(AGENT) == ["agent.requested", "agent.abandoned"]
        assert world.schema.rows("creations") == []


class TestChange:
    async def test_an_update_changes_what_it_names(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1")
        command = UpdateAgent(agent_id=AGENT, request={"name": "Grace", "tags": ["x"]})
        world.clock.seconds = 5
        assert await process.tell(command, "m-1") == Accepted()
        row = world.row("agents", AGENT)
        assert (row["name"], row["tags"]) == ("Grace", ["x"])
        assert datetime.fromisoformat(str(row["updated_at"])) == world.clock.now()
        assert '"last_updated_by_id":"user-1"' in str(row["body"])

    async def test_an_empty_update_is_not_an_event(self, world: World) -> None:
        await world.agent()
        command = UpdateAgent(agent_id=AGENT, request={})
        assert await world.process("p-1").tell(command, "m-1") == Accepted()
        assert world.story(AGENT) == ["agent.created"]

    @pytest.mark.parametrize(
        ("request_", "code"),
        [
            ({"model": ""}, "not_found"),
            ({"model": "openai/unknown"}, "not_found"),
            ({"timezone": "Mars/Olympus"}, "invalid"),
            ({"block_ids": [BLOCK]}, "not_found"),
        ],
    )
    async def test_an_update_that_cannot_be_is_refused(
        self, world: World, request_: Any, code: str
    ) -> None:
        await world.agent()
        reply = await world.process("p-1").tell(
            UpdateAgent(agent_id=AGENT, request=request_), "m-1"
        )
        assert isinstance(reply, Rejected)
        assert reply.code == code
        assert world.story(AGENT) == ["agent.created"]

    async def test_blocks_are_attached_and_detached(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1")
        await make_blocks(process)
        for n, block_id in enumerate([BLOCK, SHARED_BLOCK]):
            command = AttachBlock(agent_id=AGENT, block_id=block_id)
            assert await process.tell(command, f"attach-{n}") == Accepted()
        assert world.row("agents", AGENT)["block_ids"] == [BLOCK, SHARED_BLOCK]
        detach = DetachBlock(agent_id=AGENT, block_id=BLOCK)
        assert await process.tell(detach, "detach-1") == Accepted()
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
        again = await process.tell(detach, "detach-2")
        assert isinstance(again, Rejected)
        assert again.code == "not_found"

    async def test_a_deleted_agent_is_gone_with_all_that_was_said(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1")
        assert await process.tell(DeleteAgent(agent_id=AGENT), "m-1") == Accepted()
        for table in ("agents", "messages", "runs"):
            assert world.schema.rows(table) == []
        for command in (
            DeleteAgent(agent_id=AGENT),
            UpdateAgent(agent_id=AGENT, request={"name": "x"}),
            AttachBlock(agent_id=AGENT, block_id=BLOCK),
            DetachBlock(agent_id=AGENT, block_id=BLOCK),
        ):
            reply = await process.tell(command, f"after-{command.topic}")
            assert reply == Rejected(code="not_found", reason=f"Agent with ID {AGENT} not found")
        assert not process.repository.cache, "what is deleted takes no room"

    async def test_a_deleted_block_is_seen_by_no_agent_any_more(self, world: World) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await world.agent(block_ids=[BLOCK, SHARED_BLOCK])
        await process.bus.serve("agent", process.shell.answer)
        await process.bus.request(DeleteBlock(block_id=BLOCK), Context("m-1", org="org-1"))
        policies = DetachDeletedBlocks(process.bus, world.queries, world.ids)
        deleted = fact(BlockDeleted).at(BLOCK, 2)
        for _ in range(2):  # the log may tell it again
            await policies.block_deleted(deleted, Context("e-1", org="org-1"))
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
        assert world.story(AGENT) == ["agent.created", "agent.block_detached"]

    async def test_a_block_that_was_deleted_just_before_an_agent_got_it_is_not_seen_for_long(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await process.bus.serve("agent", process.shell.answer)
        policies = DetachDeletedBlocks(process.bus, world.queries, world.ids)
        await policies.sweep()  # everybody, once; there is nobody yet
        await process.bus.request(DeleteBlock(block_id=BLOCK), Context("m-1", org="org-1"))
        await policies.block_deleted(fact(BlockDeleted).at(BLOCK, 2), Context("e-1", org="org-1"))
        await world.agent(block_ids=[BLOCK, SHARED_BLOCK])
        await policies.sweep()
        assert world.row("agents", AGENT)["block_ids"] == [BLOCK, SHARED_BLOCK], "nobody noted it"
        attached = fact(BlockAttached, block_id=BLOCK, block_ids=[BLOCK, SHARED_BLOCK])
        policies.committed(attached.at(AGENT, 2))
        await policies.sweep()
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
        assert policies.unsure == set()

    async def test_who_may_have_got_a_block_is_looked_at_too(self, world: World) -> None:
        process = world.process("p-1")
        policies = DetachDeletedBlocks(process.bus, world.queries, world.ids)
        await policies.sweep()

        async def lost(command: Command, work: UnitOfWork) -> Accepted | Rejected:
            raise StoreUnavailable("whether it was committed is not known")

        command = AttachBlock(agent_id=AGENT, block_id=BLOCK)
        with pytest.raises(StoreUnavailable):
            await policies.noting(lost)(
                command, process.repository.work(Context("m-1", org="org-1"))
            )
        assert policies.unsure == {AGENT}
        policies.look_again({f"agent-{n}" for n in range(UNSURE_MAX)})
        assert policies.unsure is None, "so many are not remembered one by one"

    async def test_a_process_looks_once_at_all_agents_when_it_starts(self, world: World) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await process.bus.serve("agent", process.shell.answer)
        await process.bus.request(DeleteBlock(block_id=BLOCK), Context("m-1", org="org-1"))
        await world.agent(block_ids=[BLOCK, SHARED_BLOCK])
        await DetachDeletedBlocks(process.bus, world.queries, world.ids).sweep()
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
