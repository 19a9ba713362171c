"""Writes agent files, as the retired server writes them, and in its legacy form of one agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from libs.agent_document.agent_fields import AGENT_FIELDS, same_values
from libs.bus.pauses import with_pauses
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.agent_requests import AddedFields, CreateAgent
from services.api.v1.agent_file.exported_messages import exported_message, written_time
from services.api.v1.agent_file.exported_things import (
    FileIds,
    exported_block,
    exported_file,
    exported_file_of_agent,
    exported_group,
    exported_mcp_server,
    exported_source,
    exported_tool,
    texts,
)

# The revision of the form that is written: that of the last release of the retired server.
REVISION = "1c28e167b74f"
LEGACY_VERSION = "0.16.8"
REFUSAL_OF_LEGACY_FORMAT = "Legacy format is not supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedAgent:
    """An agent to be written: its V1 document with all relationships, its messages in their order,
    the ids of those that its model is shown, and the files that it may open."""

    document: JsonObject
    messages: Sequence[Message] = ()
    in_context: Sequence[str] = ()
    files: Sequence[JsonObject] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Everything that is written into one file. The first agent is the one that was asked for, the
    others are those of its group. `folders` and `files` are V1 documents, files with their
    `content`; `skills` are what the client sent."""

    agents: Sequence[ExportedAgent]
    at: datetime
    folders: Sequence[JsonObject] = ()
    files: Sequence[JsonObject] = ()
    mcp_servers: Sequence[JsonObject] = ()
    skills: Sequence[JsonObject] = ()


async def agent_file_document(export: Export) -> JsonObject:
    """The document of a file."""
    ids = FileIds()
    for server in export.mcp_servers:
        ids.of("mcp_server", str(server["id"]))
    agents = [await exported_agent(agent, ids) for agent in export.agents]
    documents = [agent.document for agent in export.agents]
    managed = (document.get("managed_group") for document in documents)
    groups = [group for group in managed if isinstance(group, dict)]
    return {
        "agents": [*agents],
        "groups": [exported_group(group, ids) for group in groups],
        "blocks": [exported_block(block, ids) for block in unique(documents, "blocks", "label")],
        "files": [exported_file(file, ids) for file in export.files],
        "sources": [exported_source(folder, ids) for folder in export.folders],
        "tools": [exported_tool(tool, ids) for tool in unique(documents, "tools", "name")],
        "mcp_servers": [exported_mcp_server(server, ids) for server in export.mcp_servers],
        "skills": [*export.skills],
        "metadata": {"revision_id": REVISION},
        "created_at": written_time(export.at),
    }


async def exported_agent(agent: ExportedAgent, ids: FileIds) -> JsonObject:
    """An agent with its messages. What makes it another one than those that a client creates, its
    id and its times, stays here."""
    document = agent.document
    file_id = ids.of("agent", str(document["id"]))
    llm = document.get("llm_config")
    model = llm.get("model") if isinstance(llm, dict) else None
    messages: list[JsonObject] = [
        exported_message(
            message,
            file_id=ids.of("message", message.id),
            agent_file_id=file_id,
            model=model if isinstance(model, str) else None,
        )
        async for message in with_pauses(agent.messages)
    ]
    secrets: JsonObject = {str(secret["key"]): "" for secret in objects(document.get("secrets"))}
    settings = document.get("model_settings")
    parallel = not isinstance(settings, dict) or settings.get("parallel_tool_calls")
    return {
        **new_agent(),
        **same_values(AGENT_FIELDS, document, "agent_file"),
        "parallel_tool_calls": None if parallel else False,
        "tool_ids": file_ids_of(document, "tools", "tool", ids),
        "source_ids": file_ids_of(document, "sources", "source", ids),
        "block_ids": file_ids_of(document, "blocks", "block", ids),
        "tool_exec_environment_variables": secrets,
        "secrets": {**secrets} if secrets else None,
        "id": file_id,
        "in_context_message_ids": [*ids.of_all("message", agent.in_context)],
        "messages": [*messages],
        "files_agents": [exported_file_of_agent(file, file_id, ids) for file in agent.files],
        "group_ids": [
            ids.of("group", str(group["id"])) for group in objects([document.get("managed_group")])
        ],
    }


def new_agent() -> JsonObject:
    """The fields of a request to create an agent, in their order, as the retired server leaves
    them."""
    requested = [name for name in CreateAgent.model_fields if name not in AddedFields.model_fields]
    absent: dict[str, Json] = dict.fromkeys([*requested, *FIELDS_OF_FILE])
    return {
        **absent,
        "memory_blocks": [],
        "tools": [],
        "include_base_tools": False,
        "include_multi_agent_tools": False,
        "include_base_tool_rules": False,
        "include_default_source": False,
        "enable_reasoner": False,
        "template": False,
        "enable_sleeptime": False,
    }


FIELDS_OF_FILE = ("id", "in_context_message_ids", "messages", "files_agents", "group_ids")


async def legacy_document(export: Export) -> JsonObject:
    """The legacy form of the first agent: its blocks and tools stand within it, and nothing has an
    id. Files, groups and MCP servers have no place there."""
    document = await agent_file_document(export)
    [agent, *_] = objects(document["agents"])
    at = written_time(export.at)
    times: JsonObject = {"created_at": at, "updated_at": at}
    having = {str(name) for name in texts(agent["block_ids"])}
    tools = {str(name) for name in texts(agent["tool_ids"])}
    places = {message["id"]: place for place, message in enumerate(objects(agent["messages"]))}
    secrets = agent["tool_exec_environment_variables"]
    return {
        "agent_type": agent["agent_type"],
        "core_memory": [
            legacy_entry(block, times)
            for block in objects(document["blocks"])
            if block["id"] in having
        ],
        "created_at": at,
        "description": agent["description"],
        "embedding_config": agent["embedding_config"],
        "llm_config": agent["llm_config"],
        "message_buffer_autoclear": agent["message_buffer_autoclear"],
        "in_context_message_indices": [
            places[name] for name in texts(agent["in_context_message_ids"]) if name in places
        ],
        "messages": [legacy_message(message) for message in objects(agent["messages"])],
        "metadata_": agent["metadata"],
        "multi_agent_group": None,
        "name": agent["name"],
        "system": agent["system"],
        "tags": [{"tag": tag} for tag in texts(agent["tags"])],
        "tool_exec_environment_variables": [
            {"key": key, "value": "", "description": None, **times}
            for key in (secrets if isinstance(secrets, dict) else {})
        ],
        "tool_rules": agent["tool_rules"],
        "tools": [
            legacy_entry(tool, times) for tool in objects(document["tools"]) if tool["id"] in tools
        ],
        "updated_at": at,
        "version": LEGACY_VERSION,
    }


def legacy_entry(entry: JsonObject, times: JsonObject) -> JsonObject:
    """A block or a tool of the legacy form."""
    renamed = {"metadata_" if name == "metadata" else name: entry[name] for name in entry}
    del renamed["id"]
    return {**renamed, **times}


def legacy_message(message: JsonObject) -> JsonObject:
    """A message of the legacy form."""
    kept = (
        "created_at", "group_id", "model", "name", "role", "content", "tool_call_id", "tool_calls",
        "tool_returns", "approvals", "approve", "approval_request_id", "denial_reason",
    )  # fmt: skip
    fields = {name: message[name] for name in kept}
    return {
        **fields,
        "tool_calls": message["tool_calls"] or [],
        "updated_at": message["created_at"],
    }


def unique(documents: Iterable[JsonObject], field: str, sort_key: str) -> list[JsonObject]:
    """The things of a kind that agents have, each once, in the order of a field."""
    found = {
        str(each["id"]): each
        for each in (thing for document in documents for thing in objects(document.get(field)))
    }
    return sorted(found.values(), key=lambda thing: str(thing.get(sort_key)))


def file_ids_of(document: JsonObject, field: str, kind: str, ids: FileIds) -> list[Json]:
    """The ids in the file of what an agent has of a kind."""
    return [ids.of(kind, str(thing["id"])) for thing in objects(document.get(field))]


def objects(value: object) -> list[JsonObject]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
