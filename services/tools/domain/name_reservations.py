"""The names of tools and of MCP servers in an organisation."""

from __future__ import annotations

from libs.contracts.bus_messages import CONFLICT, Rejected
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import CATALOGUE, SERVER_TOOLS
from libs.contracts.tools.mcp_servers import McpServerNameFreed, McpServerNameTaken
from libs.contracts.tools.tools import ToolNameFreed, ToolNameTaken
from libs.contracts.unique_names import UniqueName


class ToolName(UniqueName):
    """The name of a tool: one tool of an organisation has it at a time."""

    taken, freed, owner_field = ToolNameTaken, ToolNameFreed, "tool_id"


class McpServerName(UniqueName):
    """The name of an MCP server: one server of an organisation has it at a time."""

    taken, freed, owner_field = McpServerNameTaken, McpServerNameFreed, "server_id"


def refuse_reserved(name: str) -> Rejected | None:
    """The refusal of a name that a tool of the server has, in every organisation."""
    if name not in SERVER_TOOLS:
        return None
    reason = f"A tool with the name '{name}' comes with the server: choose another name"
    return Rejected(code=CONFLICT, reason=reason)


def impersonation(tool: ToolState) -> str:
    """Why a stored tool must not be called: it has the name of a tool that comes with the server,
    as servers before this version let it. Empty for every other tool."""
    if tool.id in CATALOGUE or tool.name not in SERVER_TOOLS:
        return ""
    remedy = (
        "refresh its MCP server, which gives it another name"
        if tool.tool_type is ToolType.external_mcp
        else f"give it another name by PATCH /v1/tools/{tool.id}"
    )
    return (
        f"'{tool.name}' is the name of a tool that comes with the server, but this is {tool.id},"
        f" which is not that tool, so it is not called: {remedy}, or detach it from the agent"
    )


def refuse_taken(name: str) -> Rejected:
    """The refusal of a name that another tool has."""
    reason = (
        f"A tool with the name '{name}' exists already: choose another name, or rename or delete"
        " that one"
    )
    return Rejected(code=CONFLICT, reason=reason)
