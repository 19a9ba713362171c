"""Tools as clients read them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType

RETURN_CHARS_MAX = 50_000  # what a tool may return without a limit of its own


class ToolState(BaseModel):
    """A tool; its fields are in the recorded order."""

    model_config = ConfigDict(frozen=True)

    id: str
    tool_type: ToolType = ToolType.custom
    description: str | None = None
    source_type: str | None = "python"
    name: str = ""
    tags: list[str] = []
    source_code: str | None = None
    json_schema: dict[str, JsonValue] | None = None
    args_json_schema: dict[str, JsonValue] | None = None
    return_char_limit: int = RETURN_CHARS_MAX
    pip_requirements: list[dict[str, JsonValue]] | None = None
    npm_requirements: list[dict[str, JsonValue]] | None = None
    default_requires_approval: bool | None = None
    enable_parallel_execution: bool | None = False
    created_by_id: str | None = None
    last_updated_by_id: str | None = None
    metadata_: dict[str, JsonValue] | None = {}
    project_id: str | None = None


def tool_state(tool: ToolState) -> JsonObject:
    """The tool as clients read it."""
    return tool.model_dump(mode="json")
