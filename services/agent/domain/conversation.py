"""A conversation: what the model sees, which runs wait, and where the running one stands.

The deciders are safe to repeat. After a conflict or a crash the same fact may be reported again;
what is recorded already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from libs.contracts.aggregate import SNAPSHOT_EVERY_EVENTS, Aggregate
from libs.contracts.conversation import (
    CancelRuns,
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
    StartRun,
    SystemPromptRebuilt,
    ToolCall,
    ToolCallFinished,
    ToolCallInterrupted,
    ToolCallStarted,
)
from libs.contracts.message import BUSY, CONFLICT, Event, Rejected
from libs.contracts.told import Piece
from services.agent.domain.talk import SystemPrompt, Talk, evolved, running
from services.agent.domain.turn import (
    AskModel,
    Failure,
    ModelReply,
    NextAction,
    PendingCall,
    RunTool,
    Spoken,
    StartTool,
    ToolResult,
    Turn,
    nanoseconds,
)

QUEUED_RUNS_MAX = 10_000
QUEUED_BYTES_MAX = 32 << 20
INTERRUPTED = (
    "The tool call was interrupted: the server stopped while the tool ran, and whether it took "
    "effect is not known. Check before you call it again."
)
CANCELLED = (
    "The tool call was interrupted: the user cancelled the run, and whether the tool took effect "
    "is not known."
)


class Conversation(Aggregate[Talk]):
    """One conversation of one agent."""

    State = Talk

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def snapshot_every_events(self) -> int:
        """The more runs wait and the more the model is shown, the larger a snapshot is; it is made
        the more rarely, so that a message costs the same however many there are."""
        return max(SNAPSHOT_EVERY_EVENTS, len(self.state.queue), len(self.state.window))

    def begin(self, agent_id: str, system: Message, shows: dict[str, int], *, at: datetime) -> None:
        """Begin to exist, with the system message and what it was made from."""
        self.happened(MessageAppended, at=at, agent_id=agent_id, message=system, shows=shows)

    def append(self, message: Message, *, at: datetime) -> None:
        """Put a message into the history outside of any run."""
        self.happened(MessageAppended, at=at, agent_id=self.state.agent_id, message=message)

    # Runs

    def accept(self, command: StartRun, *, asked_at: datetime, at: datetime) -> Rejected | None:
        """Promise to answer; if nobody is being answered, it is this run's turn at once."""
        if len(self.state.queue) >= QUEUED_RUNS_MAX:
            reason = f"{QUEUED_RUNS_MAX} runs wait for agent {command.agent_id}: try again later"
            return Rejected(code=BUSY, reason=reason)
        if self.state.queued_bytes >= QUEUED_BYTES_MAX:
            reason = (
                f"Runs with {QUEUED_BYTES_MAX} bytes of messages wait for agent "
                f"{command.agent_id}: try again later"
            )
            return Rejected(code=BUSY, reason=reason)
        self.happened(
            RunAccepted,
            at=at,
            run_id=command.run.id,
            run=command.run,
            messages=command.messages,
            max_steps=command.max_steps,
            request_hash=command.request_hash,
            retry=command.retry,
            stream_tokens=command.stream_tokens,
            asked_at=asked_at,
        )
        self.start_next(at=at)
        return None

    def overtaken_by(self, command: StartRun, *, asked_at: datetime) -> str | None:
        """The run that a later retry of this very request started, if this first try comes late."""
        return next(
            (
                later.run_id
                for later in self.state.retried
                if later.request_hash == command.request_hash and later.asked_at > asked_at
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
        spoken: Spoken,
        parallel: bool,
        rebuilt: SystemPrompt | None,
        at: datetime,
    ) -> None:
        """Record a step of the model, what it was shown, and what follows from it."""
        turn = self.state.turn
        if turn is None or turn.next_step_id != step_id or turn.open_call is not None:
            return
        run_id = turn.run.id
        calls = kept_calls(reply, parallel=parallel)
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
            message = spoken_message(spoken, reply, calls)
            self.append_in_step(message, at=at, number=spoken.number, pieces=spoken.pieces)
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
        self.interrupt(call, INTERRUPTED, message_id=message_id, at=at)
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
        self.interrupt_all(INTERRUPTED, message_ids=message_ids, at=at)
        self.fail(turn.next_step_id, failure, at=at)

    def cancel(
        self, command: CancelRuns, *, message_ids: Iterable[str], at: datetime
    ) -> dict[str, str] | Rejected:
        """End these runs, or all: V1's answer says for each whether it is `cancelled`, or
        `failed` because there is no such run, or it has ended."""
        turn = self.state.turn
        waiting = [one.run.id for one in self.state.queue]
        unended = [turn.run.id, *waiting] if turn else []
        asked = unended if command.run_ids is None else command.run_ids
        if not unended or not asked:
            return Rejected(code=CONFLICT, reason="No active runs to cancel")
        gone = set(unended) & set(asked)
        # Those that wait go first: none of them may start because the running one ends.
        queued = [run_id for run_id in waiting if run_id in gone]
        if queued:
            self.happened(QueuedRunsCancelled, at=at, run_ids=queued)
        if turn is not None and turn.run.id in gone:
            self.cancel_running(turn, message_ids=message_ids, at=at)
        self.start_next(at=at)
        return {run_id: "cancelled" if run_id in gone else "failed" for run_id in asked}

    def cancel_running(self, turn: Turn, *, message_ids: Iterable[str], at: datetime) -> None:
        """End the run that has the turn; what it was waiting for counts as interrupted."""
        self.interrupt_all(CANCELLED, message_ids=message_ids, at=at)
        self.happened(
            RunCancelled,
            at=at,
            run_id=turn.run.id,
            usage=turn.usage,
            step_count=turn.steps,
            total_duration_ns=nanoseconds(turn.run.created_at, at),
        )

    def interrupt_all(self, why: str, *, message_ids: Iterable[str], at: datetime) -> None:
        """Give every call without a result one that says why there is none."""
        turn = self.running()
        fresh = iter(message_ids)
        while (pending := turn.open_call) is not None:
            if pending.state == "waiting":
                self.start_tool(pending.call, at=at)
            self.interrupt(pending.call, why, message_id=next(fresh), at=at)

    def interrupt(self, call: ToolCall, why: str, *, message_id: str, at: datetime) -> None:
        """Record a call as interrupted and show the model so, without going on."""
        turn = self.running()
        self.happened(
            ToolCallInterrupted,
            at=at,
            run_id=turn.run.id,
            step_id=turn.step_id,
            tool_call_id=call.id,
        )
        self.show(call, ToolResult("error", why), message_id=message_id, at=at)

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

    def append_in_step(
        self,
        message: Message,
        *,
        at: datetime,
        number: int | None = None,
        pieces: list[Piece] | None = None,
    ) -> None:
        """Put a message of the running step into the history."""
        turn = self.running()
        self.happened(
            MessageAppended,
            at=at,
            agent_id=self.state.agent_id,
            message=message,
            run_id=turn.run.id,
            step_id=turn.step_id,
            number=turn.told + 1 if number is None else number,
            pieces=pieces,
        )

    def running(self) -> Turn:
        """The turn, where there must be one."""
        return running(self.state)

    def awaiting(self, step_id: str, call: ToolCall) -> Turn | None:
        """The turn, if it waits for the result of this very call."""
        turn = self.state.turn
        if turn is None or turn.step_id != step_id or turn.open_call is None:
            return None
        pending = turn.open_call
        return turn if pending.call == call and pending.state == "started" else None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        self.state = evolved(self.state, event)


def spoken_message(spoken: Spoken, reply: ModelReply, calls: list[ToolCall]) -> Message:
    """What the model answered, as a message; of its calls those that are carried out."""
    return Message(
        id=spoken.message_id,
        role="assistant",
        content=reply.text or None,
        reasoning=None if reply.reasoning_parts else reply.reasoning,
        reasoning_parts=reply.reasoning_parts,
        tool_calls=calls,
        created_at=spoken.since,
    )


def kept_calls(reply: ModelReply, *, parallel: bool) -> list[ToolCall]:
    """The calls that are carried out: without parallel calls only the first."""
    return reply.tool_calls if parallel else reply.tool_calls[:1]
