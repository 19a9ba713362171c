"""Things that an agent's file names on the server: tools of MCP servers, and folders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from cli.agent_tests.model_requests import asked_in
from cli.names import FOLDER, id_of
from cli.server import Server
from libs.agent_toml import AgentDefinition, permissions_request

# A process that heard of no change looks for one as often as that.
IN_FORCE_SECONDS_MAX = 3.0
POLL_SECONDS = 0.02


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


def limit(server: Server, agent: Any, definition: AgentDefinition) -> None:
    """Let a new agent call what its file allows, and nothing else. Returns when that is in force:
    the agent service hears of it a moment later. A list of capabilities may withhold none of the
    agent's tools, so the longest time is waited for."""
    if definition.permissions is None:
        return
    server.put(f"/v1/agents/{agent['id']}/permissions", permissions_request(definition))
    allowed = definition.permissions.tools
    withheld = {
        tool["name"]
        for tool in agent["tools"]
        if allowed is not None and {tool["name"], tool["id"]}.isdisjoint(allowed)
    }
    by_capability = definition.permissions.capabilities is not None
    deadline = time.monotonic() + IN_FORCE_SECONDS_MAX
    while time.monotonic() < deadline:
        offered = _offered(server, agent)
        if offered.isdisjoint(withheld) and (withheld or not by_capability):
            return
        time.sleep(POLL_SECONDS)


def _offered(server: Server, agent: Any) -> set[str]:
    """The tools that the agent's model would be offered now."""
    path = f"/v1/agents/{agent['id']}/messages/preview-raw-payload"
    body = {"messages": [{"role": "user", "content": "Which tools do you have?"}]}
    return {*asked_in(server.post(path, body)).tools}


def _mcp_tool_ids(server: Server, agent: AgentDefinition) -> Iterator[str]:
    known: dict[str, Any] = {
        entry["server_name"]: entry for entry in server.get("/v1/mcp-servers/")
    }
    for wanted in agent.mcp_servers:
        if entry := known.get(wanted.name):
            for tool in server.get(f"/v1/mcp-servers/{entry['id']}/tools"):
                if wanted.tools is None or tool["name"] in wanted.tools:
                    yield str(tool["id"])
