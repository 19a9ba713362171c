"""Events of the agent service as rows that clients and other services read."""

from __future__ import annotations

from libs.contracts.agent.agents import (
    AgentCreated,
    AgentDeleted,
    AgentSecretsReplaced,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.agent.approvals import ApprovalAnswered, ApprovalEnded, ApprovalRequested
from libs.contracts.agent.batches import BatchEvent
from libs.contracts.agent.compaction import (
    ContextCleared,
    ContextReplaced,
    ConversationCompacted,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationUpdated,
    MessageAppended,
    SystemPromptRebuilt,
)
from libs.contracts.agent.run_replays import RunReplayEvent
from libs.contracts.agent.runs import (
    CallbackAttempted,
    HeartbeatPauseCancelled,
    HeartbeatsPaused,
    HeartbeatsResumed,
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunDeleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.agent.steps import ModelReplied, StepAnnotated
from libs.contracts.agent.summaries import SummariesDeleted, SummaryEvent
from libs.contracts.bus_messages import Event, JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.agents import project_agent
from services.agent.projections.batches import project_batch
from services.agent.projections.conversations import project_conversation
from services.agent.projections.messages import message_row, rebuilt_row, summary_row
from services.agent.projections.run_replays import project_replay
from services.agent.projections.runs import (
    annotate_step,
    answered_step,
    called_run_row,
    end_step,
    never_started,
    note_agent,
    note_attempt,
    project_approval,
    project_pause,
    project_run,
    wait_for_end,
)
from services.agent.projections.summaries import project_summary
from services.agent.projections.tables import (
    APPROVALS,
    CALLBACKS,
    CALLED_RUNS,
    CONVERSATIONS,
    HEARTBEAT_PAUSES,
    MESSAGES,
    READ_MODELS,
    RUNS,
    STEPS,
    json_list,
)

NOT_IN_CONTEXT: JsonObject = {"in_context": False}
IN_CONTEXT: JsonObject = {"in_context": True}
OF_CONVERSATION = (MESSAGES, RUNS, STEPS, CALLBACKS, CALLED_RUNS, HEARTBEAT_PAUSES, APPROVALS)

__all__ = ["READ_MODELS", "project"]


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the read models."""
    match event:
        case (
            AgentCreated() | AgentUpdated()
            | AgentDeleted() | AgentSecretsReplaced() | BlockAttached() | BlockDetached()
        ):  # fmt: skip
            project_agent(event, org, rows)
        case MessageAppended():
            if not event.message.hidden:
                rows.upsert(MESSAGES, message_row(event, org))
            note_agent(event, rows)
        case ModelReplied():
            rows.upsert(STEPS, answered_step(event, org))
        case ConversationCompacted() | ContextCleared() | ContextReplaced():
            project_context(event, org, rows)
        case SystemPromptRebuilt():
            rows.patch(MESSAGES, rebuilt_row(event))
        case ConversationCreated() | ConversationUpdated():
            project_conversation(event, org, rows)
        case ConversationDeleted():
            rows.delete(CONVERSATIONS, "id", event.originator_id)
            for table in OF_CONVERSATION:
                rows.delete(table, "conversation_id", event.originator_id)
        case ApprovalRequested() | ApprovalAnswered() | ApprovalEnded():
            project_approval(event, org, rows)
        case RunDeleted():
            rows.delete(RUNS, "id", event.run_id)
            for table in (STEPS, CALLBACKS, CALLED_RUNS):
                rows.delete(table, "run_id", event.run_id)
        case CallbackAttempted():
            note_attempt(event, rows)
        case StepAnnotated():
            annotate_step(event, rows)
        case QueuedRunsCancelled():
            rows.patch_alike(RUNS, json_list(event.run_ids), never_started(event))
        case RunAccepted() | RunStarted() | RunCompleted() | RunFailed() | RunCancelled():
            project_run(event, org, rows)
            if isinstance(event, RunFailed | RunCancelled):
                end_step(event, org, rows)
            elif isinstance(event, RunAccepted):
                wait_for_end(event, org, rows)
                if event.callers:
                    rows.upsert(CALLED_RUNS, called_run_row(event, org))
        case HeartbeatsPaused() | HeartbeatsResumed() | HeartbeatPauseCancelled():
            project_pause(event, org, rows)
        case SummaryEvent() | SummariesDeleted():
            project_summary(event, org, rows)
        case BatchEvent():
            project_batch(event, org, rows)
        case RunReplayEvent():
            project_replay(event, org, rows)


def project_context(
    event: ConversationCompacted | ContextCleared | ContextReplaced, org: str, rows: RowWrites
) -> None:
    """Write which messages models are shown no more, and which they are shown again or instead."""
    rows.patch_alike(MESSAGES, json_list(event.evicted), NOT_IN_CONTEXT)
    if isinstance(event, ConversationCompacted):
        rows.upsert(MESSAGES, summary_row(event, org))
    elif isinstance(event, ContextReplaced):
        returned = [message.id for message in event.returned]
        rows.patch_alike(MESSAGES, json_list(returned), IN_CONTEXT)
