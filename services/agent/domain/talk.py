"""What is known of a conversation, and how each event changes it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from libs.contracts.conversation import (
    ConversationDeleted,
    Message,
    MessageAppended,
    ModelReplied,
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    SystemPromptRebuilt,
    ToolCallFinished,
    ToolCallInterrupted,
    ToolCallStarted,
)
from libs.contracts.message import Event
from services.agent.domain.omissions import (
    ALL_OLDER,
    REFUSED,
    Omissions,
    Refusals,
    omitted_after,
    refused_again,
)
from services.agent.domain.turn import (
    PendingCall,
    QueuedRun,
    RetriedRun,
    Turn,
    mark,
    served_parts,
)

RETRIED_RUNS_KEPT_MAX = 32


class SystemPrompt(BaseModel):
    """A system message, and the versions of everything that it was made from."""

    content: str
    shows: dict[str, int]


class Talk(BaseModel):
    """What is known of a conversation."""

    agent_id: str = ""
    window: list[Message] = []
    shown: dict[str, int] | None = None
    queue: list[QueuedRun] = []
    queued_bytes: int = 0
    retried: list[RetriedRun] = []
    turn: Turn | None = None
    deleted: bool = False
    omitted: Omissions = Field(default_factory=Omissions)
    # Since a model answered last; None where it was not refused.
    refusals: Refusals | None = None


def evolved(talk: Talk, event: Event) -> Talk:
    """The state after an event; it may be the same object, changed."""
    match event:
        case MessageAppended():
            append(talk, event)
        case SystemPromptRebuilt():
            talk.window[0] = event.message
            talk.shown = event.shows
        case RunAccepted():
            queued = QueuedRun(
                run=event.run,
                messages=event.messages,
                max_steps=event.max_steps,
                stream_tokens=event.stream_tokens,
            )
            talk.queue.append(queued)
            talk.queued_bytes += queued.bytes
            if event.retry:
                talk.retried = [*talk.retried, retried_run(event)][-RETRIED_RUNS_KEPT_MAX:]
        case RunStarted():
            waiting = talk.queue.pop(0)
            talk.queued_bytes -= waiting.bytes
            assert waiting.run.id == event.run_id, "runs start in the order of acceptance"
            talk.turn = Turn(
                run=waiting.run,
                max_steps=waiting.max_steps,
                stream_tokens=waiting.stream_tokens,
                started_at=event.timestamp,
            )
        case ModelReplied():
            turn = running(talk)
            turn.steps += 1
            turn.step_id = event.step_id
            turn.calls = [PendingCall(call=call) for call in event.tool_calls]
            turn.usage = turn.usage.plus(event.usage)
            turn.context_tokens = event.usage.prompt_tokens + event.usage.completion_tokens
            talk.refusals = None
        case ToolCallStarted():
            mark(running(talk), "waiting", "started")
        case ToolCallFinished() | ToolCallInterrupted():
            mark(running(talk), "started", "finished")
        case RunCompleted():
            talk.turn = None
        case RunFailed():
            talk.turn = None
            if event.error_type in REFUSED:
                leave_out(talk, event)
        case QueuedRunsCancelled():
            leave_queue(talk, set(event.run_ids))
        case RunCancelled():
            leave_queue(talk, {event.run_id})
            if talk.turn is not None and talk.turn.run.id == event.run_id:
                talk.turn = None
        case ConversationDeleted():
            return Talk(agent_id=talk.agent_id, deleted=True)
    if talk.turn is not None:
        talk.turn.pass_until(event.timestamp)
    return talk


def append(talk: Talk, event: MessageAppended) -> None:
    """One more message; if it belongs to the running answer, clients were told of it."""
    talk.agent_id = event.agent_id
    talk.window.append(event.message)
    talk.shown = event.shows or talk.shown
    if talk.turn is None or event.sent or event.run_id is None:
        return
    parts = served_parts(event.message) if event.pieces is None else len(event.pieces)
    first = talk.turn.told + 1 if event.number is None else event.number
    assert first > talk.turn.told, "numbers only grow"
    talk.turn.told = first + parts - 1


def leave_queue(talk: Talk, run_ids: set[str]) -> None:
    """Runs do not wait any more."""
    talk.queue = [one for one in talk.queue if one.run.id not in run_ids]
    talk.queued_bytes = sum(one.bytes for one in talk.queue)


def leave_out(talk: Talk, event: RunFailed) -> None:
    """Models are not shown again what they refused."""
    refusals = refused_again(talk.refusals, talk.omitted)
    talk.omitted = omitted_after(refusals, talk.omitted, talk.window, event)
    talk.refusals = refusals if refusals.count <= ALL_OLDER else None


def running(talk: Talk) -> Turn:
    """The turn, where there must be one."""
    assert talk.turn is not None, "somebody has the turn"
    return talk.turn


def retried_run(event: RunAccepted) -> RetriedRun:
    """What is remembered of a run that a retry started."""
    return RetriedRun(
        run_id=event.run_id,
        request_hash=event.request_hash,
        asked_at=event.asked_at or event.run.created_at,
    )
