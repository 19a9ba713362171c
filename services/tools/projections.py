"""Events of the tools service as rows that clients and other services read."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.tools import tool_state
from libs.contracts.tool_permissions import ToolPermissionsChanged
from libs.contracts.tool_runs import (
    ToolRunBegun,
    ToolRunEnded,
    ToolRunLost,
    ToolRunRefused,
    ToolRunResult,
    ToolRunStopped,
)
from libs.contracts.tools import ToolChanged, ToolCreated, ToolDeleted
from libs.eventstore.read_model_rows import RowWrites, Table

TOOLS = Table("tools")
TOOL_RUNS = Table("tool_runs")
TOOL_PERMISSIONS = Table("tool_permissions")
READ_MODELS = (TOOLS, TOOL_RUNS, TOOL_PERMISSIONS)
SEARCHED = ("name", "tool_type", "tags")  # columns of their own besides their place in the document
AS_THEY_CAME = (
    "json_schema", "args_json_schema", "pip_requirements", "npm_requirements", "metadata_",
)  # fmt: skip


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
    at = event.timestamp.isoformat()
    match event:
        case ToolCreated():
            columns = columns_of(tool_state(event.tool))
            row: JsonObject = {"id": event.originator_id, "org": org, "created_at": at}
            rows.upsert(TOOLS, {**row, "updated_at": at, **columns})
        case ToolChanged():
            rows.patch(
                TOOLS, {"id": event.originator_id, "updated_at": at, **columns_of(event.changes)}
            )
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
        case ToolPermissionsChanged():
            project_permissions(event, org, rows)


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


def columns_of(fields: JsonObject) -> JsonObject:
    """The columns that hold these fields of a tool."""
    apart = [name for name in (*SEARCHED, *AS_THEY_CAME) if name in fields]
    return {
        **{name: fields[name] for name in apart},
        "doc": {name: value for name, value in fields.items() if name not in AS_THEY_CAME},
    }
