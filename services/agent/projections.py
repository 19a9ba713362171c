"""Events of the agent service as rows that clients and other services read."""

from __future__ import annotations

from pydantic_core import to_json

from libs.contracts.agent import (
    AgentAbandoned,
    AgentCreated,
    AgentDeleted,
    AgentRequested,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.bus_messages import Event, Json, JsonObject
from libs.contracts.conversation import (
    ConversationDeleted,
    Message,
    MessageAppended,
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    SystemPromptRebuilt,
    Usage,
    main_conversation,
)
from libs.contracts.letta import message_responses
from libs.contracts.letta.agent_state import AgentConfig, agent_state, timestamp
from libs.contracts.letta.enums import RunStatus, StopReasonType, run_status
from libs.contracts.letta.runs import run_state
from libs.contracts.letta_message_mapping import served_messages, text_of, words_in_calls
from libs.eventstore.read_model_rows import RowWrites, Table
from services.agent.domain.tools.catalogue import tool_state, tools_of
from services.agent.domain.tools.definition import tool_ids_of

AGENTS = Table("agents")
MESSAGES = Table("messages", aggregate="conversation_id")
RUNS = Table("runs", aggregate="conversation_id")
CREATIONS = Table("creations", key=("agent_id",), aggregate="agent_id")
READ_MODELS = (AGENTS, CREATIONS, MESSAGES, RUNS)

# The fields of a V1 agent that an answer replaces by what others know, or that are searched by.
AGENT_DOC = (
    "last_run_completion",
    "last_run_duration_ms",
    "last_stop_reason",
    "memory",
    "blocks",
    "tools",
    "tags",
    "description",
    "project_id",
    "template_id",
    "base_template_id",
    "created_by_id",
)


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
    match event:
        case (
            AgentRequested() | AgentAbandoned() | AgentCreated() | AgentUpdated()
            | AgentDeleted() | BlockAttached() | BlockDetached()
        ):  # fmt: skip
            project_agent(event, org, rows)
        case MessageAppended():
            if not event.message.hidden:
                rows.upsert(MESSAGES, message_row(event, org))
        case SystemPromptRebuilt():
            rows.patch(MESSAGES, rebuilt_row(event))
        case ConversationDeleted():
            rows.delete(MESSAGES, "conversation_id", event.originator_id)
            rows.delete(RUNS, "conversation_id", event.originator_id)
        case QueuedRunsCancelled():
            rows.patch_alike(RUNS, listed(event.run_ids), never_started(event))
        case RunAccepted() | RunStarted() | RunCompleted() | RunFailed() | RunCancelled():
            project_run(event, org, rows)


def project_agent(event: Event, org: str, rows: RowWrites) -> None:
    """Agents come, change and go."""
    agent_id = event.originator_id
    match event:
        case AgentRequested():
            rows.upsert(
                CREATIONS,
                {
                    "agent_id": agent_id,
                    "org": org,
                    "actor": event.config.created_by_id or "",
                    "requested_at": event.timestamp.isoformat(),
                },
            )
        case AgentAbandoned():
            rows.delete(CREATIONS, "agent_id", agent_id)
        case AgentCreated():
            rows.delete(CREATIONS, "agent_id", agent_id)
            rows.upsert(
                AGENTS,
                {
                    "org": org,
                    "created_at": event.timestamp.isoformat(),
                    "conversation_id": main_conversation(agent_id),
                    **agent_fields(event),
                },
            )
        case AgentUpdated():
            rows.patch(AGENTS, agent_fields(event))
        case AgentDeleted():
            rows.delete(AGENTS, "id", agent_id)
        case BlockAttached() | BlockDetached():
            rows.patch(AGENTS, {"id": agent_id, "block_ids": listed(event.block_ids)})


def agent_fields(event: AgentCreated | AgentUpdated) -> JsonObject:
    """The columns that follow from an agent's design."""
    config = event.config
    tools = tools_of(tool_ids_of(event.tools, event.tool_ids))
    return {
        "id": config.id,
        "updated_at": config.updated_at.isoformat(),
        "name": config.name,
        "block_ids": listed(event.block_ids),
        "tags": listed(event.tags),
        "tools": [tool_state(tool, created_by_id=config.created_by_id) for tool in tools],
        **agent_documents(config),
    }


def agent_documents(config: AgentConfig) -> JsonObject:
    """The V1 agent in two: `body` is text that is served as it is, JSON without the braces. The
    ids of its messages are in neither, they are always looked up."""
    state = agent_state(config)
    del state["message_ids"]
    doc: JsonObject = {name: state.pop(name) for name in AGENT_DOC}
    return {"doc": doc, "body": to_json(state).decode()[1:-1]}


def message_row(event: MessageAppended, org: str) -> JsonObject:
    """A message with the V1 messages that it is served as."""
    message = event.message
    docs = served_messages(message, run_id=event.run_id, step_id=event.step_id)
    return {
        "id": message.id,
        "org": org,
        "agent_id": event.agent_id,
        "conversation_id": event.originator_id,
        "position": event.originator_version,
        "run_id": event.run_id,
        "step_id": event.step_id,
        "role": message.role,
        "created_at": message.created_at.isoformat(),
        "sent": event.sent,
        "in_context": True,
        "text": searched_text(message).replace("\x00", ""),
        "docs": [*docs],
        "number": event.number,
        "pieces": None if event.pieces is None else [[*piece] for piece in event.pieces],
    }


def searched_text(message: Message) -> str:
    """What a message is found by: its words, also those that were said by calling a tool."""
    spoken = words_in_calls(message)
    return "\n".join([text_of(message), *spoken]).lstrip("\n") if spoken else text_of(message)


def rebuilt_row(event: SystemPromptRebuilt) -> JsonObject:
    """The system message with its new content."""
    docs = served_messages(event.message, run_id=None, step_id=None)
    return {"id": event.message.id, "text": text_of(event.message), "docs": [*docs]}


def project_run(event: Event, org: str, rows: RowWrites) -> None:
    """Runs are accepted, start and end."""
    match event:
        case RunAccepted():
            rows.upsert(
                RUNS,
                {
                    "id": event.run_id,
                    "org": org,
                    "agent_id": event.run.agent_id,
                    "conversation_id": event.originator_id,
                    "created_at": event.run.created_at.isoformat(),
                    "status": RunStatus.created.value,
                    "background": event.run.background,
                    "request_hash": event.request_hash,
                    "stream_tokens": event.stream_tokens,
                    "doc": run_state(event.run),
                },
            )
        case RunStarted():
            status = RunStatus.running.value
            rows.patch(RUNS, {"id": event.run_id, "status": status, "doc": {"status": status}})
        case RunCompleted() | RunCancelled():
            rows.patch(RUNS, ended_fields(event))
        case RunFailed():
            rows.patch(RUNS, {**ended_fields(event), "error": error_of(event)})


def error_of(event: RunFailed) -> JsonObject:
    """Why a run failed."""
    return {
        "error_type": event.error_type,
        "message": event.message,
        "detail": event.detail,
    }


def ended_fields(event: RunCompleted | RunFailed | RunCancelled) -> JsonObject:
    """What the end of a run changes in its row."""
    reason = StopReasonType.cancelled
    if not isinstance(event, RunCancelled):
        reason = StopReasonType(event.stop_reason)
    status = run_status(reason).value
    context_tokens = event.context_tokens if isinstance(event, RunCompleted) else None
    return {
        "id": event.run_id,
        "status": status,
        "stop_reason": reason.value,
        "usage": usage_of(event.usage, event.step_count, context_tokens),
        "doc": {
            "status": status,
            "stop_reason": reason.value,
            "completed_at": timestamp(event.timestamp),
            "total_duration_ns": event.total_duration_ns,
        },
    }


def usage_of(tokens: Usage, step_count: int, context_tokens: int | None) -> JsonObject:
    """What a run used, as V1 says it."""
    usage = message_responses.Usage(
        completion_tokens=tokens.completion_tokens,
        prompt_tokens=tokens.prompt_tokens,
        total_tokens=tokens.prompt_tokens + tokens.completion_tokens,
        step_count=step_count,
        cached_input_tokens=tokens.cached_input_tokens,
        cache_write_tokens=tokens.cache_write_tokens,
        reasoning_tokens=tokens.reasoning_tokens,
        context_tokens=context_tokens,
    )
    return message_responses.usage_statistics(usage)


def never_started(event: QueuedRunsCancelled) -> JsonObject:
    """What it changes in the row of a run to be cancelled before it starts."""
    cancelled = RunStatus.cancelled.value
    return {
        "status": cancelled,
        "stop_reason": StopReasonType.cancelled.value,
        "usage": usage_of(Usage(), step_count=0, context_tokens=None),
        "doc": {
            "status": cancelled,
            "stop_reason": StopReasonType.cancelled.value,
            "completed_at": timestamp(event.timestamp),
        },
    }


def listed(values: list[str]) -> list[Json]:
    """A list of strings as JSON."""
    return list(values)
