"""Events of the tools service as rows that clients and other services read."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.mcp_servers import mcp_server_document
from libs.contracts.letta.tools import tool_state
from libs.contracts.tools.mcp_authorizations import McpServerAuthorized
from libs.contracts.tools.mcp_servers import (
    McpDiscoveryFailed,
    McpDiscoveryRequested,
    McpServerChanged,
    McpServerCreated,
    McpServerDeleted,
    McpToolsDiscovered,
    SealedMcpConfig,
)
from libs.contracts.tools.sandbox_configs import (
    PackagesRecreated,
    SandboxConfigChanged,
    SandboxConfigDeleted,
    SandboxVariableDeleted,
    SandboxVariableSet,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tool_runs import (
    ToolRunBegun,
    ToolRunEnded,
    ToolRunForgotten,
    ToolRunLost,
    ToolRunRefused,
    ToolRunResult,
    ToolRunStopped,
)
from libs.contracts.tools.tools import ToolChanged, ToolCreated, ToolDeleted
from libs.eventstore.read_model_rows import RowWrites, Table

TOOLS = Table("tools")
TOOL_RUNS = Table("tool_runs")
TOOL_PERMISSIONS = Table("tool_permissions")
MCP_SERVERS = Table("mcp_servers")
SANDBOX_CONFIGS = Table("sandbox_configs")
SANDBOX_VARIABLES = Table("sandbox_variables", aggregate="config_id")
READ_MODELS = (
    *(TOOLS, TOOL_RUNS, TOOL_PERMISSIONS, MCP_SERVERS),
    *(SANDBOX_CONFIGS, SANDBOX_VARIABLES),
)
SEARCHED = ("name", "tool_type", "tags")  # columns of their own besides their place in the document
AS_THEY_CAME = (
    "json_schema", "args_json_schema", "pip_requirements", "npm_requirements", "metadata_",
)  # fmt: skip


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the read models."""
    at = event.timestamp.isoformat()
    match event:
        case ToolCreated():
            columns = columns_of(tool_state(event.tool))
            row: JsonObject = {"id": event.originator_id, "org": org, "created_at": at}
            row |= {"updated_at": at, "revision": event.originator_version}
            rows.upsert(TOOLS, {**row, **columns})
        case ToolChanged():
            row = {"id": event.originator_id, "updated_at": at}
            row["revision"] = event.originator_version
            rows.patch(TOOLS, {**row, **columns_of(event.changes)})
        case ToolDeleted():
            rows.delete(TOOLS, "id", event.originator_id)
        case ToolRunBegun():
            rows.upsert(TOOL_RUNS, {**call_of(event, org), "status": "running"})
        case ToolRunRefused():
            refused = ToolRunResult(status="error", text=event.reason).model_dump(mode="json")
            outcome: JsonObject = {"status": "refused", "result": refused}
            rows.upsert(TOOL_RUNS, {**call_of(event, org), **outcome})
        case ToolRunEnded():
            result = event.result.model_dump(mode="json")
            ended: JsonObject = {"id": event.originator_id, "status": event.result.status}
            rows.patch(TOOL_RUNS, {**ended, "result": result})
        case ToolRunStopped():
            rows.patch(TOOL_RUNS, {"id": event.originator_id, "status": "stopped"})
        case ToolRunLost():
            rows.patch(TOOL_RUNS, {"id": event.originator_id, "status": "lost"})
        case ToolRunForgotten():
            rows.delete(TOOL_RUNS, "id", event.originator_id)
        case ToolPermissionsChanged():
            project_permissions(event, org, rows)
        case SandboxConfigChanged() | SandboxConfigDeleted() | PackagesRecreated():
            project_sandbox_config(event, org, rows)
        case SandboxVariableSet() | SandboxVariableDeleted():
            project_sandbox_variable(event, org, rows)
        case _:
            project_mcp_server(event, org, rows)


def call_of(event: ToolRunBegun | ToolRunRefused, org: str) -> JsonObject:
    """The columns that say which call it is."""
    return {
        "id": event.originator_id,
        "org": org,
        "created_at": event.timestamp.isoformat(),
        "tool_id": event.tool_id,
        "name": event.name,
        "agent_id": event.agent_id,
        "run_id": event.run_id,
        "tool_call_id": event.tool_call_id,
    }


def project_permissions(event: ToolPermissionsChanged, org: str, rows: RowWrites) -> None:
    """The row of a scope, if it has a list."""
    if event.tools is None and event.capabilities is None:
        rows.delete(TOOL_PERMISSIONS, "id", event.originator_id)
        return
    row: JsonObject = {
        "id": event.originator_id,
        "org": org,
        "kind": event.kind,
        "scope_id": event.scope_id,
        "tools": None if event.tools is None else [*event.tools],
        "capabilities": None if event.capabilities is None else [*event.capabilities],
        "revision": event.originator_version,
    }
    rows.upsert(TOOL_PERMISSIONS, row)


def project_sandbox_config(
    event: SandboxConfigChanged | SandboxConfigDeleted | PackagesRecreated,
    org: str,
    rows: RowWrites,
) -> None:
    """The row of the settings of an organisation, if there are any."""
    config_id, at = event.originator_id, event.timestamp.isoformat()
    match event:
        case SandboxConfigChanged():
            row: JsonObject = {"id": config_id, "updated_at": at}
            row["config"] = event.config.model_dump(mode="json")
            if event.created:
                new: JsonObject = {"org": org, "created_at": at, "type": "local", "generation": 0}
                rows.upsert(SANDBOX_CONFIGS, {**new, **row})
            else:
                rows.patch(SANDBOX_CONFIGS, row)
        case PackagesRecreated():
            rows.patch(SANDBOX_CONFIGS, {"id": config_id, "generation": event.generation})
        case SandboxConfigDeleted():
            rows.delete(SANDBOX_VARIABLES, "config_id", config_id)
            rows.delete(SANDBOX_CONFIGS, "id", config_id)


def project_sandbox_variable(
    event: SandboxVariableSet | SandboxVariableDeleted, org: str, rows: RowWrites
) -> None:
    """The row of an environment variable."""
    match event:
        case SandboxVariableSet():
            at = event.timestamp.isoformat()
            row: JsonObject = {
                "id": event.variable_id,
                "updated_at": at,
                "key": event.key,
                "value": event.value,
                "description": event.description,
            }
            if event.created:
                new: JsonObject = {"org": org, "config_id": event.originator_id, "created_at": at}
                rows.upsert(SANDBOX_VARIABLES, {**new, **row})
            else:
                rows.patch(SANDBOX_VARIABLES, row)
        case SandboxVariableDeleted():
            rows.delete(SANDBOX_VARIABLES, "id", event.variable_id)


def project_mcp_server(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of MCP servers."""
    server_id, at = event.originator_id, event.timestamp
    match event:
        case McpServerCreated():
            row: JsonObject = {"id": server_id, "org": org, "created_at": at.isoformat()}
            known: JsonObject = {"declared": event.declared, "version": 1, "tools": {}}
            named = mcp_columns(server_id, event.name, event.config)
            rows.upsert(MCP_SERVERS, {**row, **known, **named, **discovery_wanted(1, at)})
        case McpServerChanged():
            columns = mcp_columns(server_id, event.name, event.config)
            wanted = {} if event.renamed_only else discovery_wanted(event.number, at)
            rows.patch(
                MCP_SERVERS, {"id": server_id, "version": event.version, **columns, **wanted}
            )
        case McpServerAuthorized():
            if not event.renewed:
                wanted = discovery_wanted(event.number, at)
                rows.patch(MCP_SERVERS, {"id": server_id, "version": event.version, **wanted})
        case McpServerDeleted():
            rows.delete(MCP_SERVERS, "id", server_id)
        case McpDiscoveryRequested():
            rows.patch(MCP_SERVERS, {"id": server_id, **discovery_wanted(event.number, at)})
        case McpToolsDiscovered():
            found = {**discovery(event.number, "ready", at), "report": event.report.model_dump()}
            fields: JsonObject = {"discovery": found, "tools": {**event.tool_ids}, "due_at": None}
            rows.patch(MCP_SERVERS, {"id": server_id, **fields})
        case McpDiscoveryFailed():
            retry_at = event.retry_at.isoformat() if event.retry_at else None
            failed: JsonObject = {
                **discovery(event.number, "failed", at),
                "attempts": event.attempt,
                "kind": event.kind,
                "reason": event.reason,
                "retry_at": retry_at,
            }
            rows.patch(MCP_SERVERS, {"id": server_id, "discovery": failed, "due_at": retry_at})


def mcp_columns(server_id: str, name: str, config: SealedMcpConfig) -> JsonObject:
    """The columns that say how a server is called and reached, with its secrets sealed."""
    fields: JsonObject = {
        "command": config.command,
        "args": [*config.args],
        "env": None if config.env is None else {**config.env},
        "server_url": config.secret_url or config.url,
        "auth_header": config.auth_header or None,
        "auth_token": config.auth_token or None,
        "custom_headers": None if config.headers is None else {**config.headers},
    }
    document = mcp_server_document(server_id, name, config.transport, fields)
    return {"name": name, "document": document, "sampling": config.sampling}


def discovery_wanted(number: int, at: datetime) -> JsonObject:
    """The columns of a server whose tools are to be discovered now."""
    return {"discovery": discovery(number, "pending", at), "due_at": at.isoformat()}


def discovery(number: int, status: str, at: datetime) -> JsonObject:
    """The state of a discovery, and its start."""
    return {
        "number": number,
        "status": status,
        "at": at.isoformat(),
        "attempts": 0,
        "kind": None,
        "reason": None,
        "retry_at": None,
        "report": None,
    }


def columns_of(fields: JsonObject) -> JsonObject:
    """The columns that hold these fields of a tool."""
    apart = [name for name in (*SEARCHED, *AS_THEY_CAME) if name in fields]
    return {
        **{name: fields[name] for name in apart},
        "fields": {name: value for name, value in fields.items() if name not in AS_THEY_CAME},
    }
