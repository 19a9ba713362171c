"""A conversation: what the model sees, which runs wait, and where the running one stands.

The deciders are safe to repeat. After a conflict or a crash the same fact may be reported again;
what is recorded already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel

from libs.contracts.aggregate import Aggregate
from libs.contracts.conversation import (
    ConversationDeleted,
    Message,
    MessageAppended,
    ModelReplied,
    RunAccepted,
    RunCompleted,
    RunFailed,
    RunStarted,
    StartRun,
    SystemPromptRebuilt,
    ToolCall,
    ToolCallFinished,
    ToolCallInterrupted,
    ToolCallStarted,
)
from libs.contracts.message import CONFLICT, Event, Rejected
from services.agent.domain.turn import (
    AskModel,
    Failure,
    ModelReply,
    NextAction,
    PendingCall,
    QueuedRun,
    RetriedRun,
    RunTool,
    StartTool,
    ToolResult,
    Turn,
    mark,
    nanoseconds,
    served_parts,
)

QUEUED_RUNS_MAX = 10_000
RETRIED_RUNS_KEPT_MAX = 32
INTERRUPTED = (
    "The tool call was interrupted: the server stopped while the tool ran, and whether it took "
    "effect is not known. Check before you call it again."
)


class Talk(BaseModel):
    """What is known of a conversation."""

    agent_id: str = ""
    window: list[Message] = []
    shown: dict[str, int] | None = None
    queue: list[QueuedRun] = []
    retried: list[RetriedRun] = []
    turn: Turn | None = None
    deleted: bool = False


class Conversation(Aggregate[Talk]):
    """One conversation of one agent."""

    State = Talk

    def begin(self, agent_id: str, system: Message, shows: dict[str, int], *, at: datetime) -> None:
        """Begin to exist, with the system message and what it was made from."""
        self.happened(MessageAppended, at=at, agent_id=agent_id, message=system, shows=shows)

    def append(self, message: Message, *, at: datetime) -> None:
        """Put a message into the history outside of any run."""
        self.happened(MessageAppended, at=at, agent_id=self.state.agent_id, message=message)

    # Runs

    def accept(self, command: StartRun, *, at: datetime) -> Rejected | None:
        """Promise to answer; if nobody is being answered, it is this run's turn at once."""
        if len(self.state.queue) >= QUEUED_RUNS_MAX:
            reason = f"{QUEUED_RUNS_MAX} messages wait for agent {command.agent_id}: send it later"
            return Rejected(code=CONFLICT, reason=reason)
        self.happened(
            RunAccepted,
            at=at,
            run_id=command.run.id,
            run=command.run,
            messages=command.messages,
            max_steps=command.max_steps,
            request_hash=command.request_hash,
            retry=command.retry,
        )
        self.start_next(at=at)
        return None

    def overtaken_by(self, command: StartRun) -> str | None:
        """The run that a later retry of this very request started, if this first try comes late."""
        return next(
            (
                later.run_id
                for later in self.state.retried
                if later.request_hash == command.request_hash
                and later.asked_at > command.run.created_at
            ),
            None,
        )

    def start_next(self, *, at: datetime) -> None:
        """Let the run that waits longest have its turn, if nobody has it."""
        if self.state.turn is not None or not self.state.queue:
            return
        waiting = self.state.queue[0]
        self.happened(RunStarted, at=at, run_id=waiting.run.id, agent_id=self.state.agent_id)
        for message in waiting.messages:
            self.happened(
                MessageAppended,
                at=at,
                agent_id=self.state.agent_id,
                message=message,
                run_id=waiting.run.id,
                step_id=self.running().next_step_id,
                sent=True,
            )

    def next_action(self) -> NextAction | None:
        """What has to be done now; None when nobody has the turn."""
        turn = self.state.turn
        if turn is None:
            return None
        pending = turn.open_call
        if pending is None:
            return AskModel(turn.next_step_id)
        if pending.state == "waiting":
            return StartTool(pending.call)
        return RunTool(turn.step_id, pending.call)

    def model_replied(
        self,
        step_id: str,
        model: str,
        reply: ModelReply,
        *,
        message_id: str,
        parallel: bool,
        rebuilt: SystemPrompt | None,
        at: datetime,
    ) -> None:
        """Record a step of the model, what it was shown, and what follows from it."""
        turn = self.state.turn
        if turn is None or turn.next_step_id != step_id or turn.open_call is not None:
            return
        run_id = turn.run.id
        calls = reply.tool_calls if parallel else reply.tool_calls[:1]
        if rebuilt is not None:
            self.rebuild(rebuilt, at=at)
        self.happened(
            ModelReplied,
            at=at,
            run_id=run_id,
            step_id=step_id,
            model=model,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            tool_calls=calls,
        )
        if reply.text or reply.reasoning or reply.reasoning_parts or calls:
            message = Message(
                id=message_id,
                role="assistant",
                content=reply.text or None,
                reasoning=None if reply.reasoning_parts else reply.reasoning,
                reasoning_parts=reply.reasoning_parts,
                tool_calls=calls,
                created_at=at,
            )
            self.append_in_step(message, at=at)
        if calls:
            self.start_tool(calls[0], at=at)
        else:
            cut = reply.finish_reason == "length"
            self.complete("max_tokens_exceeded" if cut else "end_turn", at=at)

    def start_tool(self, call: ToolCall, *, at: datetime) -> None:
        """Record that a tool is about to run."""
        turn = self.state.turn
        if turn is None or turn.open_call != PendingCall(call=call, state="waiting"):
            return
        self.happened(
            ToolCallStarted,
            at=at,
            run_id=turn.run.id,
            step_id=turn.step_id,
            tool_call_id=call.id,
            tool=call.name,
        )

    def tool_returned(
        self, step_id: str, call: ToolCall, result: ToolResult, *, message_id: str, at: datetime
    ) -> None:
        """Record a tool's result, and what follows from it."""
        turn = self.awaiting(step_id, call)
        if turn is None:
            return
        self.happened(
            ToolCallFinished,
            at=at,
            run_id=turn.run.id,
            step_id=step_id,
            tool_call_id=call.id,
            status=result.status,
        )
        self.show(call, result, message_id=message_id, at=at)
        self.go_on(at=at)

    def tool_interrupted(
        self, step_id: str, call: ToolCall, *, message_id: str, at: datetime
    ) -> None:
        """Record that nobody knows what a tool did, and tell the model so."""
        turn = self.awaiting(step_id, call)
        if turn is None:
            return
        self.interrupt(turn, call, message_id=message_id, at=at)
        self.go_on(at=at)

    def show(self, call: ToolCall, result: ToolResult, *, message_id: str, at: datetime) -> None:
        """Show the result of a call to the model."""
        message = Message(
            id=message_id,
            role="tool",
            content=result.text,
            name=call.name,
            tool_call_id=call.id,
            tool_status=result.status,
            created_at=at,
        )
        self.append_in_step(message, at=at)

    def go_on(self, *, at: datetime) -> None:
        """After a tool: the next call, the next step, or the end."""
        turn = self.running()
        pending = turn.open_call
        if pending is not None:
            self.start_tool(pending.call, at=at)
        elif turn.steps >= turn.max_steps:
            self.complete("max_steps", at=at)

    def fail(self, step_id: str, failure: Failure, *, at: datetime) -> None:
        """End the run with an error; the next one has its turn."""
        turn = self.state.turn
        if turn is None or turn.next_step_id != step_id or turn.open_call is not None:
            return
        self.happened(
            RunFailed,
            at=at,
            run_id=turn.run.id,
            stop_reason=failure.stop_reason,
            error_type=failure.error_type,
            message=failure.message,
            detail=failure.detail,
            usage=turn.usage,
            step_count=turn.steps,
            total_duration_ns=nanoseconds(turn.run.created_at, at),
        )
        self.start_next(at=at)

    def abort(self, failure: Failure, *, message_ids: Iterable[str], at: datetime) -> None:
        """End the run wherever it stands; what it was waiting for counts as interrupted."""
        turn = self.state.turn
        if turn is None:
            return
        fresh = iter(message_ids)
        while (pending := turn.open_call) is not None:
            if pending.state == "waiting":
                self.start_tool(pending.call, at=at)
            self.interrupt(turn, pending.call, message_id=next(fresh), at=at)
        self.fail(turn.next_step_id, failure, at=at)

    def interrupt(self, turn: Turn, call: ToolCall, *, message_id: str, at: datetime) -> None:
        """Record a call as interrupted and show the model so, without going on."""
        self.happened(
            ToolCallInterrupted,
            at=at,
            run_id=turn.run.id,
            step_id=turn.step_id,
            tool_call_id=call.id,
        )
        self.show(call, ToolResult("error", INTERRUPTED), message_id=message_id, at=at)

    def complete(self, stop_reason: str, *, at: datetime) -> None:
        """End the run; the next one has its turn."""
        turn = self.running()
        self.happened(
            RunCompleted,
            at=at,
            run_id=turn.run.id,
            stop_reason=stop_reason,
            usage=turn.usage,
            step_count=turn.steps,
            context_tokens=turn.context_tokens,
            total_duration_ns=nanoseconds(turn.run.created_at, at),
        )
        self.start_next(at=at)

    def delete(self, *, at: datetime) -> None:
        """Stop existing; whoever drives a run of it finds that out at the next commit."""
        if not self.state.deleted:
            self.happened(ConversationDeleted, at=at)

    # Parts of decisions

    def rebuild(self, prompt: SystemPrompt, *, at: datetime) -> None:
        """Replace the system message."""
        message = self.state.window[0].model_copy(update={"content": prompt.content})
        self.happened(
            SystemPromptRebuilt,
            at=at,
            agent_id=self.state.agent_id,
            message=message,
            shows=prompt.shows,
        )

    def append_in_step(self, message: Message, *, at: datetime) -> None:
        """Put a message of the running step into the history."""
        turn = self.running()
        self.happened(
            MessageAppended,
            at=at,
            agent_id=self.state.agent_id,
            message=message,
            run_id=turn.run.id,
            step_id=turn.step_id,
        )

    def running(self) -> Turn:
        """The turn, where there must be one."""
        assert self.state.turn is not None, "somebody has the turn"
        return self.state.turn

    def awaiting(self, step_id: str, call: ToolCall) -> Turn | None:
        """The turn, if it waits for the result of this very call."""
        turn = self.state.turn
        if turn is None or turn.step_id != step_id or turn.open_call is None:
            return None
        pending = turn.open_call
        return turn if pending.call == call and pending.state == "started" else None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        talk = self.state
        match event:
            case MessageAppended():
                talk.agent_id = event.agent_id
                talk.window.append(event.message)
                talk.shown = event.shows or talk.shown
                if talk.turn is not None and not event.sent and event.run_id is not None:
                    talk.turn.served += served_parts(event.message)
            case SystemPromptRebuilt():
                talk.window[0] = event.message
                talk.shown = event.shows
            case RunAccepted():
                talk.queue.append(
                    QueuedRun(run=event.run, messages=event.messages, max_steps=event.max_steps)
                )
                if event.retry:
                    talk.retried = [*talk.retried, retried_run(event)][-RETRIED_RUNS_KEPT_MAX:]
            case RunStarted():
                waiting = talk.queue.pop(0)
                assert waiting.run.id == event.run_id, "runs start in the order of acceptance"
                talk.turn = Turn(
                    run=waiting.run, max_steps=waiting.max_steps, started_at=event.timestamp
                )
            case ModelReplied():
                turn = self.running()
                turn.steps += 1
                turn.step_id = event.step_id
                turn.calls = [PendingCall(call=call) for call in event.tool_calls]
                turn.usage = turn.usage.plus(event.usage)
                turn.context_tokens = event.usage.prompt_tokens + event.usage.completion_tokens
            case ToolCallStarted():
                mark(self.running(), "waiting", "started")
            case ToolCallFinished() | ToolCallInterrupted():
                mark(self.running(), "started", "finished")
            case RunCompleted() | RunFailed():
                talk.turn = None
            case ConversationDeleted():
                self.state = Talk(agent_id=talk.agent_id, deleted=True)


def retried_run(event: RunAccepted) -> RetriedRun:
    """What is remembered of a run that a retry started."""
    return RetriedRun(
        run_id=event.run_id, request_hash=event.request_hash, asked_at=event.run.created_at
    )


class SystemPrompt(BaseModel):
    """A system message, and the versions of everything that it was made from."""

    content: str
    shows: dict[str, int]
