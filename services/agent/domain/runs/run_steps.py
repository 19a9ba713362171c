"""Results of the active run's steps: an answer of the model, results of its tools, or an error.

The functions are safe to repeat. After a conflict or a crash the same fact may be reported again;
what is recorded already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from libs.contracts.agent.compaction import RetriedContentRefused
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.runs import RunFailed
from libs.contracts.agent.steps import ModelReplied, UnfinishedStep
from services.agent.domain.conversations.active_run import (
    INTERRUPTED,
    concurrent_calls,
    end_fields,
    unfinished_step,
)
from services.agent.domain.conversations.approval_state import gates
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import SystemPrompt
from services.agent.domain.conversations.provider_rejected_messages import REFUSED
from services.agent.domain.runs import heartbeat_pauses, tool_calls
from services.agent.domain.runs.run_progress import go_on, settle, start_next
from services.agent.domain.runs.step_results import (
    AnsweredStep,
    Failure,
    ToolResult,
    error_fields,
    kept_calls,
    spoken_message,
)


def model_replied(conversation: Conversation, step: AnsweredStep, *, at: datetime) -> None:
    """Record a step of the model, what it was shown, and what follows from it."""
    state, active = conversation.state, conversation.state.active_run
    if active is None or active.next_step_id != step.step_id or active.open_call is not None:
        return
    reply, spoken = step.reply, step.spoken
    gated = gates(active.gate, state.answered, step.step_id, step.offered, step.renamed, step.bound)
    calls = [gated.mark_gated(call) for call in kept_calls(reply, parallel=step.parallel)]
    if step.rebuilt is not None:
        conversation.rebuild(step.rebuilt, at=at)
    conversation.record(
        ModelReplied,
        at=at,
        run_id=active.run.id,
        step_id=step.step_id,
        agent_id=state.agent_id,
        model=step.model,
        model_ns=step.model_ns,
        usage=reply.usage,
        finish_reason=reply.finish_reason,
        tool_calls=calls,
        offered=step.offered,
        logprobs=reply.logprobs,
        token_ids=reply.token_ids,
        concurrent=concurrent_calls(calls, step.concurrent),
        gone=list(step.gone),
        prompt_bytes=step.prompt_bytes,
        tries_again=bool(state.omitted) or state.trial.is_running,
    )
    if reply.text or reply.reasoning or reply.reasoning_parts or calls:
        message = spoken_message(spoken, reply, calls)
        conversation.append_in_step(message, at=at, number=spoken.number, chunks=spoken.chunks)
    go_on(conversation, at=at)


def refuse_call(
    conversation: Conversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record that the rules do not allow a call, tell the model why, and what follows."""
    active = conversation.state.active_run
    if active is None or active.startable_calls[:1] != (call,):
        return
    tool_calls.refuse(conversation, call, why, message_id=message_id, at=at)
    go_on(conversation, at=at)


def tool_returned(
    conversation: Conversation,
    step_id: str,
    call: ToolCall,
    result: ToolResult,
    *,
    message_id: str,
    at: datetime,
) -> None:
    """Record a tool's result, and what follows from it."""
    if not waits_for_result(conversation, step_id, call):
        return
    tool_calls.finish(conversation, call, result, message_id=message_id, at=at)
    if result.pause_minutes is not None:
        heartbeat_pauses.pause(conversation, call.id, result.pause_minutes, at=at)
    go_on(conversation, at=at)


def tool_interrupted(
    conversation: Conversation, step_id: str, call: ToolCall, *, message_id: str, at: datetime
) -> None:
    """Record that nobody knows what a tool did, and tell the model so."""
    if not waits_for_result(conversation, step_id, call):
        return
    tool_calls.interrupt(conversation, call, INTERRUPTED, message_id=message_id, at=at)
    go_on(conversation, at=at)


def waits_for_result(conversation: Conversation, step_id: str, call: ToolCall) -> bool:
    """Whether the active run waits for the result of this very call."""
    active = conversation.state.active_run
    return active is not None and active.step_id == step_id and call in active.started_calls


def interrupt_all(
    conversation: Conversation, why: str, *, message_ids: Iterable[str], at: datetime
) -> None:
    """Give every call without a result one that says why there is none. What the client sent is
    shown all the same."""
    active = conversation.running()
    fresh = iter(message_ids)
    settle(conversation, at=at)
    while (pending := active.open_call) is not None:
        if pending.state == "waiting":
            tool_calls.record_start(conversation, pending.call, at=at)
        tool_calls.interrupt(conversation, pending.call, why, message_id=next(fresh), at=at)
    settle(conversation, at=at)


def refuses_trial(conversation: Conversation, failure: Failure) -> bool:
    """Whether a model refuses what it was shown again, and can be asked without that: a run that
    says nothing new is about just that, perhaps."""
    state, active = conversation.state, conversation.state.active_run
    on_trial = active is not None and not active.says_nothing and state.trial.is_running
    return on_trial and failure.error_type in REFUSED


def end_trial(conversation: Conversation, step_id: str, failure: Failure, *, at: datetime) -> None:
    """Record that what was shown again was refused again."""
    active = conversation.state.active_run
    if active is None or active.next_step_id != step_id or not refuses_trial(conversation, failure):
        return
    conversation.record(
        RetriedContentRefused,
        at=at,
        run_id=active.run.id,
        agent_id=conversation.state.agent_id,
        step_id=step_id,
        error_type=failure.error_type,
        message=failure.message,
    )


def fail(
    conversation: Conversation,
    step_id: str,
    failure: Failure,
    *,
    step: UnfinishedStep | None = None,
    rebuilt: SystemPrompt | None = None,
    at: datetime,
) -> None:
    """End the run with an error, in another `step` than the next; the next run starts. What the
    model was asked is recorded where its system message was `rebuilt`."""
    active = conversation.state.active_run
    if active is None or active.next_step_id != step_id or active.open_call is not None:
        return
    if rebuilt is not None:
        conversation.rebuild(rebuilt, at=at)
    conversation.record(
        RunFailed,
        at=at,
        run_id=active.run.id,
        stop_reason=failure.stop_reason,
        **error_fields(failure),
        step=step or unfinished_step(active, conversation.state.agent_id, failure.model),
        **end_fields(active, at),
    )
    start_next(conversation, at=at)


def abort(
    conversation: Conversation, failure: Failure, *, message_ids: Iterable[str], at: datetime
) -> None:
    """End the run wherever it stands; what it was waiting for counts as interrupted."""
    active = conversation.state.active_run
    if active is None:
        return
    step = unfinished_step(active, conversation.state.agent_id, failure.model)
    interrupt_all(conversation, INTERRUPTED, message_ids=message_ids, at=at)
    fail(conversation, active.next_step_id, failure, step=step, at=at)
