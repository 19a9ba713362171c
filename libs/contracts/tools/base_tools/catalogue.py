"""The tools that come with the server. They are the same in every organisation, and none has a copy
of them: they stand in the code, and change with it."""

from collections.abc import Mapping

from libs.contracts.letta import JsonObject
from libs.contracts.tools.base_tools.builtin_tools import BUILTIN_TOOLS, WORKSPACE_TOOLS
from libs.contracts.tools.base_tools.capability_tools import CAPABILITY_TOOLS
from libs.contracts.tools.base_tools.core_and_memory_tools import (
    CORE_TOOLS,
    MEMORY_TOOLS,
    VOICE_TOOLS,
)
from libs.contracts.tools.base_tools.definition import BaseTool
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from libs.contracts.tools.base_tools.multi_agent_tools import MULTI_AGENT_TOOLS

BASE_TOOLS: Mapping[str, BaseTool] = {
    tool.name: tool
    for tool in (
        *CORE_TOOLS,
        *MEMORY_TOOLS,
        *MULTI_AGENT_TOOLS,
        *BUILTIN_TOOLS,
        *FILE_TOOLS,
        *VOICE_TOOLS,
    )
}
ADDED_TOOLS: Mapping[str, BaseTool] = {
    tool.name: tool
    for tool in (
        # Heeler's own, not V1's: a list shows them only to a client that asks by name.
        *CAPABILITY_TOOLS,
        *WORKSPACE_TOOLS,
    )
}
# All that come with the server, by name: no other tool may have one of these names.
SERVER_TOOLS: Mapping[str, BaseTool] = {**BASE_TOOLS, **ADDED_TOOLS}
CATALOGUE: Mapping[str, BaseTool] = {tool.id: tool for tool in SERVER_TOOLS.values()}


def base_tool_state(tool: BaseTool, *, created_by_id: str | None = None) -> JsonObject:
    """A tool as clients read it."""
    return {
        "id": tool.id,
        "tool_type": tool.tool_type.value,
        "description": tool.description,
        "source_type": "python",
        "name": tool.name,
        "tags": [tool.tool_type.value],
        "source_code": None,
        "json_schema": tool.json_schema,
        "args_json_schema": None,
        "return_char_limit": tool.return_chars_max,
        "pip_requirements": None,
        "npm_requirements": None,
        "default_requires_approval": tool.needs_approval,
        "enable_parallel_execution": tool.parallel,
        "created_by_id": created_by_id,
        "last_updated_by_id": created_by_id,
        "metadata_": {},
        "project_id": None,
    }
