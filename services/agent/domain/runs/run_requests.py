"""Requests to a conversation that runs serve: they are accepted, cancelled and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from libs.contracts.agent.approvals import ApprovalCancelled
from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.agent.runs import (
    CancelRuns,
    DeleteRun,
    HeartbeatsResumed,
    QueuedRunsCancelled,
    RequestAnswer,
    RunAccepted,
    RunCancelled,
    RunDeleted,
    RunOptions,
    StartRun,
)
from libs.contracts.agent.steps import AnnotateStep, StepAnnotated
from libs.contracts.bus_messages import CONFLICT, Rejected
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.tool_rules import ToolRule
from services.agent.domain.conversations.active_run import CANCELLED, end_fields, unfinished_step
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import no_room
from services.agent.domain.runs import client_call_answers, heartbeat_pauses
from services.agent.domain.runs.compaction import nothing_to_compact
from services.agent.domain.runs.run_progress import start_next
from services.agent.domain.runs.run_steps import interrupt_all


@dataclass(frozen=True, slots=True)
class Terms:
    """The agent's terms for answering a run; `options` are the request's own wishes, with the
    config of the model that it names. Where `sleeptime`, the end of the run counts for the
    sleeptime group of the agent."""

    agent_type: AgentType
    tool_rules: list[ToolRule]
    autoclear: bool = False
    options: RunOptions | None = None
    sleeptime: bool = False


def accept(
    conversation: Conversation,
    command: RequestAnswer,
    terms: Terms,
    *,
    asked_at: datetime,
    at: datetime,
) -> Rejected | None:
    """Promise to answer; if no run is active, this one is at once."""
    refused = no_room(conversation.state, command)
    if refused:
        return refused
    if isinstance(command, StartRun) and command.ends_pause:
        heartbeat_pauses.cancel(conversation, at=at)
    promise(conversation, command, terms, asked_at=asked_at, at=at)
    start_next(conversation, at=at)
    return None


def promise(
    conversation: Conversation,
    command: RequestAnswer,
    terms: Terms,
    *,
    asked_at: datetime,
    at: datetime,
    answers: bool = False,
    goes_on_from: str = "",
) -> None:
    """Record that a run is accepted."""
    conversation.record(
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
        agent_type=terms.agent_type,
        tool_rules=terms.tool_rules,
        structured_summaries=command.structured_summaries,
        autoclear=terms.autoclear,
        answers=answers,
        goes_on_from=goes_on_from,
        options=terms.options,
        client_tools=command.client_tools,
        client_skills=command.client_skills,
        callers=command.callers if isinstance(command, StartRun) else [],
        unless_said=isinstance(command, StartRun) and command.unless_said,
        sleeptime=terms.sleeptime,
    )


def accept_compaction(
    conversation: Conversation, command: CompactConversation, *, asked_at: datetime, at: datetime
) -> Rejected | None:
    """Promise to compact the conversation; if no run is active, at once."""
    state = conversation.state
    refused = no_room(state, command)
    if refused is None and state.active_run is None and not state.queue:
        refused = nothing_to_compact(state)
    if refused is not None:
        return refused
    conversation.record(
        RunAccepted,
        at=at,
        run_id=command.run.id,
        run=command.run,
        messages=[],
        max_steps=1,
        request_hash=command.request_hash,
        retry=command.retry,
        asked_at=asked_at,
        structured_summaries=True,
        compaction=command.settings,
    )
    start_next(conversation, at=at)
    return None


def cancel(
    conversation: Conversation, command: CancelRuns, *, message_ids: Iterable[str], at: datetime
) -> dict[str, str] | Rejected:
    """End these runs, or all; what the active one was waiting for counts as interrupted. V1's
    answer says for each whether it is `cancelled`, or `failed` because there is no such run, or
    it has ended. With all runs goes a pause, as with the run that asked for it."""
    state = conversation.state
    active, approval, paused = state.active_run, state.approval, state.pause is not None
    waiting = [queued.run.id for queued in state.queue]
    first = [active.run.id] if active else [approval.run_id] if approval else []
    unended = [*first, *waiting]
    asked = unended if command.run_ids is None else command.run_ids
    if command.run_ids is None or (active and active.paused and active.run.id in asked):
        heartbeat_pauses.cancel(conversation, at=at)
    if not unended or not asked:
        if command.run_ids is None and paused:
            return {}
        return Rejected(code=CONFLICT, reason="No active runs to cancel")
    gone = set(unended) & set(asked)
    # Those that wait go first: none of them may start because the running one ends.
    queued = [run_id for run_id in waiting if run_id in gone]
    if queued:
        conversation.record(QueuedRunsCancelled, at=at, run_ids=queued)
    if active is None and approval is not None and approval.run_id in gone:
        client_call_answers.end(conversation, ApprovalCancelled, at=at)
    if active is not None and active.run.id in gone:
        cancel_active(conversation, message_ids=message_ids, at=at)
    start_next(conversation, at=at)
    return {run_id: "cancelled" if run_id in gone else "failed" for run_id in asked}


def cancel_active(conversation: Conversation, *, message_ids: Iterable[str], at: datetime) -> None:
    """End the active run; what it was waiting for counts as interrupted."""
    active = conversation.running()
    step = unfinished_step(active, conversation.state.agent_id)
    interrupt_all(conversation, CANCELLED, message_ids=message_ids, at=at)
    conversation.record(
        RunCancelled, at=at, run_id=active.run.id, step=step, **end_fields(active, at)
    )


def resume_after_pause(
    conversation: Conversation,
    until: datetime,
    terms: Terms,
    *,
    run_id: str,
    message_id: str,
    at: datetime,
) -> Rejected | None:
    """End the pause that lasts until then, if it is still that one, and accept the run that
    follows it. The refusal says that too many runs wait: ask again later."""
    pause = conversation.state.pause
    if pause is None or pause.until != until:
        return None
    agent_id = conversation.state.agent_id
    command = heartbeat_pauses.following_run(agent_id, pause, run_id, message_id, at)
    refused = no_room(conversation.state, command)
    if refused:
        return refused
    conversation.record(HeartbeatsResumed, at=at, run_id=run_id)
    return accept(conversation, command, terms, asked_at=at, at=at)


def delete_run(conversation: Conversation, command: DeleteRun, *, at: datetime) -> Rejected | None:
    """Forget a run; refused while it has not ended."""
    if command.run_id in conversation.state.unfinished_runs:
        reason = f"Run {command.run_id} has not ended: cancel it first, then delete it"
        return Rejected(code=CONFLICT, reason=reason)
    conversation.record(RunDeleted, at=at, run_id=command.run_id)
    return None


def annotate_step(
    conversation: Conversation, command: AnnotateStep, *, run_id: str, at: datetime
) -> None:
    """Keep what a client says of a step of this run."""
    conversation.record(
        StepAnnotated, at=at, run_id=run_id, step_id=command.step_id, changes=command.changes
    )
