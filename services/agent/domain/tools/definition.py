"""What a tool that comes with the server is made of, as the agent service speaks of it."""

from libs.contracts.base_tools.definition import (
    TOOL_RETURN_CHARS_MAX,
    BaseTool,
    Owner,
    tool_id,
    tool_ids_of,
)

__all__ = ["TOOL_RETURN_CHARS_MAX", "BaseTool", "Owner", "tool_id", "tool_ids_of"]
