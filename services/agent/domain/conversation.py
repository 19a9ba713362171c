"""A conversation: what the model sees, which runs wait, and where the running one stands.

The deciders are safe to repeat. After a conflict or a crash the same fact may be reported again;
what is recorded already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from libs.contracts.base_aggregate import SNAPSHOT_EVERY_EVENTS, Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Rejected
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
    ToolCallRefused,
    ToolCallStarted,
    main_conversation,
)
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.tool_rules import ToolRule
from libs.contracts.stream_chunks import Chunk
from services.agent.domain.active_run import (
    CANCELLED,
    INTERRUPTED,
    ActiveRun,
    EndRun,
    Failure,
    ModelReply,
    NextAction,
    PendingCall,
    Spoken,
    StartTool,
    ToolResult,
    kept_calls,
    nanoseconds,
    result_message,
    spoken_message,
)
from services.agent.domain.agent_types import loop_of
from services.agent.domain.conversation_state import (
    ConversationState,
    SystemPrompt,
    evolved,
    queue_full,
    running,
)


class Conversation(Aggregate[ConversationState]):
    """One conversation of one agent."""

    State = ConversationState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    def is_of(self, agent_id: str) -> bool:
        """Whether it is there and belongs to this agent. The agent's own always does; it may not
        have been read yet where the agent was."""
        if self.state.deleted:
            return False
        return self.state.agent_id == agent_id or self.id == main_conversation(agent_id)

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

    def accept(
        self,
        command: StartRun,
        agent_type: AgentType,
        *,
        tool_rules: list[ToolRule] | None = None,
        asked_at: datetime,
        at: datetime,
    ) -> Rejected | None:
        """Promise to answer; if no run is active, this one is at once."""
        full = queue_full(self.state, command.agent_id)
        if full:
            return full
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
            agent_type=agent_type,
            tool_rules=tool_rules or [],
        )
        self.start_next(at=at)
        return None

    def start_next(self, *, at: datetime) -> None:
        """Start the run that waits longest, if none is active."""
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
        """What has to be done now; None when no run is active."""
        active = self.state.turn
        return None if active is None else loop_of(active.agent_type).next_action(active)

    def go_on(self, *, at: datetime) -> None:
        """Record what follows by itself: that the next tool call starts, or that the run ends."""
        match self.next_action():
            case StartTool(call):
                self.start_tool(call, at=at)
            case EndRun(stop_reason):
                self.complete(stop_reason, at=at)
            case _:
                pass

    def model_replied(
        self,
        step_id: str,
        model: str,
        reply: ModelReply,
        *,
        spoken: Spoken,
        parallel: bool,
        offered: list[str] | None = None,
        rebuilt: SystemPrompt | None,
        at: datetime,
    ) -> None:
        """Record a step of the model, what it was shown, and what follows from it."""
        active = self.state.turn
        if active is None or active.next_step_id != step_id or active.open_call is not None:
            return
        run_id = active.run.id
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
            offered=offered,
        )
        if reply.text or reply.reasoning or reply.reasoning_parts or calls:
            message = spoken_message(spoken, reply, calls)
            self.append_in_step(message, at=at, number=spoken.number, chunks=spoken.chunks)
        self.go_on(at=at)

    def start_tool(self, call: ToolCall, *, at: datetime) -> None:
        """Record that a tool is about to run."""
        active = self.state.turn
        if active is None or active.open_call != PendingCall(call=call, state="waiting"):
            return
        self.happened(
            ToolCallStarted,
            at=at,
            run_id=active.run.id,
            step_id=active.step_id,
            tool_call_id=call.id,
            tool=call.name,
        )

    def refuse_call(self, call: ToolCall, why: str, *, message_id: str, at: datetime) -> None:
        """Record that the rules do not allow a call, tell the model why, and what follows."""
        active = self.state.turn
        if active is None or active.open_call != PendingCall(call=call, state="waiting"):
            return
        self.happened(
            ToolCallRefused,
            at=at,
            run_id=active.run.id,
            step_id=active.step_id,
            tool_call_id=call.id,
            tool=call.name,
        )
        self.show(call, ToolResult("error", why), message_id=message_id, at=at)
        self.go_on(at=at)

    def tool_returned(
        self, step_id: str, call: ToolCall, result: ToolResult, *, message_id: str, at: datetime
    ) -> None:
        """Record a tool's result, and what follows from it."""
        active = self.awaiting(step_id, call)
        if active is None:
            return
        self.happened(
            ToolCallFinished,
            at=at,
            run_id=active.run.id,
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
        active = self.awaiting(step_id, call)
        if active is None:
            return
        self.interrupt(call, INTERRUPTED, message_id=message_id, at=at)
        self.go_on(at=at)

    def show(self, call: ToolCall, result: ToolResult, *, message_id: str, at: datetime) -> None:
        """Show the result of a call to the model."""
        self.append_in_step(result_message(call, result, message_id=message_id, at=at), at=at)

    def fail(self, step_id: str, failure: Failure, *, at: datetime) -> None:
        """End the run with an error; the next one starts."""
        active = self.state.turn
        if active is None or active.next_step_id != step_id or active.open_call is not None:
            return
        self.happened(
            RunFailed,
            at=at,
            run_id=active.run.id,
            stop_reason=failure.stop_reason,
            error_type=failure.error_type,
            message=failure.message,
            detail=failure.detail,
            usage=active.usage,
            step_count=active.steps,
            total_duration_ns=nanoseconds(active.run.created_at, at),
        )
        self.start_next(at=at)

    def abort(self, failure: Failure, *, message_ids: Iterable[str], at: datetime) -> None:
        """End the run wherever it stands; what it was waiting for counts as interrupted."""
        active = self.state.turn
        if active is None:
            return
        self.interrupt_all(INTERRUPTED, message_ids=message_ids, at=at)
        self.fail(active.next_step_id, failure, at=at)

    def cancel(
        self, command: CancelRuns, *, message_ids: Iterable[str], at: datetime
    ) -> dict[str, str] | Rejected:
        """End these runs, or all; what the active one was waiting for counts as interrupted. V1's
        answer says for each whether it is `cancelled`, or `failed` because there is no such run, or
        it has ended."""
        active = self.state.turn
        waiting = [one.run.id for one in self.state.queue]
        unended = [active.run.id, *waiting] if active else []
        asked = unended if command.run_ids is None else command.run_ids
        if not unended or not asked:
            return Rejected(code=CONFLICT, reason="No active runs to cancel")
        gone = set(unended) & set(asked)
        # Those that wait go first: none of them may start because the running one ends.
        queued = [run_id for run_id in waiting if run_id in gone]
        if queued:
            self.happened(QueuedRunsCancelled, at=at, run_ids=queued)
        if active is not None and active.run.id in gone:
            self.interrupt_all(CANCELLED, message_ids=message_ids, at=at)
            self.happened(
                RunCancelled,
                at=at,
                run_id=active.run.id,
                usage=active.usage,
                step_count=active.steps,
                total_duration_ns=nanoseconds(active.run.created_at, at),
            )
        self.start_next(at=at)
        return {run_id: "cancelled" if run_id in gone else "failed" for run_id in asked}

    def interrupt_all(self, why: str, *, message_ids: Iterable[str], at: datetime) -> None:
        """Give every call without a result one that says why there is none."""
        active = self.running()
        fresh = iter(message_ids)
        while (pending := active.open_call) is not None:
            if pending.state == "waiting":
                self.start_tool(pending.call, at=at)
            self.interrupt(pending.call, why, message_id=next(fresh), at=at)

    def interrupt(self, call: ToolCall, why: str, *, message_id: str, at: datetime) -> None:
        """Record a call as interrupted and show the model so, without going on."""
        active = self.running()
        self.happened(
            ToolCallInterrupted,
            at=at,
            run_id=active.run.id,
            step_id=active.step_id,
            tool_call_id=call.id,
        )
        self.show(call, ToolResult("error", why), message_id=message_id, at=at)

    def complete(self, stop_reason: str, *, at: datetime) -> None:
        """End the run; the next one starts."""
        active = self.running()
        self.happened(
            RunCompleted,
            at=at,
            run_id=active.run.id,
            stop_reason=stop_reason,
            usage=active.usage,
            step_count=active.steps,
            context_tokens=active.context_tokens,
            total_duration_ns=nanoseconds(active.run.created_at, at),
        )
        self.start_next(at=at)

    def delete(self, *, at: datetime) -> None:
        """Stop existing; whoever drives a run of it finds that out at the next commit."""
        if not self.state.deleted:
            self.happened(ConversationDeleted, at=at)

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
        chunks: list[Chunk] | None = None,
    ) -> None:
        """Put a message of the running step into the history."""
        active = self.running()
        self.happened(
            MessageAppended,
            at=at,
            agent_id=self.state.agent_id,
            message=message,
            run_id=active.run.id,
            step_id=active.step_id,
            number=active.told + 1 if number is None else number,
            pieces=chunks,
        )

    def running(self) -> ActiveRun:
        """The active run, where there must be one."""
        return running(self.state)

    def awaiting(self, step_id: str, call: ToolCall) -> ActiveRun | None:
        """The active run, if it waits for the result of this very call."""
        active = self.state.turn
        if active is None or active.step_id != step_id or active.open_call is None:
            return None
        pending = active.open_call
        return active if pending.call == call and pending.state == "started" else None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        self.state = evolved(self.state, event)
