"""MCP servers as clients older than SDK 1.0 use them: by name, below the tools."""

from __future__ import annotations

from typing import Any

from litestar import Response
from litestar.response import Stream
from pydantic import BaseModel
from pydantic_core import from_json, to_json

from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.mcp_servers import (
    NamedMCPServer,
    NamedMCPServerUpdate,
    UpdateSSEMCPServer,
    UpdateStdioMCPServer,
    UpdateStreamableHTTPMCPServer,
    named_config,
)
from libs.contracts.tools.mcp_servers import DeleteMcpServer, ListMcpTools, SealedMcpConfig
from libs.contracts.tools.tool_runs import RunTool
from services.api.adapters.resource_query_builder import ALL_OF_ORG, Filter
from services.api.adapters.tools.tool_queries import TOOLS
from services.api.http.callers import org_of
from services.api.http.encoded_slashes import segment
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, body_of, query_of
from services.api.openapi.operation import delete, get, patch, post, put
from services.api.resources.tools.direct_tool_execution import RUN_SECONDS_MAX, outcome, status_of
from services.api.resources.tools.mcp_discovery_waiting import (
    MCP_SERVERS,
    McpServerFailed,
    connection_problem,
    known_tools,
    listed_tools,
    offered_tool,
    refresh,
)
from services.api.resources.tools.mcp_servers import (
    Refresh,
    add_server,
    all_servers,
    attempt,
    change_server,
    open_config,
    seal_config,
)
from services.api.v1.read_model_responses import answer_document

PATH = "/v1/tools/mcp/servers"
SERVER = f"{PATH}/{{mcp_server_name:str}}"
NAME_SEGMENT, TOOL_SEGMENT, EXECUTED_SEGMENT = 5, 6, 7  # of the path, the first is 1


@get(PATH, "servers by name")
async def list_mcp_servers_by_name(request: AnyRequest) -> Response[bytes]:
    """List the MCP servers by their names."""
    servers = await all_servers(request)
    return raw(to_json({server["server_name"]: named_config(server) for server in servers}))


@put(PATH, "servers", body=bodies.NamedMCPServer)
async def add_mcp_server(request: AnyRequest) -> Response[bytes]:
    """Add an MCP server, and list all; its tools are discovered from now on."""
    body = (await body_of(request, NamedMCPServer)).root
    await add_server(request, body.server_name, without_name(body))
    return await all_configs(request)


def without_name(config: BaseModel) -> BaseModel:
    """A configuration without the name of its server, which is no part of it."""
    return config.model_copy(update={"server_name": None})


async def all_configs(request: AnyRequest) -> Response[bytes]:
    """All servers, as older clients read them."""
    return raw(to_json([named_config(server) for server in await all_servers(request)]))


async def server_of_path(request: AnyRequest) -> dict[str, Any]:
    """The server that the path names; raises the 404 of one that is not there."""
    name = segment(request, NAME_SEGMENT)
    row = await api_of(request).reads.first(MCP_SERVERS, by_name(org_of(request), name))
    if row is None:
        raise Problem(404, {"detail": f"MCP server '{name}' not found"})
    return dict(open_config(api_of(request).sealer, from_json(row)))


def by_name(org: str, name: str) -> Filter:
    """The server of this name in an organisation."""
    return Filter([ALL_OF_ORG], {"org": org}).add('v.name collate "C" = %(name)s', name=name)


@patch(SERVER, "server", body=bodies.NamedMCPServerUpdate)
async def update_mcp_server_by_name(request: AnyRequest, mcp_server_name: str) -> Response[bytes]:
    """Change the given fields of an MCP server."""
    body = await body_of(request, NamedMCPServerUpdate)
    server = await server_of_path(request)
    notice = await change_server(request, server["id"], body.server_name, change_of(server, body))
    after = await api_of(request).reads.one(MCP_SERVERS, org_of(request), server["id"])
    assert after is not None, "what was just changed is there"
    config = named_config(open_config(api_of(request).sealer, from_json(after)))
    return raw(to_json({**config, **notice}))


def change_of(server: dict[str, Any], body: NamedMCPServerUpdate) -> BaseModel:
    """A change as newer clients write it."""
    if server["mcp_server_type"] == "stdio":
        stdio = body.stdio_config
        return UpdateStdioMCPServer.model_validate(
            stdio.model_dump(exclude={"server_name", "type"}) if stdio else {}
        )
    fields = {
        "server_url": body.server_url,
        "auth_header": body.auth_header,
        "auth_token": body.auth_token or body.token,
        "custom_headers": body.custom_headers,
    }
    if server["mcp_server_type"] == "sse":
        return UpdateSSEMCPServer.model_validate(fields)
    return UpdateStreamableHTTPMCPServer.model_validate(fields)


@delete(SERVER, "servers")
async def delete_mcp_server_by_name(request: AnyRequest, mcp_server_name: str) -> Response[bytes]:
    """Delete an MCP server and its tools, and list the others."""
    server = await server_of_path(request)
    await api_of(request).send(request, DeleteMcpServer(server_id=server["id"]))
    return await all_configs(request)


@get(f"{SERVER}/tools", "tools as the server describes them")
async def list_tools_by_server_name(request: AnyRequest, mcp_server_name: str) -> Response[bytes]:
    """Ask an MCP server for its tools."""
    server = await server_of_path(request)
    command = ListMcpTools(
        listing_id=api_of(request).ids.new("mcp_listing"), server_id=server["id"]
    )
    try:
        tools = await listed_tools(request, command)
    except McpServerFailed as failed:
        raise connection_problem(failed) from None
    return raw(to_json([offered_tool(tool) for tool in tools]))


@post(f"{SERVER}/resync", "report", query=Refresh)
async def resync_mcp_server(request: AnyRequest, mcp_server_name: str) -> Response[bytes]:
    """Discover the tools of an MCP server again; says what was deleted, updated and added."""
    asked = query_of(request, Refresh)
    server = await server_of_path(request)
    return raw(to_json(await refresh(request, server["id"], asked.accept)))


@post(f"{SERVER}/{{mcp_tool_name:str}}", "tool")
async def add_mcp_tool(
    request: AnyRequest, mcp_server_name: str, mcp_tool_name: str
) -> Response[bytes]:
    """The tool of an MCP server, to be attached; the server is asked again if it is not known."""
    tool_id = await tool_named(request, segment(request, TOOL_SEGMENT))
    return await answer_document(request, TOOLS, tool_id)


async def tool_named(request: AnyRequest, name: str) -> str:
    """The id of the tool that the server of the path calls so; raises the 404 of none."""
    server = await server_of_path(request)
    known = await known_tools(request, server["id"])
    if name not in known:
        await refresh(request, server["id"])
        known = await known_tools(request, server["id"])
    if name not in known:
        offered = ", ".join(sorted(known)) or "none"
        detail = (
            f"'{server['server_name']}' has no tool '{name}' that can be used: it has {offered}"
        )
        raise Problem(404, {"detail": detail})
    return known[name]


@post(
    f"{SERVER}/tools/{{tool_name:str}}/execute",
    "what the tool returned",
    body=bodies.MCPToolExecuteRequest,
)
async def execute_mcp_tool(
    request: AnyRequest, mcp_server_name: str, tool_name: str
) -> Response[bytes]:
    """Call a tool of an MCP server with the given arguments."""
    body = await body_of(request, bodies.MCPToolExecuteRequest)
    command = RunTool(
        tool_run_id=api_of(request).ids.new("tool_run"),
        tool_id=await tool_named(request, segment(request, EXECUTED_SEGMENT)),
        arguments=body.args,
        seconds_max=RUN_SECONDS_MAX,
    )
    result = await outcome(request, command)
    return raw(to_json({"result": result.text, "success": status_of(result) == "success"}))


@post(f"{PATH}/test", "tools", body=bodies.NamedMCPServer)
async def test_mcp_server(request: AnyRequest) -> Response[bytes]:
    """Ask an MCP server for its tools without adding it."""
    try:
        tools = await listed_tools(request, await question_of_body(request))
    except McpServerFailed as failed:
        raise connection_problem(failed) from None
    return raw(to_json({"status": "success", "tools": [offered_tool(tool) for tool in tools]}))


@post(f"{PATH}/connect", "events", body=bodies.NamedMCPServer, streams=True)
async def connect_described_mcp_server(request: AnyRequest) -> Stream:
    """Try an MCP server without adding it, and tell what came of it as events."""
    command = await question_of_body(request)
    return attempt(request, command.name, command)


async def question_of_body(request: AnyRequest) -> ListMcpTools:
    """The question to a server that the body describes."""
    api = api_of(request)
    body = (await body_of(request, NamedMCPServer)).root
    return ListMcpTools(
        listing_id=api.ids.new("mcp_listing"),
        name=body.server_name,
        config=SealedMcpConfig.model_validate(seal_config(api.sealer, without_name(body))),
    )
