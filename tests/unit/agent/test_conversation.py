"""A conversation: given what happened, when something is decided, then events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.agent.conversations import (
    ConversationDeleted,
    MessageAppended,
    ReasoningPart,
    SystemPromptRebuilt,
    ToolCall,
    Usage,
)
from libs.contracts.agent.runs import (
    CancelRuns,
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    StartRun,
)
from libs.contracts.agent.steps import (
    ModelReplied,
    ToolCallFinished,
    ToolCallInterrupted,
    ToolCallStarted,
    UnfinishedStep,
)
from libs.contracts.agent.stored_to_letta_messages import served_messages
from libs.contracts.bus_messages import BUSY, CONFLICT, Rejected
from libs.contracts.letta.enums import AgentType
from services.agent.domain.conversations import conversation_state
from services.agent.domain.conversations.active_run import (
    CANCELLED,
    INTERRUPTED,
    ActiveRun,
    served_parts,
)
from services.agent.domain.conversations.context_window_cache import pair_calls
from services.agent.domain.conversations.conversation import Conversation, SystemPrompt
from services.agent.domain.runs import run_requests, tool_calls
from services.agent.domain.runs.run_actions import AskModel, RunTools, StartTools
from services.agent.domain.runs.run_progress import complete, next_action
from services.agent.domain.runs.run_requests import Terms, accept
from services.agent.domain.runs.run_steps import (
    fail,
    model_replied,
    tool_interrupted,
    tool_returned,
)
from services.agent.domain.runs.step_results import (
    AnsweredStep,
    Failure,
    ModelReply,
    Spoken,
    ToolResult,
)
from tests.contract.examples import (
    AGENT,
    CALLED,
    CONVERSATION,
    RETURNED,
    RUN_CONFIG,
    SAID,
    SYSTEM,
    THOUGHT,
    message,
)
from tests.unit.given import LATER, NOW, Fact, Given, fact, given

RUN, SECOND = "run-1", "run-2"
TEA = ToolCall(id="call_1", name="memory_insert", arguments="{}")
FIND = ToolCall(id="call_2", name="conversation_search", arguments="{}")
SPENT = Usage(prompt_tokens=10, completion_tokens=2)
REPLY_ID, RESULT_ID = "message-reply", "message-result"
BEGUN = fact(MessageAppended, agent_id=AGENT, message=SYSTEM)

TYPE = AgentType.letta_v1_agent


def command(run_id: str = RUN, max_steps: int = 50) -> StartRun:
    run = RUN_CONFIG.model_copy(update={"id": run_id})
    return StartRun(agent_id=AGENT, run=run, messages=[SAID], max_steps=max_steps, request_hash="h")


def accepted(run_id: str = RUN, max_steps: int = 50) -> Fact:
    asked = command(run_id, max_steps)
    return fact(
        RunAccepted,
        run_id=run_id,
        run=asked.run,
        messages=asked.messages,
        max_steps=max_steps,
        request_hash="h",
        asked_at=NOW,
    )


def accepts(run_id: str = RUN) -> Callable[[Conversation], Rejected | None]:
    return lambda talk: accept(talk, command(run_id), Terms(TYPE, []), asked_at=NOW, at=NOW)


def started(run_id: str = RUN) -> list[Fact]:
    return [
        fact(RunStarted, run_id=run_id, agent_id=AGENT),
        fact(
            MessageAppended,
            agent_id=AGENT,
            message=SAID,
            run_id=run_id,
            step_id=step(run_id=run_id),
            sent=True,
        ),
    ]


def step(number: int = 1, run_id: str = RUN) -> str:
    return ActiveRun(
        run=RUN_CONFIG.model_copy(update={"id": run_id}),
        max_steps=9,
        started_at=NOW,
        steps=number - 1,
    ).next_step_id


def reply(*calls: ToolCall, text: str = "", **fields: Any) -> ModelReply:
    finish = "tool_calls" if calls else "stop"
    return ModelReply(**{"text": text, "tool_calls": list(calls), "finish_reason": finish,
                         "usage": SPENT, **fields})  # fmt: skip


def replied(*calls: ToolCall, number: int = 1, finish: str = "", run_id: str = RUN) -> Fact:
    return fact(
        ModelReplied,
        run_id=run_id,
        step_id=step(number, run_id),
        agent_id=AGENT,
        model="demo",
        usage=SPENT,
        finish_reason=finish or ("tool_calls" if calls else "stop"),
        tool_calls=list(calls),
    )


def said(
    content: str | None, *calls: ToolCall, number: int = 1, told: int = 2, **fields: Any
) -> Fact:
    spoken = {
        "id": REPLY_ID,
        "role": "assistant",
        "content": content,
        "tool_calls": list(calls),
        "created_at": NOW,
        **fields,
    }
    return fact(
        MessageAppended,
        agent_id=AGENT,
        message=spoken,
        run_id=RUN,
        step_id=step(number),
        number=told,
    )


def tool_started(call: ToolCall, number: int = 1) -> Fact:
    return fact(
        ToolCallStarted, run_id=RUN, step_id=step(number), tool_call_id=call.id, tool=call.name
    )


def tool_finished(call: ToolCall, status: str = "success", number: int = 1) -> Fact:
    return fact(
        ToolCallFinished, run_id=RUN, step_id=step(number), tool_call_id=call.id, status=status
    )


def result(
    call: ToolCall, text: str, status: str = "success", number: int = 1, told: int = 3
) -> Fact:
    returned = {
        "id": RESULT_ID,
        "role": "tool",
        "content": text,
        "name": call.name,
        "tool_call_id": call.id,
        "tool_status": status,
        "created_at": NOW,
    }
    return fact(
        MessageAppended,
        agent_id=AGENT,
        message=returned,
        run_id=RUN,
        step_id=step(number),
        number=told,
    )


def completed(stop_reason: str = "end_turn", steps: int = 1) -> Fact:
    return fact(
        RunCompleted,
        run_id=RUN,
        stop_reason=stop_reason,
        usage=Usage(prompt_tokens=10 * steps, completion_tokens=2 * steps),
        step_count=steps,
        context_tokens=12,
        total_duration_ns=0,
    )


def talking(*more: Fact, max_steps: int = 50) -> Given[Conversation]:
    return given(
        Conversation, CONVERSATION, BEGUN, accepted(max_steps=max_steps), *started(), *more
    )


CALLING = (replied(TEA, FIND), said(None, TEA, FIND), tool_started(TEA))


def model_replies(answer: ModelReply, *, number: int = 1, **fields: Any) -> Any:
    options: dict[str, Any] = {
        "spoken": Spoken(REPLY_ID, NOW),
        "parallel": True,
        "rebuilt": None,
        **fields,
    }

    def decide(talk: Conversation) -> None:
        model_replied(talk, AnsweredStep(step(number), "demo", answer, **options), at=NOW)

    return decide


def tool_returns(call: ToolCall, text: str = "done", status: Any = "success") -> Any:
    def decide(talk: Conversation) -> None:
        outcome = ToolResult(status, text)
        tool_returned(talk, step(), call, outcome, message_id=RESULT_ID, at=NOW)

    return decide


class TestRuns:
    def test_a_conversation_begins_with_the_system_message(self) -> None:
        past = given(Conversation, CONVERSATION)
        past.when(lambda talk: talk.begin(AGENT, SYSTEM, {"block-1": 2}, at=NOW)).then(
            fact(MessageAppended, agent_id=AGENT, message=SYSTEM, shows={"block-1": 2})
        )
        assert past.aggregate.state.shown == {"block-1": 2}
        assert next_action(past.aggregate.state) is None

    def test_an_accepted_run_has_its_turn_at_once_when_nobody_else_has(self) -> None:
        past = given(Conversation, CONVERSATION, BEGUN)
        past.when(accepts()).then(accepted(), *started())
        assert next_action(past.aggregate.state) == AskModel(step())

    def test_an_accepted_run_waits_behind_the_one_that_has_the_turn(self) -> None:
        past = talking()
        past.when(accepts(SECOND)).then(accepted(SECOND))
        assert [queued.run.id for queued in past.aggregate.state.queue] == [SECOND]

    def test_too_many_waiting_runs_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(conversation_state, "QUEUED_RUNS_MAX", 1)
        talking(accepted(SECOND)).when(accepts("run-3")).then_refused(
            BUSY, AGENT, "try again later"
        )

    def test_runs_that_wait_with_too_many_bytes_are_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(conversation_state, "QUEUED_BYTES_MAX", 1)
        talking(accepted(SECOND)).when(accepts("run-3")).then_refused(BUSY, AGENT, "1 bytes")
        past = talking(accepted(SECOND), dequeued(SECOND))
        assert past.aggregate.state.queued_bytes == 0

    def test_the_next_run_has_its_turn_when_one_completes(self) -> None:
        talking(accepted(SECOND), accepted("run-3")).when(model_replies(reply(text="Hi"))).then(
            replied(), said("Hi"), completed(), *started(SECOND)
        )

    def test_the_next_run_has_its_turn_when_one_fails(self) -> None:
        failure = Failure("llm_rate_limit", "429", "slow down", model="demo")
        past = talking(accepted(SECOND))
        past.when(lambda talk: fail(talk, step(), failure, at=LATER)).then(
            fact(
                RunFailed,
                run_id=RUN,
                stop_reason="llm_api_error",
                error_type="llm_rate_limit",
                message="429",
                detail="slow down",
                usage=Usage(),
                step_count=0,
                total_duration_ns=round((LATER - RUN_CONFIG.created_at).total_seconds() * 1e9),
                step=UnfinishedStep(id=step(1), agent_id=AGENT, asked=True, model="demo"),
            ),
            *started(SECOND),
        )
        assert next_action(past.aggregate.state) == AskModel(step(run_id=SECOND))

    def test_a_run_takes_as_long_as_since_it_was_created(self) -> None:
        later = NOW + timedelta(seconds=1.5)
        past = talking(replied())
        complete(past.aggregate, "end_turn", at=later)
        [event] = past.aggregate.take_new_events()
        assert isinstance(event, RunCompleted)
        assert event.total_duration_ns == 1_500_000_000

    def test_a_deleted_conversation_has_nothing_left_to_do(self) -> None:
        past = talking(accepted(SECOND), *CALLING)
        past.when(lambda talk: talk.delete(at=NOW)).then(fact(ConversationDeleted))
        talk = past.aggregate
        assert (next_action(talk.state), talk.state.window, talk.state.queue) == (None, [], [])
        past.when(lambda talk: talk.delete(at=NOW)).then_nothing()


class TestModelReplies:
    def test_an_answer_in_words_ends_the_run(self) -> None:
        talking().when(model_replies(reply(text="Hi", reasoning="Greet."))).then(
            replied(), said("Hi", reasoning="Greet."), completed()
        )

    def test_reasoning_that_the_provider_wants_back_is_kept_as_it_came(self) -> None:
        parts = THOUGHT.reasoning_parts
        answer = reply(text="Hi", reasoning="Worth it.", reasoning_parts=parts)
        kept = [part.model_dump() for part in parts]
        talking().when(model_replies(answer)).then(
            replied(), said("Hi", reasoning_parts=kept), completed()
        )

    def test_an_answer_that_was_cut_short_says_so(self) -> None:
        talking().when(model_replies(reply(text="Hi", finish_reason="length"))).then(
            replied(finish="length"), said("Hi"), completed("max_tokens_exceeded")
        )

    def test_an_empty_answer_ends_the_run_without_a_message(self) -> None:
        talking().when(model_replies(reply())).then(replied(), completed())

    def test_the_first_of_the_calls_starts_with_the_reply(self) -> None:
        past = talking()
        past.when(model_replies(reply(TEA, FIND))).then(*CALLING)
        assert next_action(past.aggregate.state) == RunTools(step(), (TEA,))

    def test_only_one_call_counts_where_calls_may_not_be_parallel(self) -> None:
        talking().when(model_replies(reply(TEA, FIND, text="So"), parallel=False)).then(
            replied(TEA), said("So", TEA), tool_started(TEA)
        )

    def test_what_the_model_was_shown_is_recorded_with_its_reply(self) -> None:
        prompt = SystemPrompt(content="Be new.", shows={"block-1": 2})
        new = SYSTEM.model_copy(update={"content": "Be new."})
        past = talking()
        past.when(model_replies(reply(text="Hi"), rebuilt=prompt)).then(
            fact(SystemPromptRebuilt, agent_id=AGENT, message=new, shows={"block-1": 2}),
            replied(),
            said("Hi"),
            completed(),
        )
        assert past.aggregate.state.window[0] == new
        assert past.aggregate.state.shown == {"block-1": 2}


class TestTools:
    def test_the_calls_of_a_step_run_one_after_the_other(self) -> None:
        past = talking(*CALLING)
        past.when(tool_returns(TEA)).then(
            tool_finished(TEA), result(TEA, "done"), tool_started(FIND)
        )
        assert next_action(past.aggregate.state) == RunTools(step(), (FIND,))
        past.when(tool_returns(FIND, "none", "error")).then(
            tool_finished(FIND, "error"), result(FIND, "none", "error", told=4)
        )
        assert next_action(past.aggregate.state) == AskModel(step(2))

    def test_an_interrupted_call_becomes_an_error_that_the_model_sees(self) -> None:
        talking(replied(TEA), said(None, TEA), tool_started(TEA)).when(
            lambda talk: tool_interrupted(talk, step(), TEA, message_id=RESULT_ID, at=NOW)
        ).then(
            fact(ToolCallInterrupted, run_id=RUN, step_id=step(), tool_call_id=TEA.id),
            result(TEA, INTERRUPTED, "error"),
        )

    def test_a_run_ends_at_its_last_step_after_the_results(self) -> None:
        talking(replied(TEA), said(None, TEA), tool_started(TEA), max_steps=1).when(
            tool_returns(TEA)
        ).then(tool_finished(TEA), result(TEA, "done"), completed("max_steps"))

    def test_a_call_whose_start_was_not_recorded_starts_first(self) -> None:
        past = talking(replied(TEA), said(None, TEA))
        assert next_action(past.aggregate.state) == StartTools((TEA,))
        past.when(lambda talk: tool_calls.start(talk, [TEA], at=NOW)).then(tool_started(TEA))

    def test_usage_adds_up_over_the_steps(self) -> None:
        talking(
            replied(TEA), said(None, TEA), tool_started(TEA), tool_finished(TEA), result(TEA, "ok")
        ).when(model_replies(reply(text="Hi"), number=2)).then(
            replied(number=2), said("Hi", number=2, told=4), completed(steps=2)
        )


def cancelled(run_id: str = RUN, steps: int = 0) -> Fact:
    return fact(
        RunCancelled,
        run_id=run_id,
        usage=Usage(prompt_tokens=10 * steps, completion_tokens=2 * steps),
        step_count=steps,
        total_duration_ns=0,
        step=UnfinishedStep(id=step(1, run_id), agent_id=AGENT, asked=not steps),
    )


def dequeued(*run_ids: str) -> Fact:
    return fact(QueuedRunsCancelled, run_ids=list(run_ids))


def cancel(talk: Conversation, *run_ids: str) -> Any:
    asked = CancelRuns(agent_id=AGENT, run_ids=list(run_ids) or None)
    return run_requests.cancel(talk, asked, message_ids=[RESULT_ID, "message-more"], at=NOW)


class TestCancelling:
    def test_a_run_ends_while_the_model_is_asked(self) -> None:
        past = talking()
        assert cancel(past.aggregate) == {RUN: "cancelled"}
        past.when(lambda talk: None).then(cancelled())
        assert next_action(past.aggregate.state) is None

    def test_calls_without_a_result_get_one_that_says_why(self) -> None:
        past = talking(*CALLING)
        assert cancel(past.aggregate, RUN) == {RUN: "cancelled"}
        past.when(lambda talk: None).then(
            fact(ToolCallInterrupted, run_id=RUN, step_id=step(), tool_call_id=TEA.id),
            result(TEA, CANCELLED, "error"),
            tool_started(FIND),
            fact(ToolCallInterrupted, run_id=RUN, step_id=step(), tool_call_id=FIND.id),
            result(FIND, CANCELLED, "error", told=4).but(message={"id": "message-more"}),
            cancelled(steps=1),
        )

    def test_the_next_run_has_its_turn(self) -> None:
        past = talking(accepted(SECOND))
        assert cancel(past.aggregate, RUN) == {RUN: "cancelled"}
        past.when(lambda talk: None).then(cancelled(), *started(SECOND))
        assert next_action(past.aggregate.state) == AskModel(step(run_id=SECOND))

    def test_a_run_that_waits_never_starts(self) -> None:
        past = talking(accepted(SECOND))
        assert cancel(past.aggregate, SECOND) == {SECOND: "cancelled"}
        past.when(lambda talk: None).then(dequeued(SECOND))
        assert next_action(past.aggregate.state) == AskModel(step())

    def test_all_runs_end_and_none_starts_in_between(self) -> None:
        past = talking(accepted(SECOND))
        assert cancel(past.aggregate) == {RUN: "cancelled", SECOND: "cancelled"}
        past.when(lambda talk: None).then(dequeued(SECOND), cancelled())

    def test_what_has_ended_or_never_was_cannot_be_cancelled(self) -> None:
        past = talking()
        assert cancel(past.aggregate, "run-other") == {"run-other": "failed"}
        past.when(lambda talk: None).then_nothing()
        talking(*FINISHED).when(lambda talk: cancel(talk, RUN)).then_refused(CONFLICT, "No active")

    def test_what_its_driver_reports_afterwards_is_not_recorded(self) -> None:
        past = talking(cancelled())
        past.when(model_replies(reply(text="Hi"))).then_nothing()
        past.when(lambda talk: fail(talk, step(), FAIL, at=NOW)).then_nothing()


FAIL = Failure("llm_error", "odd")
FINISHED = (replied(), said("Hi"), completed())


@pytest.mark.parametrize(
    ("past", "again"),
    [
        (CALLING, model_replies(reply(TEA, FIND))),
        (FINISHED, model_replies(reply(text="Hi"))),
        (CALLING, lambda talk: fail(talk, step(), FAIL, at=NOW)),
        (CALLING, lambda talk: fail(talk, step(2), FAIL, at=NOW)),
        (FINISHED, lambda talk: fail(talk, step(), FAIL, at=NOW)),
        (CALLING, lambda talk: tool_calls.start(talk, [TEA], at=NOW)),
        (CALLING, lambda talk: tool_calls.start(talk, [FIND], at=NOW)),
        (CALLING, tool_returns(FIND)),
        ((*CALLING, tool_finished(TEA), result(TEA, "done")), tool_returns(TEA)),
        (FINISHED, tool_returns(TEA)),
        (FINISHED, lambda talk: tool_calls.start(talk, [TEA], at=NOW)),
        (
            FINISHED,
            lambda talk: tool_interrupted(talk, step(), TEA, message_id=RESULT_ID, at=NOW),
        ),
        ((fact(ConversationDeleted),), model_replies(reply(text="Hi"))),
        ((fact(ConversationDeleted),), tool_returns(TEA)),
        ((fact(ConversationDeleted),), lambda talk: tool_calls.start(talk, [TEA], at=NOW)),
    ],
)
def test_what_is_recorded_already_is_not_recorded_twice(past: Any, again: Any) -> None:
    talking(*past).when(again).then_nothing()


class TestPairing:
    def test_what_this_server_records_is_shown_as_it_is(self) -> None:
        window = [SYSTEM, SAID, CALLED, RETURNED]
        assert pair_calls(window) == window

    def test_a_call_without_result_gets_one_that_says_so(self) -> None:
        shown = pair_calls([SYSTEM, CALLED, SAID])
        assert [prompt_message.role for prompt_message in shown] == [
            "system",
            "assistant",
            "tool",
            "user",
        ]
        owed = shown[2]
        assert (owed.tool_call_id, owed.content, owed.tool_status) == (
            CALLED.tool_calls[0].id,
            INTERRUPTED,
            "error",
        )

    def test_a_result_without_call_is_left_out(self) -> None:
        stray = RETURNED.model_copy(update={"tool_call_id": "call_9"})
        assert pair_calls([SYSTEM, RETURNED, SAID, CALLED, stray, RETURNED]) == [
            SYSTEM,
            SAID,
            CALLED,
            RETURNED,
        ]

    def test_results_are_shown_in_the_order_of_the_calls(self) -> None:
        both = message(9, role="assistant", tool_calls=[TEA, FIND])
        first = message(10, role="tool", content="a", tool_call_id=TEA.id)
        second = message(11, role="tool", content="b", tool_call_id=FIND.id)
        assert pair_calls([SYSTEM, both, second, first]) == [SYSTEM, both, first, second]


@pytest.mark.parametrize(
    "spoken",
    [
        CALLED,
        RETURNED,
        CALLED.model_copy(update={"content": None}),
        CALLED.model_copy(update={"reasoning": None, "tool_calls": []}),
        CALLED.model_copy(update={"reasoning": ""}),
        THOUGHT,
    ],
)
def test_the_deltas_of_a_run_are_counted_as_they_are_served(spoken: Any) -> None:
    assert served_parts(spoken) == len(served_messages(spoken, run_id=RUN, step_id=step()))


def test_clients_see_each_part_of_the_reasoning_as_far_as_it_can_be_read() -> None:
    silent = ReasoningPart(signature="c2lnbmVk")
    message = THOUGHT.model_copy(update={"reasoning_parts": [*THOUGHT.reasoning_parts, silent]})
    clear, redacted, omitted, *_ = served_messages(message, run_id=RUN, step_id=step())
    assert clear["message_type"] == "reasoning_message"
    assert (clear["reasoning"], clear["signature"]) == ("Worth it.", "c2lnbmVk")
    assert clear["source"] == "reasoner_model"
    assert redacted["message_type"] == "hidden_reasoning_message"
    assert (redacted["state"], redacted["hidden_reasoning"]) == ("redacted", "c2VjcmV0")
    assert (omitted["state"], omitted["hidden_reasoning"]) == ("omitted", None)
    assert len({answer["otid"] for answer in (clear, redacted, omitted)}) == 3
