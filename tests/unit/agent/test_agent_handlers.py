"""Commands to the agent service on the twins; agents are made across two services."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime
from typing import Any

import pytest

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import BusUnavailable
from libs.contracts.agent.agents import (
    AttachBlock,
    BlockAttached,
    CreateAgent,
    DeleteAgent,
    DetachBlock,
    UpdateAgent,
)
from libs.contracts.agent.conversations import Usage
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Context, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.blocks import BlockDeleted, CreateBlocks, DeleteBlock
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.reconciliation import LATE_SECONDS, SUSPECTS_MAX
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import ModelReply
from services.agent.policies.detach_deleted_resources import detach_deleted_blocks
from services.agent.policies.undo_unfinished_creations import (
    LOOK_SECONDS,
    UNFINISHED_SECONDS,
)
from tests.contract.examples import AGENT, BLOCK, EMBEDDING, HUMAN, LLM, SHARED_BLOCK
from tests.unit.agent.undone_creations import CrashingBus, undo_after_a_minute, undoing
from tests.unit.agent.world import CONVERSATION, Process, World
from tests.unit.given import fact
from tests.waiting import wait_for

SHARED = HUMAN.model_copy(update={"id": SHARED_BLOCK, "label": "shared"})
OWN = derived_id("block", AGENT, "0")
TOO_LONG = [{"label": "human", "value": "x" * 10, "limit": 5}]
HELLO = ModelReply("Hello", [], "stop", Usage())
BLOCKS = [{"label": "human", "value": "Name: Ada"}, {"label": "persona", "value": "Kind"}]


def wanted(**fields: Any) -> CreateAgent:
    return CreateAgent(agent_id=AGENT, request={"model": LLM.handle, **fields})


async def make_blocks(process: Process) -> None:
    reply = await process.bus.request(
        CreateBlocks(blocks=[HUMAN, SHARED]), Context("blocks", org="org-1")
    )
    assert reply == Accepted()


def memory_rows(world: World) -> dict[Any, Any]:
    return {row["id"]: row for row in world.database.schema("memory").rows("blocks")}


class LateBus:
    """A bus at which the process stands still for a while when the blocks are made."""

    def __init__(self, process: Process) -> None:
        self.bus = process.bus
        self.made = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def request(self, command: Command, context: Context, **_: Any) -> Accepted | Rejected:
        reply = await self.bus.request(command, context)
        self.made.set()
        await self.goes_on.wait()
        return reply


class UnavailableBus:
    """A bus that is lost once somebody waits for the conversation."""

    def __init__(self, locks: AggregateLocks) -> None:
        self.locks = locks

    async def request(self, command: Command, context: Context, **_: Any) -> Accepted | Rejected:
        await wait_for("one that waits", lambda: self.locks.queues[CONVERSATION].others)
        raise BusUnavailable("lost")


async def begin_and_die(world: World, *, sent: bool, fingerprint: str = "") -> None:
    """A process dies while it creates an agent, before or after its blocks were made."""
    dying = world.process("p-1")
    dying.handlers.ports.bus = CrashingBus(dying, sent=sent)  # type: ignore[assignment]
    with pytest.raises(BusUnavailable):
        await dying.tell(wanted(memory_blocks=BLOCKS), "m-1", fingerprint=fingerprint)
    assert world.schema.committed == []


class TestCreation:
    async def test_a_late_copy_leaves_alone_what_a_run_is_asking_from(self, world: World) -> None:
        """It comes to a process that knows the agent's conversation and not the agent."""
        first, process = world.process("p-1"), world.process("p-2", HELLO)
        made = await first.tell(wanted(), "m-1")
        assert isinstance(await process.say("run-1"), Accepted)
        running = process.repository.find_cached(Conversation, CONVERSATION, org="org-1")
        process.repository.drop(AGENT)
        assert await process.tell(wanted(), "m-1") == made
        assert running is not None
        assert [message.role for message in running.state.window].count("system") == 1
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "completed"

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
        assert world.story(AGENT) == ["agent.created"]
        row = world.row("agents", AGENT)
        assert (row["name"], row["tags"], row["org"]) == ("Ada", ["b"], "org-1")
        assert row["block_ids"] == [OWN, derived_id("block", AGENT, "1")]
        assert row["conversation_id"] == CONVERSATION
        assert world.schema.rows("creations") == []
        assert [row["label"] for row in memory_rows(world).values()] == ["human", "persona"]
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
        assert world.story(AGENT) == ["agent.created"]
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

    async def test_a_refusal_by_memory_is_the_answer_and_leaves_nothing(self, world: World) -> None:
        process = world.process("p-1")
        refused = await process.tell(wanted(memory_blocks=TOO_LONG), "m-1")
        assert isinstance(refused, Rejected)
        assert refused.code == "unprocessable"
        assert "10 characters" in refused.reason
        assert world.schema.committed == []
        assert memory_rows(world) == {}
        assert await process.tell(wanted(memory_blocks=TOO_LONG), "m-1") == refused

    async def test_where_its_blocks_are_not_made_nothing_stays_locked(self, world: World) -> None:
        process = world.process("p-1")
        locks = process.handlers.ports.engine.ports.locks
        process.handlers.ports.bus = UnavailableBus(locks)  # type: ignore[assignment]
        async with locks.hold(CONVERSATION):
            with pytest.raises(BusUnavailable):
                await process.tell(wanted(memory_blocks=BLOCKS), "m-1")
        assert locks.queues == {}

    async def test_the_command_itself_finishes_what_was_begun(self, world: World) -> None:
        await begin_and_die(world, sent=True)
        reply = await world.process("p-2").tell(wanted(memory_blocks=BLOCKS), "m-1")
        assert reply == Accepted(result={"agent_id": AGENT})
        assert world.story(AGENT) == ["agent.created"]
        assert world.row("agents", AGENT)["block_ids"] == list(memory_rows(world))
        assert len(memory_rows(world)) == 2

    async def test_blocks_that_were_made_for_one_request_are_not_those_of_another(
        self, world: World
    ) -> None:
        await begin_and_die(world, sent=True, fingerprint="one")
        process = world.process("p-2")
        other = await process.tell(wanted(memory_blocks=BLOCKS[:1]), "m-1", fingerprint="two")
        assert isinstance(other, Rejected)
        assert other.code == "conflict"
        assert world.schema.committed == []
        reply = await process.tell(wanted(memory_blocks=BLOCKS), "m-1", fingerprint="one")
        assert isinstance(reply, Accepted)
        other = await process.tell(wanted(memory_blocks=[]), "m-1", fingerprint="two")
        assert isinstance(other, Rejected)
        assert "Idempotency-Key" in other.reason


class TestInterruptedCreation:
    """A process died when the blocks were made, and nobody sends the command again."""

    @pytest.mark.parametrize("sent", [False, True], ids=["before memory", "after memory"])
    async def test_it_is_undone_after_a_minute(self, world: World, sent: bool) -> None:
        await begin_and_die(world, sent=sent)
        assert len(memory_rows(world)) == (2 if sent else 0)
        process = world.process("p-2")
        undo = await undoing(world, process)
        await undo.sweep()
        world.clock.seconds += UNFINISHED_SECONDS - 1
        await undo.sweep()
        assert len(memory_rows(world)) == (2 if sent else 0), "somebody may be working on it"
        world.clock.seconds += 1 + LOOK_SECONDS
        await undo.sweep()
        assert memory_rows(world) == {}
        assert world.story(AGENT) == (["agent.abandoned"] if sent else [])
        reply = await process.tell(wanted(memory_blocks=BLOCKS), "m-1")
        if sent:
            assert isinstance(reply, Rejected)
            assert reply.code == "conflict"
            assert "another Idempotency-Key" in reply.reason
        else:
            assert isinstance(reply, Accepted)

    async def test_what_came_meanwhile_stays(self, world: World) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        assert isinstance(await process.tell(wanted(memory_blocks=BLOCKS), "m-1"), Accepted)
        await undo_after_a_minute(world, process)
        assert world.story(AGENT) == ["agent.created"]
        assert len(memory_rows(world)) == 4

    async def test_what_another_request_was_finished_without_is_deleted(self, world: World) -> None:
        await begin_and_die(world, sent=True, fingerprint="one")
        process = world.process("p-2")
        other = wanted(memory_blocks=[])
        assert isinstance(await process.tell(other, "m-1", fingerprint="two"), Accepted)
        await undo_after_a_minute(world, process)
        assert world.story(AGENT) == ["agent.created"]
        assert memory_rows(world) == {}

    async def test_who_creates_it_in_the_same_moment_is_refused(self, world: World) -> None:
        late = world.process("p-1")
        bus = LateBus(late)
        late.handlers.ports.bus = bus  # type: ignore[assignment]
        creating = asyncio.create_task(late.tell(wanted(memory_blocks=BLOCKS), "m-1"))
        await bus.made.wait()
        await undo_after_a_minute(world, world.process("p-2"))
        bus.goes_on.set()
        refused = await creating
        assert isinstance(refused, Rejected)
        assert refused.code == "conflict"
        assert world.story(AGENT) == ["agent.abandoned"]
        assert memory_rows(world) == {}

    async def test_it_is_undone_once_by_several_processes(self, world: World) -> None:
        await begin_and_die(world, sent=True)
        undoers = [await undoing(world, world.process(f"p-{n}")) for n in (2, 3)]
        for _ in range(3):
            await asyncio.gather(*(undoer.sweep() for undoer in undoers))
            world.clock.seconds += UNFINISHED_SECONDS
        assert world.story(AGENT) == ["agent.abandoned"]
        assert memory_rows(world) == {}

    async def test_the_block_of_an_agent_that_another_organisation_has_is_deleted(
        self, world: World
    ) -> None:
        await begin_and_die(world, sent=True)
        process = world.process("p-2")
        theirs = CreateAgent(agent_id=AGENT, request={"model": LLM.handle})
        work = process.repository.work(Context("m-2", org="org-2", actor="user-2"))
        assert isinstance(await process.handlers.agents.create_agent(theirs, work), Accepted)
        await work.commit()
        await undo_after_a_minute(world, process)
        assert world.story(AGENT) == ["agent.created"]
        assert memory_rows(world) == {}

    async def test_it_is_undone_when_memory_answers_again(self, world: World) -> None:
        await begin_and_die(world, sent=True)
        process = world.process("p-2")
        undo = await undoing(world, process)
        undo.bus = CrashingBus(process, sent=False)  # type: ignore[assignment]
        await undo.sweep()
        world.clock.seconds += UNFINISHED_SECONDS
        await undo.sweep()
        assert len(memory_rows(world)) == 2
        undo.bus = process.bus
        world.clock.seconds += LOOK_SECONDS
        await undo.sweep()
        assert memory_rows(world) == {}


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
            attached = await process.tell(command, f"attach-{n}")
            assert attached == Accepted(result={"attached": True})
        again = await process.tell(command, "attach-again")
        assert again == Accepted(result={"attached": False})
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
        policies = detach_deleted_blocks(process.bus, world.queries, world.clock, world.ids)
        deleted = fact(BlockDeleted).at(BLOCK, 2)
        for _ in range(2):  # the log may tell it again
            await policies.detach_everywhere(deleted, Context("e-1", org="org-1"))
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
        assert world.story(AGENT) == ["agent.created", "agent.block_detached"]

    async def test_a_block_that_was_deleted_just_before_an_agent_got_it_is_not_seen_for_long(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await process.bus.serve("agent", process.shell.answer)
        policies = detach_deleted_blocks(process.bus, world.queries, world.clock, world.ids)
        await policies.sweep()  # everybody, once; there is nobody yet
        await process.bus.request(DeleteBlock(block_id=BLOCK), Context("m-1", org="org-1"))
        await policies.detach_everywhere(
            fact(BlockDeleted).at(BLOCK, 2), Context("e-1", org="org-1")
        )
        await world.agent(block_ids=[BLOCK, SHARED_BLOCK])
        await policies.sweep()
        assert world.row("agents", AGENT)["block_ids"] == [BLOCK, SHARED_BLOCK], "nobody noted it"
        attached = fact(BlockAttached, block_id=BLOCK, block_ids=[BLOCK, SHARED_BLOCK])
        policies.note_commit(attached.at(AGENT, 2))
        await policies.sweep()
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
        assert policies.suspects == set()

    async def test_who_may_have_got_a_block_is_looked_at_too(self, world: World) -> None:
        process = world.process("p-1")
        policies = detach_deleted_blocks(process.bus, world.queries, world.clock, world.ids)
        await policies.sweep()

        async def lost(command: Command, work: UnitOfWork) -> Accepted | Rejected:
            raise StoreUnavailable("whether it was committed is not known")

        command = AttachBlock(agent_id=AGENT, block_id=BLOCK)
        with pytest.raises(StoreUnavailable):
            await policies.noting(lost)(
                command, process.repository.work(Context("m-1", org="org-1"))
            )
        assert policies.suspects == {AGENT}
        for number in range(SUSPECTS_MAX):
            policies.suspect(f"agent-{number}")
        assert (policies.suspects, policies.look_at_all_at) == (set(), -math.inf), (
            "so many are not remembered one by one"
        )

    async def test_a_commit_that_is_made_after_its_command_was_given_up_is_looked_at(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await process.bus.serve("agent", process.shell.answer)
        policies = detach_deleted_blocks(process.bus, world.queries, world.clock, world.ids)
        await policies.sweep()
        await process.bus.request(DeleteBlock(block_id=BLOCK), Context("m-1", org="org-1"))

        async def refused(command: Command, work: UnitOfWork) -> Accepted | Rejected:
            return Rejected(code=NOT_FOUND, reason="the block is gone")

        work = process.repository.work(Context("m-2", org="org-1"))
        await policies.noting(refused)(AttachBlock(agent_id=AGENT, block_id=BLOCK), work)
        await policies.sweep()
        await world.agent(block_ids=[BLOCK, SHARED_BLOCK])  # the commit of another try
        await policies.sweep()
        assert world.row("agents", AGENT)["block_ids"] == [BLOCK, SHARED_BLOCK]
        await world.clock.sleep(LATE_SECONDS)
        await policies.sweep()
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
        assert policies.suspects_later == {}

    async def test_who_is_known_to_be_committed_is_not_looked_at_later(self, world: World) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await world.agent()
        policies = detach_deleted_blocks(process.bus, world.queries, world.clock, world.ids)
        attach = policies.noting(process.handlers.agents.attach_block)
        for message_id, left in (("m-1", []), ("m-2", [AGENT])):  # the second changes nothing
            work = process.repository.work(Context(message_id, org="org-1"))
            await attach(AttachBlock(agent_id=AGENT, block_id=BLOCK), work)
            assert [*policies.suspects_later] == [AGENT]
            await work.commit(reply=Accepted())
            assert [*policies.suspects_later] == left

    async def test_a_process_looks_once_at_all_agents_when_it_starts(self, world: World) -> None:
        process = world.process("p-1")
        await make_blocks(process)
        await process.bus.serve("agent", process.shell.answer)
        await process.bus.request(DeleteBlock(block_id=BLOCK), Context("m-1", org="org-1"))
        await world.agent(block_ids=[BLOCK, SHARED_BLOCK])
        await detach_deleted_blocks(process.bus, world.queries, world.clock, world.ids).sweep()
        assert world.row("agents", AGENT)["block_ids"] == [SHARED_BLOCK]
