"""Requests that make a definition on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from libs.agent_document.agent_fields import (
    AGENT_FIELDS,
    BLOCK_FIELDS,
    SCHEDULE_FIELDS,
    TOOL_FIELDS,
    form_names,
    same_values,
)
from libs.agent_toml.definition import AgentDefinition, MemoryBlock
from libs.agent_toml.model_providers import provider_of
from libs.agent_toml.schedule_tables import Schedule
from libs.agent_toml.schedule_times import cron_of, moment_of
from libs.agent_toml.tables import Table, names_in, with_values
from libs.agent_toml.tool_checks import is_typescript, tool_name
from libs.agent_toml.tool_tables import McpServer, Tool

Body = dict[str, Any]
Environment = Mapping[str, str]


def to_create_request(definition: AgentDefinition, environment: Environment | None = None) -> Body:
    """The body of POST /v1/agents/ for what belongs to the agent itself.

    It names the agent's tools, so those of its own source have to be there before; tools of MCP
    servers, folders, shared blocks, permissions, schedules and groups have requests of their own.
    With an environment it has the secrets. Raises MissingVariable.
    """
    body = to_update_request(definition, environment)
    own = [name for name in map(tool_name, definition.tool) if name]
    blocks = [block_request(block) for block in definition.memory if not block.shared]
    return {
        **body,
        "agent_type": definition.agent_type,
        "include_base_tools": definition.include_base_tools,
        **_given(include_base_tool_rules=definition.include_base_tool_rules),
        "tools": list(dict.fromkeys([*definition.tools, *own])),
        "memory_blocks": blocks,
    }


def to_update_request(definition: AgentDefinition, environment: Environment | None = None) -> Body:
    """The body of PATCH /v1/agents/{id} that makes an agent what the file says, but for what
    `to_create_request` has besides, and with the secrets if there is an environment. What the file
    leaves out is not in it, except for the texts and lists that are empty then.
    Raises MissingVariable."""
    secrets = None
    if environment is not None and definition.secrets:
        secrets = {
            name: with_values(text, environment) for name, text in definition.secrets.items()
        }
    return {
        **same_values(AGENT_FIELDS, definition, "toml", "update"),
        **_given(
            model=definition.model,
            embedding=definition.embedding,
            context_window_limit=definition.context_window,
            model_settings=model_settings_request(definition),
            response_format=_dump(definition.response_format),
            compaction_settings=_dump(definition.compaction),
            secrets=secrets,
        ),
        "system": definition.system_prompt,
        "description": definition.description,
        "tool_rules": [_dump(rule) for rule in definition.tool_rules],
        "capabilities": [capability.model_dump() for capability in definition.capabilities],
        **(_dump(definition.limits) or {}),
    }


def _given(**fields: Any) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


def _dump(table: Table | None) -> Body | None:
    """A table as JSON, as far as the file says it."""
    return None if table is None else table.model_dump(mode="json", exclude_none=True)


def model_settings_request(definition: AgentDefinition) -> Body | None:
    """The settings of the model as V1 has them, or None if the file has none."""
    settings = _dump(definition.model_settings)
    if settings is None:
        return None
    return {**settings, "provider_type": provider_of(definition)}


def block_request(block: MemoryBlock) -> Body:
    """The body that makes a block, alone or with its agent."""
    return {**same_values(BLOCK_FIELDS, block, "toml"), "value": block.value or ""}


def tool_request(tool: Tool) -> Body:
    """The body of PUT /v1/tools/, which makes the tool of this name or changes it."""
    same = {name: getattr(tool, key) for name, key in form_names(TOOL_FIELDS, "toml").items()}
    del same["name"]  # the source says it
    return {
        **_given(**same),
        "source_code": tool.source or "",
        "source_type": "typescript" if is_typescript(tool) else "python",
        "pip_requirements": [_package(package) for package in tool.packages],
    }


def _package(text: str) -> Body:
    name, _, version = text.partition("==")
    return {"name": name, "version": version} if version else {"name": name}


def mcp_server_request(server: McpServer, environment: Environment) -> Body:
    """The body of POST /v1/mcp-servers/. Raises MissingVariable."""
    if server.command is not None:
        config: Body = {
            "mcp_server_type": "stdio",
            "command": server.command,
            "args": [*server.args],
            "env": _with_values(server.env, environment),
        }
    else:
        token = server.auth_token
        config = {
            "mcp_server_type": server.transport,
            "server_url": server.url,
            "custom_headers": _with_values(server.headers, environment),
            **_given(
                auth_header=server.auth_header,
                auth_token=None if token is None else with_values(token, environment),
            ),
        }
    return {"server_name": server.name, "config": {**config, "sampling": server.sampling}}


def _with_values(texts: Mapping[str, str], environment: Environment) -> dict[str, str]:
    return {name: with_values(text, environment) for name, text in texts.items()}


def schedule_request(schedule: Schedule, timezone: str | None = None) -> Body:
    """The body of POST /v1/agents/{id}/schedule; `timezone` is the agent's."""
    moment = moment_of(schedule)
    cron = cron_of(schedule.every) if schedule.every is not None else schedule.cron
    if moment is not None:
        when: Body = {"schedule_type": "one_time", "scheduled_time": moment.isoformat()}
    else:
        when = {"schedule_type": "recurring", "recurrence_rule": cron}
    return {
        **when,
        **same_values(SCHEDULE_FIELDS, schedule, "toml"),
        **_given(
            timezone=schedule.timezone or timezone,
            message=schedule.message,
            action=_dump(schedule.action),
            max_steps=schedule.max_steps,
            callback_url=schedule.callback_url,
        ),
    }


def permissions_request(definition: AgentDefinition) -> Body:
    """The body of PUT /v1/agents/{id}/permissions: an empty one ends any limit."""
    allowed = definition.permissions
    return {} if allowed is None else allowed.model_dump(mode="json", exclude_none=True)


def variables_of(definition: AgentDefinition) -> list[str]:
    """The environment variables that a file names, each once."""
    texts = [*definition.secrets.values()]
    for server in definition.mcp_servers:
        texts += [*server.headers.values(), *server.env.values(), server.auth_token or ""]
    return list(dict.fromkeys(name for text in texts for name in names_in(text)))
