"""The catalogue of tools: those that come with the server. Agents hold them by id."""

from collections.abc import Iterable, Mapping

from libs.contracts.letta import JsonObject
from services.agent.domain.tools.builtin_tools import (
    BUILTIN_TOOLS,
    FILE_TOOLS,
    MULTI_AGENT_TOOLS,
    VOICE_TOOLS,
)
from services.agent.domain.tools.core_and_memory_tools import CORE_TOOLS, MEMORY_TOOLS
from services.agent.domain.tools.definition import BaseTool

# Longer ones are cut when a model's answer is read, and are no JSON any more.
TOOL_ARGUMENTS_CHARS_MAX = 600_000

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
CATALOGUE: Mapping[str, BaseTool] = {tool.id: tool for tool in BASE_TOOLS.values()}


def tools_of(tool_ids: Iterable[str]) -> list[BaseTool]:
    """The tools of these ids, without those that the catalogue does not have: a newer server may
    have known them."""
    return [CATALOGUE[one] for one in tool_ids if one in CATALOGUE]


def tool_state(tool: BaseTool, *, created_by_id: str | None = None) -> JsonObject:
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
