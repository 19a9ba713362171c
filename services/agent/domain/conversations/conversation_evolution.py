"""State transitions of a conversation, one for each event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalCancelled,
    ApprovalExpired,
    ApprovalRequested,
    ToolCallReturned,
)
from libs.contracts.agent.compaction import (
    ContextCleared,
    ContextReplaced,
    ConversationCompacted,
    RetriedContentRefused,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationUpdated,
    Message,
    MessageAppended,
    SystemPromptRebuilt,
)
from libs.contracts.agent.runs import (
    CallbackAttempted,
    HeartbeatPauseCancelled,
    HeartbeatsPaused,
    HeartbeatsResumed,
    QueuedRunsCancelled,
    ReviewableRunEnded,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunDeleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.agent.steps import (
    ModelReplied,
    StepAnnotated,
    ToolCallFinished,
    ToolCallForbidden,
    ToolCallInterrupted,
    ToolCallRefused,
    ToolCallsStarted,
    ToolCallStarted,
)
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Event
from services.agent.domain.conversations.active_run import (
    AcceptedRun,
    ActiveRun,
    QueuedRun,
    RetriedRun,
    mark,
    served_parts,
)
from services.agent.domain.conversations.approval_state import (
    PendingCall,
)
from services.agent.domain.conversations.approval_state_transitions import (
    answers_moved,
    cancel_answers,
    end_approval,
    follow_up,
    gate_of,
    pending_approval,
    settle_cancelled,
    take_answers,
)
from services.agent.domain.conversations.conversation_state import ConversationState, HeartbeatPause
from services.agent.domain.conversations.provider_rejected_messages import (
    ALL_OLDER,
    REFUSED,
    Omissions,
    Trial,
    after_answer,
    after_failed_trial,
    all_tried_again,
    omitted_after,
    refused_again,
)
from services.agent.domain.tools.tool_rules import decides, without_required

RETRIED_RUNS_KEPT_MAX = 32
# What says nothing of the run that is active.
UNRELATED = frozenset(
    {StepAnnotated, RunDeleted, CallbackAttempted, ToolCallForbidden, ReviewableRunEnded}
)


def evolve(state: ConversationState, event: Event) -> ConversationState:
    """The state after an event; it may be the same object, changed."""
    if isinstance(event, ConversationDeleted):
        return ConversationState(agent_id=state.agent_id, deleted=True)
    kind = type(event)
    if kind in UNRELATED:
        return state
    CHANGES[kind](state, event)
    # A run that is accepted behind the active one is often recorded by another process, whose clock
    # may differ: the clocks of two, by turns, would make each pause a long one.
    if state.active_run is not None and kind is not RunAccepted:
        state.active_run.pass_until(event.timestamp)
    return state


def append(state: ConversationState, event: MessageAppended) -> None:
    """One more message; if it belongs to the running answer, it was in the run stream."""
    note_listing(state, event)
    state.agent_id = event.agent_id
    if event.message.role == "approval":
        return
    if not event.in_context:
        state.length.evicted += event.message.summary is None
        return
    state.window.append(event.message)
    state.length.add(event.message)
    if event.message.role == "user":
        settle_cancelled(state)
    state.shown = event.shows or state.shown
    if state.active_run is None or event.run_id is None:
        return
    if event.sent:
        follow_up(state.active_run, event.message.id)
        return
    if event.message.role == "tool":
        state.active_run.show(event.message.tool_call_id)
    if event.message.role == "tool" and decides(
        state.active_run.tool_rules, event.message.name or ""
    ):
        state.active_run.returned = text_of(event.message)
    parts = served_parts(event.message) if event.chunks is None else len(event.chunks)
    first = state.active_run.last_number + 1 if event.number is None else event.number
    assert first > state.active_run.last_number, "numbers only grow"
    state.active_run.last_number = first + parts - 1


def note_listing(state: ConversationState, event: MessageAppended | ConversationCompacted) -> None:
    """Note when a message is listed: no later message is listed before it."""
    times = (event.timestamp, event.listed_at, state.listed_at)
    state.listed_at = max(time for time in times if time is not None)


def rebuild_prompt(state: ConversationState, event: SystemPromptRebuilt) -> None:
    """The system message is another one."""
    state.length.add(state.window[0], -1)
    state.length.add(event.message)
    state.window[0] = event.message
    state.shown = event.shows


def compact(state: ConversationState, event: ConversationCompacted) -> None:
    """Put the summary in the place of the older messages."""
    note_listing(state, event)
    evict(state, len(event.evicted), event.message)
    if event.model is not None:
        state.summary_failures, state.summary_failed_at = 0, None
    elif event.failures:
        state.summary_failures += 1
        state.summary_failed_at = event.timestamp
    if state.active_run is not None:
        state.active_run.compactions += 1
        state.active_run.last_number = event.number + served_parts(event.message) - 1


def clear(state: ConversationState, event: ContextCleared) -> None:
    """Remove all messages but the system message and those that came since."""
    settle_cancelled(state)
    evict(state, len(event.evicted))


def replace(state: ConversationState, event: ContextReplaced) -> None:
    """The window is another one, of messages that it had and of others that are back. What models
    refused is shown again where it is among them."""
    known = {message.id: message for message in (*event.returned, *state.window)}
    system = state.window[0]
    others = [name for name in event.message_ids if name in known and name != system.id]
    window = [system, *(known[name] for name in others)]
    for message in state.window:
        state.length.add(message, -1)
    for message in window:
        state.length.add(message)
    state.length.evicted += said_messages(state.window) - said_messages(window)
    state.window, state.omitted, state.refusals = window, Omissions(), None
    state.trial = Trial()
    settle_cancelled(state)


def said_messages(window: list[Message]) -> int:
    """The number of these messages that are no summaries."""
    return sum(message.summary is None for message in window)


def evict(state: ConversationState, count: int, *summaries: Message) -> None:
    """The messages behind the system message are gone, so many; a summary may stand for them."""
    for message in state.window[1 : 1 + count]:
        state.length.add(message, -1)
        if message.summary is None:
            state.length.evicted += 1
    for message in summaries:
        state.length.add(message)
    state.window[1 : 1 + count] = summaries
    moved = partial(move_omissions, window=state.window, by=count - len(summaries))
    state.omitted = moved(state.omitted)
    if state.refusals is not None:
        before = moved(state.refusals.before)
        state.refusals = state.refusals.model_copy(update={"before": before})
    if state.trial.omitted is not None:
        state.trial = state.trial.model_copy(update={"omitted": moved(state.trial.omitted)})
    state.trial = state.trial.of_parts_in(state.trial.omitted or state.omitted)


def move_omissions(omitted: Omissions, window: list[Message], by: int) -> Omissions:
    """The omissions of the window after its first `by` messages are gone."""
    if not omitted:
        return omitted
    left = {message.id for message in window} if omitted.messages else set()
    return omitted.model_copy(
        update={
            "messages": {name: why for name, why in omitted.messages.items() if name in left},
            "attachments_before": max(0, omitted.attachments_before - by),
            "all_before": max(0, omitted.all_before - by),
        }
    )


def queue_run(state: ConversationState, event: RunAccepted) -> None:
    """A run waits; one that brings an answer goes before all others."""
    said = {name: getattr(event, name) for name in QueuedRun.model_fields if name != "gate"}
    queued = QueuedRun(**said, gate=gate_of(event))
    state.queue.insert(0 if event.answers else len(state.queue), queued)
    state.queued_bytes += queued.bytes
    if event.goes_on_from:
        answers_moved(state, event.goes_on_from, event.run_id)
    if event.retry:
        state.retried = [*state.retried, retried_run(event)][-RETRIED_RUNS_KEPT_MAX:]


def retried_run(event: RunAccepted) -> RetriedRun:
    """The facts kept of a run that a retry started."""
    return RetriedRun(
        run_id=event.run_id,
        request_hash=event.request_hash,
        asked_at=event.asked_at or event.run.created_at,
    )


def start_run(state: ConversationState, event: RunStarted) -> None:
    """The run that waits longest is the active one."""
    waiting = state.queue.pop(0)
    state.queued_bytes -= waiting.bytes
    assert waiting.run.id == event.run_id, "runs start in the order of acceptance"
    state.active_run = ActiveRun(
        **{name: getattr(waiting, name) for name in AcceptedRun.model_fields},
        follow_ups=waiting.messages if waiting.answers else [],
        started_at=event.timestamp,
        brings_nothing=waiting.unless_said or not (waiting.messages or waiting.answers),
    )
    if waiting.unless_said:
        state.omitted, state.trial = all_tried_again(state.omitted, state.trial)


def take_reply(state: ConversationState, event: ModelReplied) -> None:
    """The active run has one more step, with these calls."""
    active = state.running
    active.steps += 1
    active.step_id = event.step_id
    if active.tool_rules:
        active.called = active.history
    active.offered = event.offered
    active.tool_rules = without_required(active.tool_rules, event.gone)
    active.calls = [
        PendingCall(call=call, concurrent=call.id in event.concurrent) for call in event.tool_calls
    ]
    active.finish_reason = event.finish_reason
    active.usage = active.usage.plus(event.usage)
    active.context_tokens = event.usage.prompt_tokens + event.usage.completion_tokens
    active.compactions = 0
    state.refusals = None
    settle_cancelled(state)
    if event.tries_again:
        state.omitted, state.trial = after_answer(state.omitted, state.trial)
    state.length.measure(event)


def start_call(state: ConversationState, event: ToolCallStarted) -> None:
    """A call is carried out."""
    mark(state.running, event.tool_call_id, "waiting", "started")


def start_calls(state: ConversationState, event: ToolCallsStarted) -> None:
    """Several calls are carried out beside each other."""
    for started in event.calls:
        mark(state.running, started.tool_call_id, "waiting", "started")


def refuse_call(state: ConversationState, event: ToolCallRefused) -> None:
    """A call is not carried out."""
    pending = mark(state.running, event.tool_call_id, "waiting", "finished")
    pending.refused, pending.held = True, event.held


def return_call(state: ConversationState, event: ToolCallReturned) -> None:
    """The client has carried a call out."""
    mark(state.running, event.tool_call_id, "waiting", "finished").held = event.held


def finish_call(state: ConversationState, event: ToolCallFinished) -> None:
    """A call has its result."""
    pending = mark(state.running, event.tool_call_id, "started", "finished")
    pending.held, pending.called = event.held, event.called


def interrupt_call(state: ConversationState, event: ToolCallInterrupted) -> None:
    """Nobody knows what came of a call."""
    mark(state.running, event.tool_call_id, "started", "finished").held = event.held


def await_client(state: ConversationState, event: ApprovalRequested) -> None:
    """Calls of the active run's step wait for the client."""
    state.approval = pending_approval(state.running, event)


def complete_run(state: ConversationState, event: RunCompleted) -> None:
    """No run is active any more."""
    state.active_run = None


def end_trial(state: ConversationState, event: RetriedContentRefused) -> None:
    """Leave out again the part that was shown on trial."""
    state.omitted, state.trial = after_failed_trial(state.trial)


def fail_run(state: ConversationState, event: RunFailed) -> None:
    """No run is active any more; models are not shown again what they refused. What is on trial is
    to blame before anything else; a run that said nothing new changes nothing."""
    said_nothing = state.active_run is not None and state.active_run.says_nothing
    state.active_run = None
    if event.error_type not in REFUSED:
        return
    if state.trial.is_running:
        state.omitted, state.trial = after_failed_trial(state.trial)
        return
    if said_nothing:
        return
    refusals = refused_again(state.refusals, state.omitted)
    state.omitted = omitted_after(refusals, state.omitted, state.window, event)
    state.refusals = refusals if refusals.count <= ALL_OLDER else None


def cancel_queued(state: ConversationState, event: QueuedRunsCancelled) -> None:
    """Runs do not wait any more."""
    leave_queue(state, set(event.run_ids))


def leave_queue(state: ConversationState, run_ids: set[str]) -> None:
    """Runs do not wait any more."""
    state.queue = [queued for queued in state.queue if queued.run.id not in run_ids]
    state.queued_bytes = sum(queued.bytes for queued in state.queue)


def cancel_run(state: ConversationState, event: RunCancelled) -> None:
    """A run is neither active nor in line any more."""
    leave_queue(state, {event.run_id})
    cancel_answers(state, event.run_id)
    if state.active_run is not None and state.active_run.run.id == event.run_id:
        state.active_run = None


def configure(state: ConversationState, event: ConversationCreated | ConversationUpdated) -> None:
    """Replace the conversation's overrides of the agent's configuration."""
    state.agent_id, state.own = event.config.agent_id, event.config


def pause_heartbeats(state: ConversationState, event: HeartbeatsPaused) -> None:
    """The active run ends behind its step, and another one follows after a pause."""
    active = state.running
    active.paused = True
    state.pause = HeartbeatPause(
        until=event.until, minutes=event.minutes, run=active.run, max_steps=active.max_steps
    )


def end_pause(state: ConversationState, event: HeartbeatsResumed | HeartbeatPauseCancelled) -> None:
    """There is no pause any more."""
    state.pause = None


CHANGES: Mapping[type[Event], Callable[[ConversationState, Any], None]] = {
    MessageAppended: append,
    SystemPromptRebuilt: rebuild_prompt,
    ConversationCompacted: compact,
    ContextCleared: clear,
    ContextReplaced: replace,
    RetriedContentRefused: end_trial,
    RunAccepted: queue_run,
    RunStarted: start_run,
    ModelReplied: take_reply,
    ToolCallStarted: start_call,
    ToolCallsStarted: start_calls,
    ToolCallRefused: refuse_call,
    ToolCallReturned: return_call,
    ToolCallFinished: finish_call,
    ToolCallInterrupted: interrupt_call,
    ApprovalRequested: await_client,
    ApprovalAnswered: take_answers,
    ApprovalExpired: end_approval,
    ApprovalCancelled: end_approval,
    RunCompleted: complete_run,
    RunFailed: fail_run,
    QueuedRunsCancelled: cancel_queued,
    RunCancelled: cancel_run,
    ConversationCreated: configure,
    ConversationUpdated: configure,
    HeartbeatsPaused: pause_heartbeats,
    HeartbeatsResumed: end_pause,
    HeartbeatPauseCancelled: end_pause,
}
