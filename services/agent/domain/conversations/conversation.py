"""A conversation: what the model sees, which runs wait, and where the running one stands.

The deciders are safe to repeat. After a conflict or a crash the same fact may be reported again;
what is recorded already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from libs.contracts.agent.approvals import ApprovalCancelled
from libs.contracts.agent.compaction import (
    CompactConversation,
    ContextCleared,
    ConversationCompacted,
)
from libs.contracts.agent.conversations import (
    BoundTool,
    CancelRuns,
    ConversationDeleted,
    Message,
    MessageAppended,
    ModelReplied,
    QueuedRunsCancelled,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    StartRun,
    SystemPromptRebuilt,
    UnfinishedStep,
    main_conversation,
)
from libs.contracts.agent.stream_chunks import Chunk
from libs.contracts.base_aggregate import SNAPSHOT_EVERY_EVENTS, Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Rejected
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.tool_rules import ToolRule
from services.agent.domain.agents.agent_types import loop_of
from services.agent.domain.conversations import client_call_answers
from services.agent.domain.conversations.active_run import (
    CANCELLED,
    INTERRUPTED,
    ActiveRun,
    concurrent_calls,
    ended,
    unfinished_step,
)
from services.agent.domain.conversations.approval_state import NOT_BOUND, NOTHING, gates
from services.agent.domain.conversations.context_window_cache import ContextWindowCache
from services.agent.domain.conversations.conversation_state import (
    ConversationState,
    SystemPrompt,
    evolved,
    no_room,
    running,
)
from services.agent.domain.prompts.compaction import accept_compaction, clear, compaction_action
from services.agent.domain.runs import heartbeat_pauses, tool_calls
from services.agent.domain.runs.run_accepted_events import Terms, promise
from services.agent.domain.runs.run_actions import (
    AskClient,
    EndRun,
    NextAction,
    ShowAnswer,
    ShowFollowUps,
    StartTools,
)
from services.agent.domain.runs.step_results import (
    Failure,
    ModelReply,
    Spoken,
    kept_calls,
    spoken_message,
)


class Conversation(Aggregate[ConversationState]):
    """One conversation of one agent."""

    State = ConversationState

    @cached_property
    def shown_window(self) -> ContextWindowCache:
        """What models were shown last of the window: a help, not a part of the state."""
        return ContextWindowCache()

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
        autoclear: bool = False,
        asked_at: datetime,
        at: datetime,
    ) -> Rejected | None:
        """Promise to answer; if no run is active, this one is at once."""
        refused = no_room(self.state, command)
        if refused:
            return refused
        terms = Terms(agent_type, tool_rules or [], autoclear=autoclear)
        promise(self, command, terms, asked_at=asked_at, at=at)
        self.start_next(at=at)
        return None

    def accept_compaction(
        self, command: CompactConversation, *, asked_at: datetime, at: datetime
    ) -> Rejected | None:
        """Promise to compact the conversation; if no run is active, at once."""
        refused = accept_compaction(self, command, asked_at=asked_at, at=at)
        if refused is None:
            self.start_next(at=at)
        return refused

    def start_next(self, *, at: datetime) -> None:
        """Start the run that waits longest, if none is active and no call waits for the client."""
        if self.state.turn is not None or self.state.approval is not None or not self.state.queue:
            return
        waiting = self.state.queue[0]
        self.happened(RunStarted, at=at, run_id=waiting.run.id, agent_id=self.state.agent_id)
        if waiting.autoclear:
            clear(self, at=at)
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
        if active is None:
            return None
        if active.compaction is not None:
            return compaction_action(active)
        return loop_of(active.agent_type).next_action(active)

    def go_on(self, *, at: datetime) -> None:
        """Record what follows by itself: that tool calls start, or that the run ends."""
        self.settle(at=at)
        match self.next_action():
            case StartTools(calls):
                tool_calls.start(self, calls, at=at)
            case EndRun(stop_reason):
                self.complete(stop_reason, at=at)
            case _:
                pass

    def settle(self, *, at: datetime) -> None:
        """Record what the client has a part in: what it answered, and that calls wait for it."""
        while True:
            match self.next_action():
                case ShowAnswer(pending):
                    client_call_answers.show_answer(self, pending, at=at)
                case ShowFollowUps():
                    client_call_answers.show_follow_ups(self, at=at)
                case AskClient():
                    client_call_answers.ask(self, at=at)
                    self.complete("requires_approval", at=at)
                case _:
                    return

    def model_replied(
        self,
        step_id: str,
        model: str,
        reply: ModelReply,
        *,
        spoken: Spoken,
        parallel: bool,
        offered: list[str] | None = None,
        renamed: Mapping[str, str] = NOTHING,
        bound: Mapping[str, BoundTool] = NOT_BOUND,
        concurrent: Container[str] = (),
        gone: Sequence[str] = (),
        rebuilt: SystemPrompt | None,
        model_ns: int = 0,
        prompt_bytes: int = 0,
        at: datetime,
    ) -> None:
        """Record a step of the model, what it was shown, and what follows from it."""
        active = self.state.turn
        if active is None or active.next_step_id != step_id or active.open_call is not None:
            return
        run_id = active.run.id
        gated = gates(active.gate, self.state.answered, step_id, offered, renamed, bound)
        calls = [gated.recorded(call) for call in kept_calls(reply, parallel=parallel)]
        if rebuilt is not None:
            self.rebuild(rebuilt, at=at)
        self.happened(
            ModelReplied,
            at=at,
            run_id=run_id,
            step_id=step_id,
            agent_id=self.state.agent_id,
            model=model,
            model_ns=model_ns,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            tool_calls=calls,
            offered=offered,
            logprobs=reply.logprobs,
            token_ids=reply.token_ids,
            concurrent=concurrent_calls(calls, concurrent),
            gone=list(gone),
            prompt_bytes=prompt_bytes,
        )
        if reply.text or reply.reasoning or reply.reasoning_parts or calls:
            message = spoken_message(spoken, reply, calls)
            self.append_in_step(message, at=at, number=spoken.number, chunks=spoken.chunks)
        self.go_on(at=at)

    def fail(
        self, step_id: str, failure: Failure, *, step: UnfinishedStep | None = None, at: datetime
    ) -> None:
        """End the run with an error, in another `step` than the next; the next run starts."""
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
            step=step or unfinished_step(active, self.state.agent_id, failure.model),
            **ended(active, at),
        )
        self.start_next(at=at)

    def abort(self, failure: Failure, *, message_ids: Iterable[str], at: datetime) -> None:
        """End the run wherever it stands; what it was waiting for counts as interrupted."""
        active = self.state.turn
        if active is None:
            return
        step = unfinished_step(active, self.state.agent_id, failure.model)
        tool_calls.interrupt_all(self, INTERRUPTED, message_ids=message_ids, at=at)
        self.fail(active.next_step_id, failure, step=step, at=at)

    def cancel(
        self, command: CancelRuns, *, message_ids: Iterable[str], at: datetime
    ) -> dict[str, str] | Rejected:
        """End these runs, or all; what the active one was waiting for counts as interrupted. V1's
        answer says for each whether it is `cancelled`, or `failed` because there is no such run, or
        it has ended. With all runs goes a pause, as with the run that asked for it."""
        active, approval = self.state.turn, self.state.approval
        waiting = [one.run.id for one in self.state.queue]
        first = [active.run.id] if active else [approval.run_id] if approval else []
        unended = [*first, *waiting]
        asked = unended if command.run_ids is None else command.run_ids
        paused = self.state.pause is not None
        if command.run_ids is None or (active and active.paused and active.run.id in asked):
            heartbeat_pauses.cancel(self, at=at)
        if not unended or not asked:
            if command.run_ids is None and paused:
                return {}
            return Rejected(code=CONFLICT, reason="No active runs to cancel")
        gone = set(unended) & set(asked)
        # Those that wait go first: none of them may start because the running one ends.
        queued = [run_id for run_id in waiting if run_id in gone]
        if queued:
            self.happened(QueuedRunsCancelled, at=at, run_ids=queued)
        if active is None and approval is not None and approval.run_id in gone:
            client_call_answers.end(self, ApprovalCancelled, at=at)
        if active is not None and active.run.id in gone:
            step = unfinished_step(active, self.state.agent_id)
            tool_calls.interrupt_all(self, CANCELLED, message_ids=message_ids, at=at)
            run_id = active.run.id
            self.happened(RunCancelled, at=at, run_id=run_id, step=step, **ended(active, at))
        self.start_next(at=at)
        return {run_id: "cancelled" if run_id in gone else "failed" for run_id in asked}

    def complete(self, stop_reason: str, *, at: datetime) -> None:
        """End the run; the next one starts."""
        active = self.running()
        self.happened(
            RunCompleted,
            at=at,
            run_id=active.run.id,
            stop_reason=stop_reason,
            context_tokens=active.context_tokens,
            **ended(active, at),
        )
        self.start_next(at=at)

    def delete(self, *, at: datetime) -> None:
        """Stop existing; whoever drives a run of it finds that out at the next commit."""
        if not self.state.deleted:
            self.happened(ConversationDeleted, at=at, own_block_ids=self.state.own_blocks)

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

    def happened[E: Event](self, event: type[E], *, at: datetime, **fields: Any) -> None:
        """Record an event as the next. Clocks may go back, but no message is listed before those
        that were there."""
        latest = self.state.listed_at
        if issubclass(event, MessageAppended | ConversationCompacted) and latest and at < latest:
            fields["listed_at"] = latest
        super().happened(event, at=at, **fields)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        self.state = evolved(self.state, event)
        if isinstance(event, ConversationCompacted | ContextCleared):
            # What was evicted is not held any more: it does not count in a cache.
            held = self.state.length.bytes + self.state.queued_bytes
            self.payload_bytes = min(self.payload_bytes, held)
