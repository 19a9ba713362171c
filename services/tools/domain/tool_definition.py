"""What a client says of a tool, made whole: name, description and schema fit each other."""

from __future__ import annotations

from hashlib import sha256

from libs.contracts.bus_messages import UNPROCESSABLE, JsonObject, Rejected
from libs.contracts.letta.tools import ToolState

HASH_CHARS = 12


def completed(tool: ToolState) -> ToolState | Rejected:
    """The tool with all that follows from its source and its schema."""
    schema = tool.json_schema
    if schema is None:
        return Rejected(code=UNPROCESSABLE, reason="`json_schema`: give the schema of the tool")
    name, description = schema.get("name"), schema.get("description")
    if not isinstance(name, str) or not name:
        return Rejected(code=UNPROCESSABLE, reason="`json_schema.name`: give the tool a name")
    text = description if isinstance(description, str) else None
    return tool.model_copy(
        update={
            "name": name,
            "description": tool.description or text,
            "metadata_": {**(tool.metadata_ or {}), **hashed(tool.source_code)},
        }
    )


def hashed(source_code: str | None) -> JsonObject:
    """What says whether two tools have the same source."""
    if source_code is None:
        return {}
    return {"tool_hash": sha256(source_code.encode()).hexdigest()[:HASH_CHARS]}
