"""Events of the tools service as rows that clients and other services read."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.tools import tool_state
from libs.contracts.tools import ToolChanged, ToolCreated, ToolDeleted
from libs.eventstore.read_model_rows import RowWrites, Table

TOOLS = Table("tools")
READ_MODELS = (TOOLS,)
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


def columns_of(fields: JsonObject) -> JsonObject:
    """The columns that hold these fields of a tool."""
    apart = [name for name in (*SEARCHED, *AS_THEY_CAME) if name in fields]
    return {
        **{name: fields[name] for name in apart},
        "doc": {name: value for name, value in fields.items() if name not in AS_THEY_CAME},
    }
