"""What an agent's file names and the server has to have: tools of MCP servers, and folders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.names import FOLDER, id_of
from cli.server import Server
from libs.agent_toml import AgentDefinition


def ids_of_parts(server: Server, agent: AgentDefinition) -> dict[str, list[str]]:
    """The ids of MCP tools and folders, as members of the request that makes the agent. What MCP
    servers have that this server does not know is left out: it can be mocked. Raises
    CommandError for a folder that is not there."""
    tools = list(_mcp_tool_ids(server, agent)) if agent.mcp_servers else []
    folders = [id_of(server, FOLDER, name) for name in agent.folders]
    parts = {"tool_ids": tools, "folder_ids": folders}
    return {name: ids for name, ids in parts.items() if ids}


def mcp_tools_named(agent: AgentDefinition) -> set[str]:
    """The tools of MCP servers that the file names."""
    return {name for server in agent.mcp_servers for name in server.tools or ()}


def _mcp_tool_ids(server: Server, agent: AgentDefinition) -> Iterator[str]:
    known: dict[str, Any] = {
        entry["server_name"]: entry for entry in server.get("/v1/mcp-servers/")
    }
    for wanted in agent.mcp_servers:
        if entry := known.get(wanted.name):
            for tool in server.get(f"/v1/mcp-servers/{entry['id']}/tools"):
                if wanted.tools is None or tool["name"] in wanted.tools:
                    yield str(tool["id"])
