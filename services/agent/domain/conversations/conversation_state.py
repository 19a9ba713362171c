"""What is known of a conversation, and how each event changes it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalEnded,
    ApprovalRequested,
    ToolCallReturned,
)
from libs.contracts.agent.compaction import (
    ContextCleared,
    ConversationCompacted,
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
    RequestRun,
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
from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    PENDING_APPROVAL,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta import error_bodies
from libs.contracts.letta.conversations import ConversationConfig
from libs.contracts.letta.runs import RunConfig
from services.agent.domain.conversations.active_run import (
    ActiveRun,
    QueuedRun,
    RetriedRun,
    mark,
    served_parts,
)
from services.agent.domain.conversations.approval_state import (
    AnsweredCall,
    PendingApproval,
    PendingCall,
)
from services.agent.domain.conversations.approval_state_transitions import (
    answers_moved,
    cancel_answers,
    end_approval,
    follow_up,
    gate_of,
    requested,
    take_answers,
)
from services.agent.domain.conversations.context_window_eviction import (
    WindowLength,
    cleared,
    compacted,
)
from services.agent.domain.conversations.provider_rejected_messages import (
    ALL_OLDER,
    REFUSED,
    Omissions,
    Refusals,
    omitted_after,
    refused_again,
)
from services.agent.domain.tools.tool_rules import decides, without_required

RETRIED_RUNS_KEPT_MAX = 32
QUEUED_RUNS_MAX = 10_000
QUEUED_BYTES_MAX = 32 << 20


class SystemPrompt(BaseModel):
    """A system message, and the versions of everything that it was made from."""

    content: str
    shows: dict[str, int]


class HeartbeatPause(BaseModel):
    """A pause that the agent asked for, and the run in which it did: the next is like it."""

    until: datetime
    minutes: int
    run: RunConfig
    max_steps: int


class ConversationState(BaseModel):
    """What is known of a conversation."""

    agent_id: str = ""
    # What it is beside the agent's own conversation; that has none.
    own: ConversationConfig | None = None
    window: list[Message] = []
    length: WindowLength = Field(default_factory=WindowLength)
    shown: dict[str, int] | None = None
    queue: list[QueuedRun] = []
    queued_bytes: int = 0
    retried: list[RetriedRun] = []
    active_run: ActiveRun | None = None
    pause: HeartbeatPause | None = None
    deleted: bool = False
    omitted: Omissions = Field(default_factory=Omissions)
    # Since a model answered last; None where it was not refused.
    refusals: Refusals | None = None
    # How often in a row no model could summarise it, and when that was last.
    summary_failures: int = 0
    summary_failed_at: datetime | None = None
    # The step whose calls wait for the client. No run starts before it is answered or ended, and
    # its message stays in the window.
    approval: PendingApproval | None = None
    answered: list[AnsweredCall] = []
    # When its latest message was listed: no later one is listed before it.
    listed_at: datetime | None = None

    @property
    def own_blocks(self) -> list[str]:
        """The blocks that were made with the conversation."""
        return [*self.own.isolated_blocks.values()] if self.own else []

    @property
    def unended(self) -> list[str]:
        """The runs that have not ended, the active one first."""
        active = [self.active_run.run.id] if self.active_run else []
        return active + [waiting.run.id for waiting in self.queue]


def evolved(state: ConversationState, event: Event) -> ConversationState:
    """The state after an event; it may be the same object, changed."""
    if isinstance(event, MessageAppended | ConversationCompacted):
        times = (event.timestamp, event.listed_at, state.listed_at)
        state.listed_at = max(time for time in times if time is not None)
    match event:
        case MessageAppended():
            append(state, event)
        case SystemPromptRebuilt():
            state.length.add(state.window[0], -1)
            state.length.add(event.message)
            state.window[0] = event.message
            state.shown = event.shows
        case ConversationCompacted():
            compacted(state, event)
        case ContextCleared():
            cleared(state, event)
        case RunAccepted():
            queued = QueuedRun(
                run=event.run,
                messages=event.messages,
                max_steps=event.max_steps,
                stream_tokens=event.stream_tokens,
                agent_type=event.agent_type,
                tool_rules=event.tool_rules,
                structured_summaries=event.structured_summaries,
                autoclear=event.autoclear,
                compaction=event.compaction,
                options=event.options,
                gate=gate_of(event),
                answers=event.answers,
            )
            state.queue.insert(0 if event.answers else len(state.queue), queued)
            state.queued_bytes += queued.bytes
            if event.goes_on_from:
                answers_moved(state, event.goes_on_from, event.run_id)
            if event.retry:
                state.retried = [*state.retried, retried_run(event)][-RETRIED_RUNS_KEPT_MAX:]
        case RunStarted():
            waiting = state.queue.pop(0)
            state.queued_bytes -= waiting.bytes
            assert waiting.run.id == event.run_id, "runs start in the order of acceptance"
            state.active_run = ActiveRun(
                run=waiting.run,
                max_steps=waiting.max_steps,
                stream_tokens=waiting.stream_tokens,
                agent_type=waiting.agent_type,
                tool_rules=waiting.tool_rules,
                structured_summaries=waiting.structured_summaries,
                compaction=waiting.compaction,
                options=waiting.options,
                gate=waiting.gate,
                follow_ups=waiting.messages if waiting.answers else [],
                started_at=event.timestamp,
            )
        case ModelReplied():
            active = running(state)
            active.steps += 1
            active.step_id = event.step_id
            if active.tool_rules:
                active.called = active.history
            active.offered = event.offered
            active.tool_rules = without_required(active.tool_rules, event.gone)
            active.calls = [
                PendingCall(call=call, concurrent=call.id in event.concurrent)
                for call in event.tool_calls
            ]
            active.finish_reason = event.finish_reason
            active.usage = active.usage.plus(event.usage)
            active.context_tokens = event.usage.prompt_tokens + event.usage.completion_tokens
            active.compactions = 0
            state.refusals = None
            state.length.replied(event)
        case ToolCallStarted():
            mark(running(state), event.tool_call_id, "waiting", "started")
        case ToolCallsStarted():
            for one in event.calls:
                mark(running(state), one.tool_call_id, "waiting", "started")
        case ToolCallRefused():
            pending = mark(running(state), event.tool_call_id, "waiting", "finished")
            pending.refused, pending.held = True, event.held
        case ToolCallReturned():
            mark(running(state), event.tool_call_id, "waiting", "finished").held = event.held
        case ApprovalRequested():
            state.approval = requested(running(state), event)
        case ApprovalAnswered():
            take_answers(state, event)
        case ApprovalEnded():
            end_approval(state, event)
        case ToolCallFinished():
            pending = mark(running(state), event.tool_call_id, "started", "finished")
            pending.held, pending.called = event.held, event.called
        case ToolCallInterrupted():
            mark(running(state), event.tool_call_id, "started", "finished").held = event.held
        case RunCompleted():
            state.active_run = None
        case RunFailed():
            state.active_run = None
            if event.error_type in REFUSED:
                leave_out(state, event)
        case QueuedRunsCancelled():
            leave_queue(state, set(event.run_ids))
        case RunCancelled():
            leave_queue(state, {event.run_id})
            cancel_answers(state, event.run_id)
            if state.active_run is not None and state.active_run.run.id == event.run_id:
                state.active_run = None
        case ConversationCreated() | ConversationUpdated():
            state.agent_id, state.own = event.config.agent_id, event.config
        case HeartbeatsPaused():
            active = running(state)
            active.paused = True
            state.pause = HeartbeatPause(
                until=event.until, minutes=event.minutes, run=active.run, max_steps=active.max_steps
            )
        case HeartbeatsResumed() | HeartbeatPauseCancelled():
            state.pause = None
        case ConversationDeleted():
            return ConversationState(agent_id=state.agent_id, deleted=True)
        case StepAnnotated() | RunDeleted() | CallbackAttempted() | ToolCallForbidden():
            return state  # they say nothing of the run that is active
    if state.active_run is not None:
        state.active_run.pass_until(event.timestamp)
    return state


def append(state: ConversationState, event: MessageAppended) -> None:
    """One more message; if it belongs to the running answer, it was in the run stream."""
    state.agent_id = event.agent_id
    if event.message.role == "approval":
        return
    state.window.append(event.message)
    state.length.add(event.message)
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


def overtaken_by(state: ConversationState, request_hash: str, asked_at: datetime) -> str | None:
    """The run that a later retry of a request started, if its first try comes late."""
    return next(
        (
            later.run_id
            for later in state.retried
            if later.request_hash == request_hash and later.asked_at > asked_at
        ),
        None,
    )


def no_room(state: ConversationState, command: RequestRun) -> Rejected | None:
    """The refusal of one more run: where another has not ended and this one may not wait, where
    calls wait for the client, or where as many wait as may."""
    if state.approval is not None:
        return approval_pending(state.approval)
    if command.unless_busy and state.active_run is not None:
        run = state.active_run.run
        reason = str(error_bodies.conversation_busy()["detail"])
        details: JsonObject = {"run_id": run.id, "background": run.background}
        return Rejected(code=CONFLICT, reason=reason, details=details)
    if len(state.queue) >= QUEUED_RUNS_MAX:
        what = f"{QUEUED_RUNS_MAX} runs wait"
    elif state.queued_bytes >= QUEUED_BYTES_MAX:
        what = f"Runs with {QUEUED_BYTES_MAX} bytes of messages wait"
    else:
        return None
    return Rejected(code=BUSY, reason=f"{what} for agent {command.agent_id}: try again later")


def approval_pending(approval: PendingApproval) -> Rejected:
    """The refusal of messages where calls wait for the client's answer."""
    return Rejected(
        code=PENDING_APPROVAL,
        reason=f"Calls wait for an answer: {', '.join(approval.waiting)}",
        details={"pending_request_id": approval.message_id},
    )


def leave_queue(state: ConversationState, run_ids: set[str]) -> None:
    """Runs do not wait any more."""
    state.queue = [one for one in state.queue if one.run.id not in run_ids]
    state.queued_bytes = sum(one.bytes for one in state.queue)


def leave_out(state: ConversationState, event: RunFailed) -> None:
    """Models are not shown again what they refused."""
    refusals = refused_again(state.refusals, state.omitted)
    state.omitted = omitted_after(refusals, state.omitted, state.window, event)
    state.refusals = refusals if refusals.count <= ALL_OLDER else None


def running(state: ConversationState) -> ActiveRun:
    """The active run, where there must be one."""
    assert state.active_run is not None, "a run is active"
    return state.active_run


def retried_run(event: RunAccepted) -> RetriedRun:
    """What is remembered of a run that a retry started."""
    return RetriedRun(
        run_id=event.run_id,
        request_hash=event.request_hash,
        asked_at=event.asked_at or event.run.created_at,
    )
