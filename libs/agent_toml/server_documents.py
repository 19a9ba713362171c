"""A definition from what the server says of an agent: the way back from `requests`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from libs.agent_document.agent_fields import (
    AGENT_FIELDS,
    BLOCK_FIELDS,
    SCHEDULE_FIELDS,
    TOOL_FIELDS,
    form_names,
    same_values,
)
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.model_tables import ModelSettings
from libs.agent_toml.schedule_tables import KEYS_OF_ACTION, TYPES_OF_GROUP_KEY
from libs.contracts.letta.agent_state import file_limits
from libs.contracts.letta.tools import RETURN_CHARS_MAX

Document = Mapping[str, Any]


class NotWritable(ValueError):
    """The server has an agent that no file can describe; the text says why."""


def from_server(
    agent: Document,
    *,
    schedules: Sequence[Document] = (),
    groups: Sequence[Document] = (),
    permissions: Document | None = None,
    mcp_servers: Sequence[Document] = (),
    shared_labels: Collection[str] = (),
) -> AgentDefinition:
    """The definition of an agent, from its document with all relationships (GET /v1/agents/{id}),
    and what else there is of it. Raises NotWritable.

    JSON's null is left out, as TOML has none. Values of secrets are never taken: `${NAME}` stands
    for them. Schedules that send anything but one text are left out, as are groups without names.
    """
    tools = agent.get("tools") or []
    custom = [tool for tool in tools if tool.get("tool_type") == "custom"]
    of_servers = {f"mcp:{server['server_name']}" for server in mcp_servers}
    fields: dict[str, Any] = {
        **_own_fields(agent),
        "include_base_tools": False,
        "include_base_tool_rules": False,
        "tools": [
            tool["name"]
            for tool in tools
            if tool not in custom and not of_servers.intersection(tool.get("tags") or [])
        ],
        "tool": [_tool(tool) for tool in custom],
        "folders": [folder["name"] for folder in agent.get("sources") or []],
        "secrets": {each["key"]: f"${{{each['key']}}}" for each in agent.get("secrets") or []},
        "memory": [_block(block, shared_labels) for block in agent.get("blocks") or []],
        "mcp_servers": [_mcp_server(server, tools) for server in mcp_servers],
        "schedules": [found for each in schedules if (found := _schedule(each))],
        "groups": [_group(group, agent["id"]) for group in groups if group.get("name")],
        "permissions": _permissions(permissions),
    }
    try:
        return AgentDefinition.model_validate(_without_nulls(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise NotWritable(f"{agent.get('name')}: {place}: {first['msg']}") from None


def _own_fields(agent: Document) -> dict[str, Any]:
    """The fields of the agent itself."""
    config = agent.get("llm_config") or {}
    return {
        **same_values(AGENT_FIELDS, agent, "toml"),
        "system_prompt": agent["system"],
        "model": agent.get("model"),
        "context_window": config.get("context_window"),
        "embedding": agent.get("embedding"),
        "model_settings": _model_settings(agent),
        "compaction": _compaction(agent.get("compaction_settings")),
        "limits": _limits(agent, config.get("context_window")),
    }


def _model_settings(agent: Document) -> dict[str, Any] | None:
    settings = agent.get("model_settings")
    if not settings or not agent.get("model"):
        return None
    return {key: settings[key] for key in ModelSettings.model_fields if key in settings}


def _compaction(settings: Document | None) -> dict[str, Any] | None:
    if not settings:
        return None
    keys = ("mode", "model", "prompt", "clip_chars", "sliding_window_percentage")
    return {key: settings[key] for key in keys if settings.get(key) is not None} or None


def _limits(agent: Document, context_window: int | None) -> dict[str, Any] | None:
    """The limits that are not those of any agent with such a model."""
    files, chars = file_limits(context_window)
    found = {
        key: agent[key]
        for key, default in (("max_files_open", files), ("per_file_view_window_char_limit", chars))
        if agent.get(key) not in (None, default)
    }
    return found or None


def _block(block: Document, shared_labels: Collection[str]) -> dict[str, Any]:
    return {
        **same_values(BLOCK_FIELDS, block, "toml"),
        "value": block.get("value") or "",
        "shared": block["label"] in shared_labels,
    }


def _tool(tool: Document) -> dict[str, Any]:
    kept = tool.get("return_char_limit")
    return {
        **{there: tool.get(name) for name, there in form_names(TOOL_FIELDS, "toml").items()},
        "source": tool.get("source_code") or "",
        "source_type": "typescript" if tool.get("source_type") == "typescript" else "python",
        "return_char_limit": None if kept == RETURN_CHARS_MAX else kept,
        "packages": [
            f"{each['name']}=={each['version']}" if each.get("version") else each["name"]
            for each in tool.get("pip_requirements") or []
        ],
    }


def _mcp_server(server: Document, tools: Sequence[Document]) -> dict[str, Any]:
    """A server with those of its tools that the agent has; `${NAME}` stands for each secret."""
    name = server["server_name"]
    of_server = f"mcp:{name}"
    prefix = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "MCP"
    prefix = prefix if prefix[0].isalpha() else f"MCP_{prefix}"
    own: dict[str, Any] = {"name": name, "sampling": bool(server.get("sampling"))}
    own["tools"] = [tool["name"] for tool in tools if of_server in (tool.get("tags") or [])]
    if server.get("mcp_server_type") == "stdio":
        env = server.get("env") or {}
        own |= {"command": server["command"], "args": server.get("args") or []}
        return own | {"env": {key: f"${{{_variable(prefix, key)}}}" for key in env}}
    headers = server.get("custom_headers") or {}
    return own | {
        "url": server["server_url"],
        "transport": server.get("mcp_server_type", "streamable_http"),
        "headers": {key: f"${{{_variable(prefix, key)}}}" for key in headers},
        "auth_header": server.get("auth_header") or None,
        "auth_token": f"${{{prefix}_TOKEN}}" if server.get("auth_token") else None,
    }


def _variable(prefix: str, key: str) -> str:
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9]+', '_', key).upper()}"


def _schedule(schedule: Document) -> dict[str, Any] | None:
    """A schedule that a file can have; None for any other, and for one that is over."""
    if schedule.get("status") == "completed":
        return None
    action = schedule.get("action") or {}
    kind = action.get("type", "message")
    message = _single_text(schedule) if kind == "message" else None
    if kind == "group_message" or (kind == "message" and message is None):
        return None
    is_once = schedule.get("schedule_type") == "one_time"
    found: dict[str, Any] = {
        **same_values(SCHEDULE_FIELDS, schedule, "toml"),
        "name": schedule.get("name") or schedule["id"],
        "at": schedule.get("scheduled_time") if is_once else None,
        "cron": None if is_once else schedule.get("recurrence_rule"),
    }
    if found.get("missed") != "all":
        found.pop("missed_slots_max", None)
    if kind == "message":
        owner = {**schedule, **action}
        of_message = {key: owner.get(key) for key in ("max_steps", "callback_url")}
        return {**found, "message": message, **of_message}
    keys = [key for key in KEYS_OF_ACTION[kind] if action.get(key) is not None]
    return {**found, "action": {"type": kind, **{key: action[key] for key in keys}}}


def _single_text(schedule: Document) -> str | None:
    """The text that a schedule sends, if it is one of the user."""
    action = schedule.get("action") or {}
    messages = action.get("messages") or schedule.get("messages") or schedule.get("message") or []
    if isinstance(messages, str):
        return messages
    if len(messages) != 1 or messages[0].get("role", "user") != "user":
        return None
    content = messages[0].get("content")
    if isinstance(content, list) and len(content) == 1:
        content = content[0].get("text")
    return content if isinstance(content, str) else None


def _group(group: Document, agent_id: str) -> dict[str, Any]:
    kind = group.get("manager_type") or "round_robin"
    return {
        "name": group["name"],
        "role": "manager" if group.get("manager_agent_id") == agent_id else "member",
        "manager_type": kind,
        "description": group.get("description") or None,
        **{key: group.get(key) for key, kinds in TYPES_OF_GROUP_KEY.items() if kind in kinds},
        "hops_max": group.get("hops_max"),
        "shared_state_mode": group.get("shared_state_mode"),
    }


def _permissions(permissions: Document | None) -> dict[str, Any] | None:
    found = {key: (permissions or {}).get(key) for key in ("tools", "capabilities")}
    return found if any(value is not None for value in found.values()) else None


def _without_nulls(value: Any) -> Any:
    """The same value without keys and items that are null."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nulls(each) for each in value if each is not None]
    return value
