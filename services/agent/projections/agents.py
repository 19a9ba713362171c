"""Events about agents as rows."""

from __future__ import annotations

from pydantic_core import to_json

from libs.contracts.agent.agents import (
    AgentCreated,
    AgentDeleted,
    AgentSecretsReplaced,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import Event, Json, JsonObject
from libs.contracts.letta.agent_state import AgentConfig, agent_state
from libs.contracts.sealed_text import secret_id
from libs.contracts.tools.base_tools.catalogue import base_tool_state
from libs.contracts.tools.base_tools.definition import tool_ids_of
from libs.eventstore.read_model_rows import RowWrites
from services.agent.domain.tools.custom_tools import custom_ids, tools_of
from services.agent.projections.tables import AGENT_CAPABILITIES, AGENT_TAGS, AGENTS, json_list

# The fields of a V1 agent that an answer replaces by what others know, or that are searched by.
SEARCHED_OR_REPLACED_FIELDS = (
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
    "deployment_id",
    "entity_id",
    "base_template_id",
    "created_by_id",
    "enable_sleeptime",
    "multi_agent_group",
    "managed_group",
)


def project_agent(event: Event, org: str, rows: RowWrites) -> None:
    """Agents come, change and go."""
    agent_id = event.originator_id
    match event:
        case AgentCreated():
            rows.upsert(
                AGENTS,
                {
                    "org": org,
                    "created_at": event.timestamp.isoformat(),
                    "conversation_id": main_conversation(agent_id),
                    **agent_fields(event),
                },
            )
            write_tags(event, org, rows)
            write_capabilities(event, org, rows)
        case AgentUpdated():
            rows.patch(AGENTS, agent_fields(event))
            if "tags" in event.changed:
                rows.delete(AGENT_TAGS, "agent_id", agent_id)
                write_tags(event, org, rows)
            if "capabilities" in event.changed:
                rows.delete(AGENT_CAPABILITIES, "agent_id", agent_id)
                write_capabilities(event, org, rows)
        case AgentDeleted():
            rows.delete(AGENTS, "id", agent_id)
            rows.delete(AGENT_TAGS, "agent_id", agent_id)
            rows.delete(AGENT_CAPABILITIES, "agent_id", agent_id)
        case AgentSecretsReplaced():
            rows.patch(AGENTS, {"id": agent_id, "secrets": secret_rows(event) or None})
        case BlockAttached() | BlockDetached():
            rows.patch(AGENTS, {"id": agent_id, "block_ids": json_list(event.block_ids)})


def secret_rows(event: AgentSecretsReplaced) -> list[Json]:
    """The secrets of an agent, in their order, sealed."""
    return [
        {"id": secret_id(event.originator_id, key), "key": key, "value": value}
        for key, value in event.secrets.items()
    ]


def write_tags(event: AgentCreated | AgentUpdated, org: str, rows: RowWrites) -> None:
    """The tags that an agent has now."""
    for tag in event.tags:
        rows.upsert(AGENT_TAGS, {"agent_id": event.originator_id, "tag": tag, "org": org})


def write_capabilities(event: AgentCreated | AgentUpdated, org: str, rows: RowWrites) -> None:
    """Write an agent's present capabilities."""
    for declared in event.config.capabilities:
        row: JsonObject = declared.model_dump(mode="json")
        rows.upsert(AGENT_CAPABILITIES, {"agent_id": event.originator_id, "org": org, **row})


def agent_fields(event: AgentCreated | AgentUpdated) -> JsonObject:
    """The columns that follow from an agent's design."""
    config = event.config
    tool_ids = tool_ids_of(event.tools, event.tool_ids)
    tools = tools_of(tool_ids)
    return {
        "id": config.id,
        "updated_at": config.updated_at.isoformat(),
        "name": config.name,
        "block_ids": json_list(event.block_ids),
        "tags": json_list(event.tags),
        "hidden": bool(config.hidden),
        "tools": [base_tool_state(tool, created_by_id=config.created_by_id) for tool in tools],
        "custom_tool_ids": json_list(custom_ids(tool_ids)),
        **agent_documents(config),
    }


def agent_documents(config: AgentConfig) -> JsonObject:
    """The V1 agent in two: `body` is text that is served as it is, JSON without the braces. The
    ids of its messages are in neither, they are always looked up."""
    state = agent_state(config)
    del state["message_ids"]
    fields: JsonObject = {name: state.pop(name) for name in SEARCHED_OR_REPLACED_FIELDS}
    return {"fields": fields, "body": to_json(state).decode()[1:-1]}
