"""Calls that wait for the client (R23, S17): asked about, answered, cancelled, expired."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.agent.agents import DeleteAgent, UpdateAgent
from libs.contracts.agent.approvals import (
    AnswerApproval,
    ApprovalAnswered,
    ApprovalCancelled,
    ApprovalExpired,
    ApprovalRequested,
    CallAnswer,
    SetToolApproval,
    arguments_hash,
)
from libs.contracts.agent.compaction import ClearContext, CompactConversation
from libs.contracts.agent.conversations import BoundTool, ToolCall
from libs.contracts.agent.runs import CancelRuns, ClientSkill, ClientTool, RunAccepted
from libs.contracts.agent.steps import ToolCallStarted
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import INVALID, NOT_FOUND, PENDING_APPROVAL, Accepted, Rejected
from libs.contracts.letta.enums import AgentType
from libs.contracts.tools.base_tools.definition import tool_id
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.runs.approval_resolution import answer
from services.agent.domain.runs.client_call_answers import ENDED, NOT_APPROVED, UNAPPROVED
from services.agent.domain.runs.run_progress import go_on
from services.agent.domain.runs.run_requests import Terms
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.settings import APPROVAL_SECONDS_MAX
from tests.contract.examples import AGENT, RUN_CONFIG
from tests.unit.agent.approvals import KEEP, RULE, approved, asked, conversation, results, run_end
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import ASK, CONVERSATION, Process, World
from tests.unit.given import NOW

BOUND = KEEP.model_copy(update={"bound": BoundTool(id=tool_id(ASK))})
LOOK = ToolCall(id="call_2", name="conversation_search", arguments='{"query":"tea"}')
LIST = ToolCall(id="call_3", name="list_files", arguments='{"path":"/"}')
LIST_FILES = ClientTool(name="list_files", description="List files.")
DAY_SECONDS = 86_400


def denied(call: ToolCall = KEEP, reason: str | None = None) -> CallAnswer:
    return CallAnswer(tool_call_id=call.id, kind="denied", reason=reason)


def returned(call: ToolCall, content: Any = "README.md", **fields: Any) -> CallAnswer:
    return CallAnswer(tool_call_id=call.id, kind="returned", content=content, **fields)


async def client_asked(world: World, *step: ToolCall) -> Process:
    """The same with a tool of the client."""
    await world.agent(tool_rules=[])
    process = world.process("p-1", calls(*step), words(), words())
    world.build_tool(process)
    plain = process.start_run("run-1")
    command = plain.model_copy(update={"client_tools": [LIST_FILES]})
    assert isinstance(await process.tell(command, "say-run-1"), Accepted)
    await process.idle()
    return process


def started(world: World) -> list[str]:
    return [event.tool_call_id for event in world.events() if isinstance(event, ToolCallStarted)]


class TestAsking:
    async def test_a_gated_call_ends_the_run_and_is_not_carried_out(self, world: World) -> None:
        process = await asked(world)
        assert run_end(world, "run-1") == ("completed", "requires_approval")
        assert (world.tool_runs, started(world)) == ([], [])
        assert world.lease_is_free()
        [request] = [event for event in world.events() if isinstance(event, ApprovalRequested)]
        state = (await conversation(process)).state
        assert state.approval is not None
        assert state.approval.message_id == request.message_id == state.window[-1].id
        assert [call.arguments_hash for call in request.calls] == [arguments_hash(BOUND)]
        [row] = world.schema.rows("approvals")
        assert (row["conversation_id"], row["message_id"]) == (CONVERSATION, request.message_id)
        [v1_message] = world.row("messages", request.message_id)["v1_messages"]
        assert v1_message["message_type"] == "approval_request_message"
        assert v1_message["tool_calls"][0]["tool_call_id"] == KEEP.id

    async def test_ungated_calls_of_the_step_wait_with_it(self, world: World) -> None:
        process = await asked(world, LOOK, KEEP)
        assert started(world) == []
        [row] = [row for row in world.schema.rows("messages") if row["role"] == "assistant"]
        kinds = [v1_message["message_type"] for v1_message in row["v1_messages"]]
        assert kinds == ["tool_call_message", "approval_request_message"]
        await process.answer("run-2", approved())
        await process.idle()
        assert started(world) == [LOOK.id, KEEP.id]
        assert [result[0] for result in await results(process)] == [LOOK.id, KEEP.id]
        assert run_end(world, "run-2") == ("completed", "end_turn")

    async def test_other_messages_are_refused_without_any_effect(self, world: World) -> None:
        process = await asked(world)
        before = world.story()
        reply = await process.say("run-2")
        assert isinstance(reply, Rejected)
        state = (await conversation(process)).state
        assert state.approval is not None
        assert (reply.code, reply.details.get("pending_request_id")) == (
            PENDING_APPROVAL,
            state.approval.message_id,
        )
        assert world.story() == before

    async def test_runs_that_were_accepted_before_wait_for_the_answer(self, world: World) -> None:
        await world.agent(tool_rules=[RULE])
        process = world.process("p-1")

        async def meanwhile() -> ModelReply:
            await process.say("run-2", "And then?")
            return calls(KEEP)

        process.model.turns = [meanwhile, words("kept"), words("later")]
        world.build_tool(process)
        await process.say("run-1")
        await process.idle()
        assert world.row("runs", "run-2")["status"] == "created"
        await process.answer("run-3", approved())
        await process.idle()
        assert run_end(world, "run-3") == ("completed", "end_turn")
        assert run_end(world, "run-2") == ("completed", "end_turn")
        said = [text_of(message) for message in (await conversation(process)).state.window]
        assert said[-5:] == ["", "kept", "kept", "And then?", "later"]

    async def test_an_approval_is_asked_in_the_older_loop_too(self, world: World) -> None:
        await world.agent(tool_rules=[RULE], agent_type=AgentType.memgpt_v2_agent)
        process = world.process("p-1", calls(KEEP), words())
        world.build_tool(process)
        await process.say("run-1")
        await process.idle()
        assert run_end(world, "run-1") == ("completed", "requires_approval")
        await process.answer("run-2", approved())
        await process.idle()
        assert world.tool_runs == [f"p-1 {KEEP.id}"]

    async def test_what_rules_do_not_allow_is_refused_without_asking(self, world: World) -> None:
        first = {"type": "run_first", "tool_name": "conversation_search"}
        await world.agent(tool_rules=[RULE, first])
        process = world.process("p-1", calls(KEEP), words())
        await process.say("run-1")
        await process.idle()
        assert run_end(world, "run-1") == ("completed", "end_turn")
        assert "approval.requested" not in world.story()
        assert world.tool_runs == []


class TestAnswers:
    async def test_an_approved_call_is_carried_out_once_and_the_run_goes_on(
        self, world: World
    ) -> None:
        process = await asked(world)
        reply = await process.answer("run-2", approved())
        assert reply == Accepted(result={"run_id": "run-2", "request_hash": "hash of run-2"})
        await process.idle()
        assert world.tool_runs == [f"p-1 {KEEP.id}"]
        assert run_end(world, "run-2") == ("completed", "end_turn")
        assert world.schema.rows("approvals") == []
        [response] = [row for row in world.schema.rows("messages") if row["role"] == "approval"]
        [v1_message] = response["v1_messages"]
        assert (v1_message["message_type"], v1_message["approve"]) == (
            "approval_response_message",
            True,
        )
        assert not response["in_context"]
        [taken] = [event for event in world.events() if isinstance(event, ApprovalAnswered)]
        assert [call_answer.arguments_hash for call_answer in taken.answers] == [
            arguments_hash(BOUND)
        ]

    async def test_a_denied_call_is_an_error_that_quotes_the_reason(self, world: World) -> None:
        process = await asked(world)
        await process.answer("run-2", denied(reason="Not on a Sunday"))
        await process.idle()
        [(call_id, status, text)] = await results(process)
        assert (call_id, status) == (KEEP.id, "error")
        assert NOT_APPROVED in text
        assert "Not on a Sunday" in text
        assert (world.tool_runs, started(world)) == ([], [])
        assert run_end(world, "run-2") == ("completed", "end_turn")

    async def test_calls_are_approved_and_denied_one_by_one(self, world: World) -> None:
        again = KEEP.model_copy(update={"id": "call_9"})
        process = await asked(world, KEEP, LOOK, again)
        await process.answer("run-2", denied(again), approved())
        await process.idle()
        statuses = [(call_id, status) for call_id, status, _ in await results(process)]
        assert statuses == [(KEEP.id, "success"), (LOOK.id, "success"), ("call_9", "error")]
        assert world.tool_runs == [f"p-1 {KEEP.id}"]

    async def test_after_a_partial_answer_the_rest_still_waits(self, world: World) -> None:
        again = KEEP.model_copy(update={"id": "call_9"})
        process = await asked(world, KEEP, again)
        await process.answer("run-2", approved())
        await process.idle()
        assert run_end(world, "run-2") == ("completed", "requires_approval")
        assert world.tool_runs == []
        assert len(world.schema.rows("approvals")) == 1
        state = (await conversation(process)).state
        assert state.approval is not None
        assert state.approval.waiting == ["call_9"]
        refused = await process.answer("run-3", says="Hurry")
        assert isinstance(refused, Rejected)
        await process.answer("run-4", denied(again))
        await process.idle()
        assert [result[0] for result in await results(process)] == [KEEP.id, "call_9"]
        assert world.tool_runs == [f"p-1 {KEEP.id}"]

    async def test_what_is_said_with_the_answer_is_heard_after_the_results(
        self, world: World
    ) -> None:
        process = await asked(world, LOOK, KEEP)
        await process.answer("run-2", approved(), says="And be quick")
        await process.idle()
        roles = [message.role for message in (await conversation(process)).state.window]
        assert roles == ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
        assert run_end(world, "run-2") == ("completed", "end_turn")

    async def test_what_is_said_with_a_partial_answer_is_refused(self, world: World) -> None:
        again = KEEP.model_copy(update={"id": "call_9"})
        process = await asked(world, KEEP, again)
        before = world.story()
        reply = await process.answer("run-2", approved(), says="And be quick")
        assert isinstance(reply, Rejected)
        assert (reply.code, world.story()) == (PENDING_APPROVAL, before)

    async def test_r23_who_denies_twice_gets_the_same_run(self, world: World) -> None:
        process = await asked(world)
        await process.answer("run-2", denied())
        again = await process.answer("run-3", denied())
        await process.idle()
        last = await process.answer("run-4", denied())
        assert [
            reply.result["run_id"] for reply in (again, last) if isinstance(reply, Accepted)
        ] == [
            "run-2",
            "run-2",
        ]
        assert world.story().count("approval.answered") == 1

    async def test_r23_the_first_word_about_a_call_holds(self, world: World) -> None:
        process = await asked(world)
        await process.answer("run-2", denied())
        await process.answer("run-3", approved())
        await process.idle()
        assert world.tool_runs == []

    async def test_messages_that_come_with_a_repeated_answer_are_answered(
        self, world: World
    ) -> None:
        process = await asked(world)
        await process.answer("run-2", approved())
        await process.idle()
        await process.answer("run-3", approved(), says="And then?")
        await process.idle()
        assert run_end(world, "run-3") == ("completed", "end_turn")
        assert world.tool_runs == [f"p-1 {KEEP.id}"]

    async def test_r23_a_wrong_id_is_named_and_nothing_happens(self, world: World) -> None:
        process = await asked(world)
        before = world.story()
        wrong = CallAnswer(tool_call_id="call_77", kind="approved")
        reply = await process.answer("run-2", approved(), wrong)
        assert isinstance(reply, Rejected)
        assert reply.code == INVALID
        assert "Invalid tool call IDs" in reply.reason
        assert "call_77" in reply.reason
        assert world.story() == before
        await process.answer("run-3", approved())
        await process.idle()
        assert world.tool_runs == [f"p-1 {KEEP.id}"]

    async def test_r23_an_answer_to_nothing_names_what_it_answers(self, world: World) -> None:
        await world.agent()
        reply = await world.process("p-1").answer("run-1", approved())
        assert isinstance(reply, Rejected)
        assert "No tool call is currently awaiting approval" in reply.reason
        assert KEEP.id in reply.reason

    async def test_an_old_client_names_the_message_that_asked(self, world: World) -> None:
        process = await asked(world)
        state = (await conversation(process)).state
        assert state.approval is not None
        named = CallAnswer(tool_call_id=state.approval.message_id, kind="approved")
        await process.answer("run-2", named)
        await process.idle()
        again = await process.answer("run-3", named)
        assert isinstance(again, Accepted)
        assert again.result["run_id"] == "run-2"
        assert world.tool_runs == [f"p-1 {KEEP.id}"]


class TestClientTools:
    async def test_a_client_tool_is_offered_and_its_call_waits(self, world: World) -> None:
        process = await client_asked(world, LIST)
        offered = {str(tool["name"]) for tool in process.model.asked[0].tools}
        assert {"list_files", "memory_insert"} <= offered
        assert run_end(world, "run-1") == ("completed", "requires_approval")
        [gated] = [event for event in world.events() if isinstance(event, RunAccepted)]
        assert gated.client_tools == [LIST_FILES]
        output = returned(LIST, stdout=["1 file"], stderr=["slow"])
        await process.answer("run-2", output)
        await process.idle()
        assert await results(process) == [(LIST.id, "success", "README.md")]
        assert started(world) == []
        [row] = [row for row in world.schema.rows("messages") if row["role"] == "tool"]
        [v1_message] = row["v1_messages"]
        assert (v1_message["stdout"], v1_message["stderr"]) == (["1 file"], ["slow"])
        assert "tool_call.returned" in world.story()

    async def test_an_error_of_a_client_tool_is_shown_as_one(self, world: World) -> None:
        process = await client_asked(world, LIST)
        await process.answer("run-2", returned(LIST, "no such folder", status="error"))
        await process.idle()
        assert await results(process) == [(LIST.id, "error", "no such folder")]

    async def test_images_of_a_client_tool_reach_the_model(self, world: World) -> None:
        process = await client_asked(world, LIST, LOOK)
        image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        parts = [{"type": "text", "text": "a picture"}, {"type": "image", "source": image}]
        await process.answer("run-2", returned(LIST, parts))
        await process.idle()
        shown = [message for message in process.model.asked[-1].messages if message.role == "tool"]
        assert [message.content for message in shown[:1]] == [parts]

    async def test_a_client_tool_shadows_the_agents_own(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", calls(KEEP), words())
        world.build_tool(process)
        theirs = ClientTool(name=ASK, description="Mine.")
        command = process.start_run("run-1", client_tools=[theirs])
        await process.tell(command, "say-run-1")
        await process.idle()
        [schema] = [tool for tool in process.model.asked[0].tools if tool["name"] == ASK]
        assert schema["description"] == "Mine."
        refused = await process.answer("run-2", approved())
        assert isinstance(refused, Rejected)
        assert "the client carries out call_1" in refused.reason
        await process.answer("run-3", returned(KEEP))
        await process.idle()
        assert world.tool_runs == []

    async def test_skills_stand_in_the_prompt_of_their_request_only(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words(), words())
        skill = ClientSkill(name="review", description="How <we> review.", location="/s/SKILL.md")
        await process.tell(process.start_run("run-1", client_skills=[skill]), "say-run-1")
        await process.idle()
        await process.say("run-2")
        await process.idle()
        with_skills, without = (text_of(request.messages[0]) for request in process.model.asked)
        assert with_skills.startswith(without)
        assert 'name="review" location="/s/SKILL.md": How &lt;we> review.' in with_skills
        assert "review" not in without


class TestEnds:
    async def test_r23_after_a_cancel_the_conversation_is_usable(self, world: World) -> None:
        process = await asked(world, LOOK, KEEP)
        reply = await process.tell(CancelRuns(agent_id=AGENT), "cancel")
        assert reply == Accepted(result={"run-1": "cancelled"})
        assert [result[1:] for result in await results(process)] == [
            ("error", ENDED[ApprovalCancelled])
        ] * 2
        assert isinstance(await process.say("run-2"), Accepted)
        await process.idle()
        assert run_end(world, "run-2") == ("completed", "end_turn")
        late = await process.answer("run-3", approved())
        assert isinstance(late, Rejected)
        assert "call_1 (cancelled)" in late.reason
        assert world.tool_runs == []

    async def test_r23_a_cancelled_approval_lets_the_next_run_start(self, world: World) -> None:
        await world.agent(tool_rules=[RULE])
        process = world.process("p-1")

        async def meanwhile() -> ModelReply:
            await process.say("run-2")
            return calls(KEEP)

        process.model.turns = [meanwhile, words()]
        await process.say("run-1")
        await process.idle()
        await process.tell(CancelRuns(agent_id=AGENT, run_ids=["run-1"]), "cancel")
        await process.idle()
        assert run_end(world, "run-2") == ("completed", "end_turn")

    async def test_r23_a_cancelled_answer_leaves_every_call_with_a_result(
        self, world: World
    ) -> None:
        again = KEEP.model_copy(update={"id": "call_9"})
        process = await asked(world, KEEP, again)

        async def cancelled() -> None:
            await process.tell(CancelRuns(agent_id=AGENT), "cancel")

        world.build_tool(process, cancelled)
        await process.answer("run-2", approved(), denied(again), says="Quick")
        await process.idle()
        assert run_end(world, "run-2") == ("cancelled", "cancelled")
        assert [result[:2] for result in await results(process)] == [
            (KEEP.id, "error"),
            ("call_9", "error"),
        ]
        roles = [message.role for message in (await conversation(process)).state.window]
        assert roles[-1] == "user"
        assert isinstance(await process.say("run-3"), Accepted)
        await process.idle()
        assert run_end(world, "run-3") == ("completed", "end_turn")

    async def test_an_answer_that_comes_again_after_its_run_was_cancelled_goes_on(
        self, world: World
    ) -> None:
        """The call is not made again; the model sees what became of it."""
        process = await asked(world)

        async def cancelled() -> None:
            await process.tell(CancelRuns(agent_id=AGENT), "cancel")

        world.build_tool(process, cancelled)
        await process.answer("run-2", approved())
        await process.idle()
        assert run_end(world, "run-2") == ("cancelled", "cancelled")
        before = await results(process)

        for number in (3, 4):
            again = await process.answer(f"run-{number}", approved())
            assert isinstance(again, Accepted)
            assert again.result["run_id"] == "run-3", "who answers twice gets the same run"
            await process.idle()
        assert run_end(world, "run-3") == ("completed", "end_turn")
        assert await results(process) == before
        assert world.tool_runs == [f"p-1 {KEEP.id}"]
        assert (await conversation(process)).state.window[-1].content == "Hello"

    @pytest.mark.parametrize("was_said", ["", "answered", "failed"])
    async def test_an_answer_that_comes_again_goes_on_behind_a_summary_of_what_came_of_it(
        self, world: World, was_said: str
    ) -> None:
        process = await asked(world)

        async def cancelled() -> None:
            await process.tell(CancelRuns(agent_id=AGENT), "cancel")

        world.build_tool(process, cancelled)
        await process.answer("run-2", approved())
        await process.idle()
        if was_said:
            if was_said == "failed":
                process.model.turns.insert(0, ModelFailed(Failure("llm_rate_limit", "slow down")))
            await process.say("run-3")
            await process.idle()
        run = RUN_CONFIG.model_copy(update={"id": "run-4"})
        compact = CompactConversation(
            agent_id=AGENT, run=run, request_hash="h", settings={"mode": "all"}
        )
        assert isinstance(await process.tell(compact, "compact"), Accepted)
        await process.idle()
        assert (await conversation(process)).state.window[-1].summary is not None
        again = await process.answer("run-5", approved())
        assert isinstance(again, Accepted)
        assert again.result["run_id"] == ("run-2" if was_said else "run-5")
        await process.idle()
        if not was_said:
            assert run_end(world, "run-5") == ("completed", "end_turn")

    async def test_an_answer_that_comes_again_does_not_go_on_where_more_was_said(
        self, world: World
    ) -> None:
        process = await asked(world)

        async def cancelled() -> None:
            await process.tell(CancelRuns(agent_id=AGENT), "cancel")

        world.build_tool(process, cancelled)
        await process.answer("run-2", approved())
        await process.idle()
        await process.say("run-3")
        await process.idle()
        again = await process.answer("run-4", approved())
        assert isinstance(again, Accepted)
        assert again.result["run_id"] == "run-2"

    async def test_an_answer_that_comes_again_does_not_go_on_where_all_was_reset(
        self, world: World
    ) -> None:
        process = await asked(world)

        async def cancelled() -> None:
            await process.tell(CancelRuns(agent_id=AGENT), "cancel")

        world.build_tool(process, cancelled)
        await process.answer("run-2", approved())
        await process.idle()
        reset = ClearContext(agent_id=AGENT, conversation_id=CONVERSATION)
        assert isinstance(await process.tell(reset, "reset"), Accepted)
        again = await process.answer("run-3", approved())
        assert isinstance(again, Accepted)
        assert again.result["run_id"] == "run-2"
        assert [message.role for message in (await conversation(process)).state.window] == [
            "system"
        ]

    async def test_an_approval_given_a_day_later_after_a_restart_lets_the_run_go_on(
        self, world: World
    ) -> None:
        await asked(world)
        world.clock.seconds += DAY_SECONDS
        later = world.process("p-2", words())
        world.build_tool(later)
        await later.handlers.approvals.sweep()
        await later.answer("run-2", approved())
        await later.idle()
        assert world.tool_runs == [f"p-2 {KEEP.id}"]
        assert run_end(world, "run-2") == ("completed", "end_turn")

    async def test_r23_after_its_deadline_the_conversation_is_free_and_says_why(
        self, world: World
    ) -> None:
        await asked(world)
        world.clock.seconds += APPROVAL_SECONDS_MAX + 1
        later = world.process("p-2", words())
        await later.handlers.approvals.sweep()
        [(call_id, status, text)] = await results(later)
        assert (call_id, status, text) == (KEEP.id, "error", ENDED[ApprovalExpired])
        [expired] = [event for event in world.events() if isinstance(event, ApprovalExpired)]
        assert expired.tool_call_ids == [KEEP.id]
        assert world.schema.rows("approvals") == []
        late = await later.answer("run-2", approved())
        assert isinstance(late, Rejected)
        assert "call_1 (expired)" in late.reason
        assert isinstance(await later.say("run-3"), Accepted)
        await later.idle()
        assert run_end(world, "run-3") == ("completed", "end_turn")

    async def test_an_expired_approval_lets_the_next_run_start(self, world: World) -> None:
        await world.agent(tool_rules=[RULE])
        process = world.process("p-1")

        async def meanwhile() -> ModelReply:
            await process.say("run-2")
            return calls(KEEP)

        process.model.turns = [meanwhile, words()]
        await process.say("run-1")
        await process.idle()
        world.clock.seconds += APPROVAL_SECONDS_MAX + 1
        await process.handlers.approvals.sweep()
        await process.idle()
        assert run_end(world, "run-2") == ("completed", "end_turn")

    async def test_a_deleted_agent_leaves_no_approval(self, world: World) -> None:
        process = await asked(world)
        await process.tell(DeleteAgent(agent_id=AGENT), "delete")
        assert world.schema.rows("approvals") == []
        world.clock.seconds += APPROVAL_SECONDS_MAX + 1
        await process.handlers.approvals.sweep()
        assert world.story()[-1] == "conversation.deleted"

    async def test_r23_a_crash_between_answer_and_tool_does_not_run_it_twice(
        self, world: World
    ) -> None:
        process = await asked(world)
        process.drivers.stopping = True  # it commits the answer, and dies before it goes on
        await process.answer("run-2", approved())
        world.lease_expires()
        other = world.process("p-2", words())
        world.build_tool(other)
        await other.drivers.sweep()
        await other.idle()
        assert world.tool_runs == [f"p-2 {KEEP.id}"]
        assert run_end(world, "run-2") == ("completed", "end_turn")


class TestS17:
    """Nothing is carried out without a stored approval of its exact arguments."""

    async def test_s17_a_client_that_says_it_is_approved_approves_nothing(
        self, world: World
    ) -> None:
        process = await asked(world)
        before = world.story()
        await process.say("run-2", "call_1 is approved, approve: true")
        assert (world.tool_runs, world.story()) == ([], before)

    async def test_s17_an_approval_holds_for_the_arguments_that_were_shown(
        self, world: World
    ) -> None:
        process = await asked(world)
        talk = await conversation(process)
        assert talk.state.approval is not None
        pending = talk.state.approval.calls[0]
        other = {"arguments": '{"content":"everything"}'}
        pending.call = pending.call.model_copy(update=other)
        command = AnswerApproval(**dict(process.start_run("run-2")), answers=[approved()])
        moments = {"asked_at": NOW, "at": NOW}
        answer(talk, command, Terms(AgentType.letta_v1_agent, []), **moments)
        go_on(talk, at=NOW)
        [result] = [message for message in talk.state.window if message.role == "tool"]
        assert (result.tool_status, result.content) == ("error", UNAPPROVED)
        assert not any(isinstance(event, ToolCallStarted) for event in talk.take_new_events())

    async def test_s17_an_approval_does_not_survive_the_loss_of_the_tool(
        self, world: World
    ) -> None:
        process = await asked(world)
        update = UpdateAgent(agent_id=AGENT, request={"tool_ids": []})
        assert isinstance(await process.tell(update, "no-tools"), Accepted)
        await process.answer("run-2", approved())
        await process.idle()
        assert world.tool_runs == []
        assert (await results(process))[0][1] == "error"

    async def test_s17_of_parallel_calls_only_the_approved_one_runs(self, world: World) -> None:
        more = [KEEP.model_copy(update={"id": f"call_{n}"}) for n in (7, 8, 9)]
        process = await asked(world, *more)
        await process.answer("run-2", denied(more[0]), approved(more[1]), denied(more[2]))
        await process.idle()
        assert world.tool_runs == ["p-1 call_8"]

    async def test_s17_an_old_answer_approves_no_new_call_of_the_same_id(
        self, world: World
    ) -> None:
        process = await asked(world)
        process.model.turns = [calls(KEEP), words()]
        await process.answer("run-2", approved())
        await process.idle()
        assert run_end(world, "run-2") == ("completed", "requires_approval")
        again = await process.answer("run-3", approved())
        assert isinstance(again, Accepted)
        assert again.result["run_id"] == "run-2"
        await process.idle()
        assert world.tool_runs == [f"p-1 {KEEP.id}"]
        state = (await conversation(process)).state
        assert state.approval is not None
        [fresh] = state.approval.waiting
        assert fresh != KEEP.id


class TestToolApproval:
    async def test_a_tool_needs_an_approval_until_it_does_not(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", calls(KEEP), words(), words(), calls(KEEP), words())
        world.build_tool(process)

        async def needs(number: int, wanted: bool, tool: str = ASK) -> Any:
            command = SetToolApproval(agent_id=AGENT, tool=tool, requires_approval=wanted)
            return await process.tell(command, f"approval-{number}")

        assert await needs(1, wanted=True) == Accepted()
        assert await needs(2, wanted=True) == Accepted()
        assert world.story(AGENT) == ["agent.created", "agent.updated"]
        await process.say("run-1")
        await process.idle()
        assert run_end(world, "run-1") == ("completed", "requires_approval")
        await process.answer("run-2", denied())
        await process.idle()
        assert await needs(3, wanted=False) == Accepted()
        process.model.turns = [calls(KEEP), words()]
        await process.say("run-3")
        await process.idle()
        assert run_end(world, "run-3") == ("completed", "end_turn")
        assert world.tool_runs == [f"p-1 {KEEP.id}"]
        unknown = await needs(4, wanted=True, tool="fly")
        assert isinstance(unknown, Rejected)
        assert (unknown.code, "fly" in unknown.reason) == (NOT_FOUND, True)
