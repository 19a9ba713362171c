"""Conversations beside an agent's own, through the handlers of a process of the agent service."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.agents import AgentDeleted, DeleteAgent
from libs.contracts.agent.conversations import (
    CreateConversation,
    DeleteConversation,
    ForkConversation,
    PreviewSystemPrompt,
    RecompileConversation,
    ToolCall,
    UpdateConversation,
)
from libs.contracts.agent.runs import StartRun
from libs.contracts.bus_messages import DEFAULT_ORG, Accepted, Context, Rejected
from libs.contracts.letta.model_configs import LLMConfig
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock
from libs.work.reconciliation import SUSPECTS_MAX
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.configuration_overrides import design_in
from services.agent.domain.conversations.conversation_state import ConversationState
from services.agent.domain.runs.step_results import ModelReply
from services.agent.handlers import agents
from services.agent.policies.delete_conversations import DeleteConversations
from tests.contract.examples import (
    AGENT,
    BESIDE,
    BLOCK,
    CONFIG,
    CONVERSATION_CONFIG,
    COPY,
    HUMAN,
    LLM,
    USAGE,
)
from tests.unit.agent.model_replies import words
from tests.unit.agent.undone_creations import CrashingBus, undo_after_a_minute
from tests.unit.agent.world import ASK, CONVERSATION, Process, World

OTHER = "conv-77777777-7777-4777-8777-777777777777"
NOBODY = Rejected(code="not_found", reason=f"Conversation with ID {BESIDE} not found")


def calls(name: str = "a", tool: str = ASK, arguments: str = "{}") -> ModelReply:
    return ModelReply("", [ToolCall(id=name, name=tool, arguments=arguments)], "tool_calls", USAGE)


@pytest.fixture
async def world() -> World:
    """An agent with a block."""
    world = World()
    await world.start_memory()
    maker = world.process("setup")
    await maker.bus.request(CreateBlocks(blocks=[HUMAN]), Context("blocks", org="org-1"))
    await world.agent(block_ids=[BLOCK])
    return world


async def made(process: Process, name: str = BESIDE, **request: Any) -> None:
    command = CreateConversation(conversation_id=name, agent_id=AGENT, request=request)
    reply = await process.tell(command, f"create-{name}")
    assert reply == Accepted(result={"conversation_id": name})


def saying(process: Process, run_id: str, text: str = "Hi", **fields: Any) -> StartRun:
    """A request to the conversation as the api sends it."""
    command = process.start_run(run_id, text, conversation_id=BESIDE, unless_busy=True, **fields)
    run = command.run.model_copy(update={"conversation_id": BESIDE})
    return command.model_copy(update={"run": run})


class TestBusy:
    async def test_a_request_is_refused_while_a_run_is_active_and_nothing_happens(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        process.drivers.stopping = True  # it accepts, and answers nothing
        await made(process)
        assert isinstance(await process.tell(saying(process, "run-1"), "m-1"), Accepted)
        story = world.story(BESIDE)
        refused = await process.tell(saying(process, "run-2"), "m-2")
        assert isinstance(refused, Rejected)
        assert refused.code == "conflict"
        assert refused.details == {"run_id": "run-1", "background": True}
        assert world.story(BESIDE) == story

    async def test_of_two_at_once_in_two_processes_one_is_refused(self, world: World) -> None:
        one, other = world.process("p-1"), world.process("p-2")
        one.drivers.stopping = other.drivers.stopping = True
        await made(one)
        replies = await asyncio.gather(
            one.tell(saying(one, "run-1"), "m-1"), other.tell(saying(other, "run-2"), "m-2")
        )
        assert sorted(reply.outcome for reply in replies) == ["accepted", "rejected"]
        assert world.story(BESIDE).count("run.accepted") == 1

    async def test_the_request_that_is_being_answered_is_not_refused_when_it_comes_again(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        process.drivers.stopping = True
        await made(process)
        first = await process.tell(saying(process, "run-1"), "run-1")
        assert await process.tell(saying(process, "run-1"), "run-1") == first
        retry = saying(process, "run-3", request_hash="hash of run-1", retry=True)
        reply = await process.tell(retry, "run-3")
        assert isinstance(reply, Accepted)
        assert reply.result["run_id"] == "run-1"

    async def test_another_message_waits_in_line_all_the_same(self, world: World) -> None:
        process = world.process("p-1", words("one"), words("two"))
        await process.say("run-1")
        refused = await process.tell(
            process.start_run("run-2").model_copy(update={"unless_busy": True}), "m-2"
        )
        assert isinstance(refused, Rejected)
        assert isinstance(await process.say("run-3"), Accepted)
        await process.idle()
        assert world.story().count("run.completed") == 2


class TestCreation:
    async def test_a_conversation_begins_with_its_system_message(self, world: World) -> None:
        process = world.process("p-1", words())
        await made(process, summary="Tea")
        assert world.story(BESIDE) == ["conversation.created", "message.appended"]
        await process.tell(saying(process, "run-1"), "m-1")
        await process.idle()
        assert world.story(BESIDE)[2:4] == ["run.accepted", "run.started"]
        [system, *_] = process.model.asked[0].messages
        assert f"CONVERSATION_ID: {BESIDE}" in str(system.content)
        assert "Name: Ada" in str(system.content)
        row = world.row("conversations", BESIDE)
        assert row["last_message_at"] is not None
        assert "system_prompt.rebuilt" not in world.story(BESIDE)

    async def test_copies_of_blocks_stand_for_the_agents_own(self, world: World) -> None:
        insert = '{"label":"human","new_string":"Likes tea"}'
        process = world.process("p-1", calls("a", "memory_insert", insert), words())
        await made(process, isolated_block_labels=["human"])
        await process.tell(saying(process, "run-1"), "m-1")
        await process.idle()
        values = {
            row["id"]: row["fields"]["value"] for row in world.queries.rows("blocks", "memory")
        }
        [copy] = world.row("conversations", BESIDE)["isolated_blocks"].values()  # type: ignore[union-attr]
        assert values == {BLOCK: "Name: Ada", copy: "Name: Ada\nLikes tea"}
        assert "Likes tea" in str(process.model.asked[1].messages[0].content)

    async def test_of_a_conversation_that_never_came_the_copies_are_deleted(
        self, world: World
    ) -> None:
        dying = world.process("p-1")
        dying.handlers.ports.bus = CrashingBus(dying, sent=True)  # type: ignore[assignment]
        command = CreateConversation(
            conversation_id=BESIDE, agent_id=AGENT, request={"isolated_block_labels": ["human"]}
        )
        with pytest.raises(BusUnavailable):
            await dying.tell(command, "m-1")
        assert len(world.queries.rows("blocks", "memory")) == 2
        process = world.process("p-2")
        await undo_after_a_minute(world, process)
        assert [row["id"] for row in world.queries.rows("blocks", "memory")] == [BLOCK]
        refused = await process.tell(command, "m-1")
        assert isinstance(refused, Rejected)
        assert refused.code == "conflict", "whoever creates it after all finds it given up"

    async def test_of_a_conversation_that_came_the_copies_stay(self, world: World) -> None:
        process = world.process("p-1")
        await made(process, isolated_block_labels=["human"])
        await undo_after_a_minute(world, process)
        assert len(world.queries.rows("blocks", "memory")) == 2


class TestForks:
    async def test_a_fork_of_a_running_conversation_can_be_answered(self, world: World) -> None:
        process = world.process("p-1", words("one"), calls(), words("in the fork"))
        await made(process)
        await process.tell(saying(process, "run-1", "First"), "m-1")
        await process.idle()
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            waiting.set()
            await go_on.wait()

        world.build_tool(process, wait)
        await process.tell(saying(process, "run-2", "Second"), "m-2")
        await waiting.wait()
        fork = ForkConversation(conversation_id=OTHER, agent_id=AGENT, source_id=BESIDE)
        assert isinstance(await process.tell(fork, "m-3"), Accepted)
        assert isinstance(await process.say("run-3", "Third", conversation_id=OTHER), Accepted)
        await process.drivers.tasks[process.drivers.attempts[OTHER]]
        said = [message.content for message in process.model.asked[-1].messages[1:]]
        assert said == ["First", "one", "Second", "Third"]
        process.model.turns.append(words("in the source"))
        go_on.set()
        await process.idle()
        assert world.story(BESIDE)[-1] == "run.completed"
        assert "in the fork" not in str(process.model.asked[-1].messages)

    async def test_a_fork_inherits_the_model_and_copies_copies(self, world: World) -> None:
        process = world.process("p-1", words())
        await made(process, summary="Tea", model=LLM.handle, isolated_block_labels=["human"])
        await process.tell(saying(process, "run-1"), "m-1")
        await process.idle()
        fork = ForkConversation(
            conversation_id=OTHER, agent_id=AGENT, source_id=BESIDE, hidden=True
        )
        await process.tell(fork, "m-2")
        source, row = world.row("conversations", BESIDE), world.row("conversations", OTHER)
        fields: Any = row["fields"]
        assert (fields["model"], fields["summary"], row["hidden"]) == (LLM.handle, None, True)
        blocks: Any = row["isolated_blocks"], source["isolated_blocks"]
        assert blocks[0].keys() == blocks[1].keys() == {BLOCK}
        assert blocks[0] != blocks[1]


class TestChange:
    @pytest.mark.parametrize("request_", [{}, {"summary": None}, {"summary": "Tea"}])
    async def test_what_changes_nothing_is_no_event(
        self, world: World, request_: dict[str, Any]
    ) -> None:
        process = world.process("p-1")
        await made(process, summary="Tea")
        command = UpdateConversation(conversation_id=BESIDE, request=request_)
        assert await process.tell(command, "m-1") == Accepted()
        assert world.story(BESIDE) == ["conversation.created", "message.appended"]

    async def test_a_change_does_not_take_back_when_it_was_spoken_in(self, world: World) -> None:
        process = world.process("p-1", words())
        await made(process)
        await process.tell(saying(process, "run-1"), "m-1")
        await process.idle()
        before = world.row("conversations", BESIDE)["last_message_at"]
        command = UpdateConversation(conversation_id=BESIDE, request={"summary": "Tea"})
        await process.tell(command, "m-2")
        row = world.row("conversations", BESIDE)
        fields: Any = row["fields"]
        assert before is not None
        assert row["last_message_at"] == before
        assert (fields["summary"], fields["last_message_at"] is None) == ("Tea", False)

    async def test_the_agents_own_conversation_is_not_changed_nor_deleted(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        for command in (
            UpdateConversation(conversation_id=CONVERSATION, request={"summary": "x"}),
            DeleteConversation(conversation_id=CONVERSATION),
        ):
            reply = await process.tell(command, f"m-{command.topic}")
            assert isinstance(reply, Rejected)
            assert reply.code == "not_found"

    async def test_a_preview_changes_nothing_and_a_new_prompt_is_one_event(
        self, world: World
    ) -> None:
        process = world.process("p-1")
        names = {"agent_id": AGENT, "conversation_id": CONVERSATION}
        before = world.story()
        shown = await process.tell(PreviewSystemPrompt(**names), "m-1")
        assert isinstance(shown, Accepted)
        assert "Name: Ada" in str(shown.result["content"])
        assert world.story() == before
        assert await process.tell(RecompileConversation(**names), "m-2") == Accepted()
        assert world.story() == [*before, "system_prompt.rebuilt"]


class TestDeletion:
    async def test_a_run_that_is_under_way_is_let_go(self, world: World) -> None:
        asked = asyncio.Event()

        async def slow() -> ModelReply:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("it is never answered")

        process = world.process("p-1", slow)
        await made(process)
        await process.tell(saying(process, "run-1"), "m-1")
        await asked.wait()
        assert await process.tell(DeleteConversation(conversation_id=BESIDE), "m-2") == Accepted()
        await process.idle()
        assert world.queries.rows("runs") == []
        assert BESIDE not in world.schema.leases
        assert await process.tell(DeleteConversation(conversation_id=BESIDE), "m-3") == NOBODY
        assert await process.tell(saying(process, "run-2"), "m-4") == NOBODY

    async def test_conversations_go_with_their_agent_however_many(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(agents, "DELETED_WITH_AGENT_MAX", 2)
        process = world.process("p-1")
        process.drivers.stopping = True
        await process.bus.serve("agent", process.shell.answer)
        policy = DeleteConversations(process.bus, world.queries, world.clock, world.ids)
        process.repository.watchers.append(policy.note_commit)
        await policy.sweep()
        for n in range(5):
            await made(process, f"{OTHER[:-1]}{n}")
        await made(process)
        await process.tell(saying(process, "run-1"), "m-1")
        assert await process.tell(DeleteAgent(agent_id=AGENT), "m-2") == Accepted()
        assert len(world.queries.rows("conversations")) == 4
        await policy.sweep()
        for table in ("agents", "conversations", "messages", "runs"):
            assert world.queries.rows(table) == []
        assert policy.suspects == set()

    async def test_another_process_finds_what_one_left_behind_when_it_died(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(agents, "DELETED_WITH_AGENT_MAX", 0)
        dying, process = world.process("p-1"), world.process("p-2")
        await process.bus.serve("agent", process.shell.answer)
        policy = DeleteConversations(process.bus, world.queries, world.clock, world.ids)
        await policy.sweep()
        await made(dying)
        await dying.tell(DeleteAgent(agent_id=AGENT), "m-1")
        await policy.sweep()
        assert len(world.queries.rows("conversations")) == 1, "it heard of nothing"
        deleted = next(e for e in world.events(AGENT) if isinstance(e, AgentDeleted))
        await policy.look_at(deleted, Context("m-1", org=DEFAULT_ORG))
        await policy.sweep()
        assert world.queries.rows("conversations") == []

    async def test_what_cannot_be_deleted_now_is_remembered(self, world: World) -> None:
        process = world.process("p-1")
        await made(process)
        policy = DeleteConversations(process.bus, world.queries, world.clock, world.ids)
        await policy.sweep()
        policy.note_commit(world.events(BESIDE)[0])
        await policy.sweep()
        assert policy.suspects == set(), "its agent is there"
        await process.tell(DeleteAgent(agent_id=AGENT), "m-1")
        policy.suspects = {f"agent-{n}" for n in range(SUSPECTS_MAX)}
        policy.note_commit(world.events(BESIDE)[0])
        assert (policy.suspects, policy.look_at_all_at) == (set(), -math.inf)


class TestTakeover:
    async def test_a_process_that_dies_in_mid_turn_costs_the_conversation_nothing(
        self, world: World
    ) -> None:
        asked = asyncio.Event()

        async def slow() -> ModelReply:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("the process dies before")

        insert = '{"label":"human","new_string":"Likes tea"}'
        dying = world.process("p-1", calls("a", "memory_insert", insert), slow)
        await made(dying, isolated_block_labels=["human"])
        await dying.tell(saying(dying, "run-1"), "m-1")
        await asked.wait()
        for task in dying.drivers.tasks.values():
            task.cancel()
        world.lease_expires()
        process = world.process("p-2", words("after all"))
        await process.drivers.sweep()
        await process.idle()
        assert world.story(BESIDE)[-1] == "run.completed"
        assert world.story(BESIDE).count("tool_call.started") == 1
        [system, *_] = process.model.asked[0].messages
        assert "Likes tea" in str(system.content), "the conversation's own block is shown"
        assert f"CONVERSATION_ID: {BESIDE}" in str(system.content)
        busy = await process.tell(saying(process, "run-2"), "m-2")
        assert isinstance(busy, Accepted), "it is not blocked"


class TestDesign:
    DESIGN = AgentDesign(config=CONFIG, tools=[], tags=[], block_ids=["block-1", BLOCK])

    def test_in_its_own_conversation_an_agent_is_as_it_is(self) -> None:
        assert design_in(ConversationState(), self.DESIGN) is self.DESIGN

    def test_blocks_stand_where_their_originals_stand(self) -> None:
        inside = design_in(ConversationState(own=CONVERSATION_CONFIG), self.DESIGN)
        assert inside.block_ids == ["block-1", COPY]
        assert self.DESIGN.block_ids == ["block-1", BLOCK]

    def test_model_settings_and_window_are_the_conversations(self) -> None:
        larger: LLMConfig = LLM.model_copy(
            update={"model": "gpt-4o", "handle": "openai/gpt-4o", "context_window": 500_000}
        )
        own = CONVERSATION_CONFIG.model_copy(update={"llm_config": larger})
        llm = design_in(ConversationState(own=own), self.DESIGN).config.llm_config
        assert (llm.model, llm.temperature) == ("gpt-4o", 0.5)
        assert llm.context_window == LLM.context_window, "the agent's, though it has more"
        own = own.model_copy(update={"context_window_limit": 9_000})
        llm = design_in(ConversationState(own=own), self.DESIGN).config.llm_config
        assert llm.context_window == 9_000

    def test_settings_alone_change_the_agents_model(self) -> None:
        own = CONVERSATION_CONFIG.model_copy(update={"model": None, "llm_config": None})
        llm = design_in(ConversationState(own=own), self.DESIGN).config.llm_config
        assert (llm.handle, llm.temperature) == (LLM.handle, 0.5)
        assert llm.max_tokens == LLM.max_tokens, "a default is no wish"


async def test_a_copy_that_somebody_deleted_is_not_shown_and_the_fork_has_none(
    world: World,
) -> None:
    process = world.process("p-1", words())
    await made(process, isolated_block_labels=["human"])
    [copy] = world.row("conversations", BESIDE)["isolated_blocks"].values()  # type: ignore[union-attr]
    await process.bus.request(DeleteBlock(block_id=str(copy)), Context("m-1", org="org-1"))
    await process.tell(saying(process, "run-1"), "m-2")
    await process.idle()
    assert "Name: Ada" not in str(process.model.asked[0].messages[0].content)
    fork = ForkConversation(conversation_id=OTHER, agent_id=AGENT, source_id=BESIDE)
    await process.tell(fork, "m-3")
    assert world.row("conversations", OTHER)["isolated_blocks"] == {}
