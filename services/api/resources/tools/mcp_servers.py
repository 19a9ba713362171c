"""MCP servers: how they are reached, and the tools that they bring."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from litestar import Response
from litestar.response import Stream
from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import NAME_CHARS_MAX
from libs.contracts.sealed_text import is_sealed
from libs.contracts.tools.mcp_servers import (
    TOOLS_MAX,
    CreateMcpServer,
    DeleteMcpServer,
    ListMcpTools,
    McpConfigChanges,
    SealedMcpConfig,
    UpdateMcpServer,
    sealed_fields,
)
from libs.contracts.tools.tool_runs import RunTool
from libs.encryption.sealer import CannotOpen, Sealer
from services.api.adapters.resource_query_builder import ALL_OF_ORG, Filter, Slice
from services.api.adapters.tools.tool_queries import TOOLS, ToolQueries
from services.api.http.callers import caller_of, org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.tools.direct_tool_execution import (
    RUN_SECONDS_MAX,
    execution_result,
    outcome,
)
from services.api.resources.tools.mcp_discovery_waiting import (
    MCP_SERVERS,
    McpServerFailed,
    known_tools,
    offered_tool,
    progress_messages,
    refresh,
)
from services.api.resources.tools.mcp_oauth_callback import callback_address
from services.api.v1.read_model_responses import answer_document, document_of, missing

PATH = "/v1/mcp-servers"
SERVER = f"{PATH}/{{mcp_server_id:str}}"
SERVERS_MAX = 1_000
ADD_IT_FIRST = (
    "Where it wants a person's word, add it (`POST /v1/mcp-servers/`) and connect to it there"
    " (`GET /v1/mcp-servers/connect/{id}`): what is granted is kept with the server"
)
# What the fields of requests are called in commands.
FIELDS = {
    "mcp_server_type": "transport",
    "type": "transport",
    "server_url": "url",
    "custom_headers": "headers",
}


class Refresh(Query):
    """The agent whose view is wanted, and the tools whose changed definition is accepted."""

    agent_id: Annotated[str | None, Field(max_length=NAME_CHARS_MAX)] = None
    accept: Annotated[
        list[Annotated[str, Field(max_length=NAME_CHARS_MAX)]] | None, Field(max_length=TOOLS_MAX)
    ] = None


@post(PATH, "server", body=bodies.CreateMCPServerRequest)
async def create_mcp_server(request: AnyRequest) -> Response[bytes]:
    """Add an MCP server; its tools are discovered from now on."""
    body = await body_of(request, bodies.CreateMCPServerRequest)
    server_id = await add_server(request, body.server_name, body.config)
    return await answer_server(request, server_id)


async def add_server(request: AnyRequest, name: str, config: BaseModel) -> str:
    """The id of a server that is new; raises the 422 of one too many."""
    api = api_of(request)
    there = await api.reads.count(MCP_SERVERS, Filter([ALL_OF_ORG], {"org": org_of(request)}))
    if there >= SERVERS_MAX:
        detail = f"There may be {SERVERS_MAX} MCP servers, and there are {there}: delete one"
        raise Problem(422, {"detail": detail})
    server_id = api.new_id(request, "mcp_server")
    command = CreateMcpServer(
        server_id=server_id,
        name=name,
        config=SealedMcpConfig.model_validate(seal_config(api.sealer, config)),
    )
    await api.send(request, command, message_id=f"create-{server_id}")
    return server_id


def seal_config(sealer: Sealer, config: BaseModel) -> JsonObject:
    """The fields of a body that are not null, as commands have them: with their secrets sealed."""
    given = config.model_dump(mode="json", exclude_none=True)
    fields = {FIELDS.get(name, name): value for name, value in given.items()}
    return sealed_fields(sealer.seal, fields)


@get(PATH, "servers")
async def list_mcp_servers(request: AnyRequest) -> Response[bytes]:
    """List the MCP servers, the oldest first."""
    return raw(to_json(await all_servers(request)))


async def all_servers(request: AnyRequest) -> list[dict[str, Any]]:
    """The MCP servers as clients read them."""
    api = api_of(request)
    found = Filter([ALL_OF_ORG], {"org": org_of(request)})
    part = Slice(limit=SERVERS_MAX, order="asc")
    rows = from_json(await api.reads.page(MCP_SERVERS, found, part))
    return [open_config(api.sealer, row) for row in rows]


@get(SERVER, "server")
async def retrieve_mcp_server(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """Retrieve an MCP server, and how far the discovery of its tools is."""
    return await answer_server(request, mcp_server_id)


async def answer_server(request: AnyRequest, server_id: str, **notice: str) -> Response[bytes]:
    """A server as clients read it, and the notice of what a change did besides."""
    row = from_json(await document_of(request, MCP_SERVERS, server_id))
    return raw(to_json({**open_config(api_of(request).sealer, row), **notice}))


def open_config(sealer: Sealer, server: dict[str, Any]) -> dict[str, Any]:
    """A server with its secrets open; one whose key is lost is empty."""

    def one(text: Any) -> Any:
        try:
            return sealer.open(text) if text else text
        except CannotOpen:
            return ""

    shown = dict(server)
    for field in ("server_url", "auth_token"):
        if is_sealed(shown.get(field) or ""):
            shown[field] = one(shown[field])
    for field in ("custom_headers", "env"):
        if shown.get(field):
            shown[field] = {name: one(value) for name, value in shown[field].items()}
    return shown


@patch(SERVER, "server", body=bodies.UpdateMCPServerRequest)
async def update_mcp_server(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """Change the given fields of an MCP server; its tools are discovered again, unless only its
    name changed."""
    body = await body_of(request, bodies.UpdateMCPServerRequest)
    notice = await change_server(request, mcp_server_id, body.server_name, body.config)
    return await answer_server(request, mcp_server_id, **notice)


async def change_server(
    request: AnyRequest, server_id: str, name: str | None, config: BaseModel
) -> dict[str, str]:
    """Change a server; returns the `notice` of credentials that did not go to its new address."""
    api = api_of(request)
    fields = seal_config(api.sealer, config)
    command = UpdateMcpServer(
        server_id=valid_id("mcp_server", server_id),
        name=name,
        changes=McpConfigChanges.model_validate(fields) if len(fields) > 1 else None,
    )
    dropped = (await api.send(request, command)).result.get("dropped")
    if not isinstance(dropped, list):
        return {}
    names = " and ".join(f"`{field}`" for field in dropped)
    return {"notice": f"{names} belonged to the old address: give them anew if this one has any"}


@delete(SERVER, "nothing", status_code=204)
async def delete_mcp_server(request: AnyRequest, mcp_server_id: str) -> None:
    """Delete an MCP server and its tools; agents have them no more."""
    command = DeleteMcpServer(server_id=valid_id("mcp_server", mcp_server_id))
    await api_of(request).send(request, command)


@patch(f"{SERVER}/refresh", "report", query=Refresh)
async def refresh_mcp_server(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """Discover the tools of an MCP server again; says what was deleted, updated and added. A tool
    that is defined otherwise than before is not called until its name comes as `accept`."""
    asked = query_of(request, Refresh)
    server_id = valid_id("mcp_server", mcp_server_id)
    return raw(to_json(await refresh(request, server_id, asked.accept)))


@get(f"{SERVER}/tools", "tools")
async def list_tools_of_mcp_server(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """List the tools of an MCP server."""
    known = await known_tools(request, mcp_server_id)
    queries = ToolQueries(api_of(request).reads, caller_of(request).user)
    return raw(await queries.by_ids(org_of(request), list(known.values())))


@get(f"{SERVER}/tools/{{tool_id:str}}", "tool")
async def retrieve_tool_of_mcp_server(
    request: AnyRequest, mcp_server_id: str, tool_id: str
) -> Response[bytes]:
    """Retrieve a tool of an MCP server."""
    await check_tool(request, mcp_server_id, tool_id)
    return await answer_document(request, TOOLS, tool_id)


async def check_tool(request: AnyRequest, server_id: str, tool_id: str) -> None:
    """Raises the 404 of a tool that a server does not have."""
    known = await known_tools(request, server_id)
    if valid_id("tool", tool_id) not in known.values():
        raise missing("tool", tool_id)


@post(
    f"{SERVER}/tools/{{tool_id:str}}/run",
    "what the tool returned",
    body=bodies.MCPToolExecuteRequest,
)
async def run_tool_of_mcp_server(
    request: AnyRequest, mcp_server_id: str, tool_id: str
) -> Response[bytes]:
    """Call a tool of an MCP server with the given arguments."""
    sent = await request.body()
    body = (
        await body_of(request, bodies.MCPToolExecuteRequest)
        if sent
        else bodies.MCPToolExecuteRequest()
    )
    await check_tool(request, mcp_server_id, tool_id)
    command = RunTool(
        tool_run_id=api_of(request).ids.new("tool_run"),
        tool_id=tool_id,
        arguments=body.args,
        seconds_max=RUN_SECONDS_MAX,
    )
    return raw(to_json(execution_result(await outcome(request, command))))


@get(f"{PATH}/connect/{{mcp_server_id:str}}", "events", streams=True)
async def connect_mcp_server(request: AnyRequest, mcp_server_id: str) -> Stream:
    """Try an MCP server, and tell what came of it as events."""
    server = from_json(await document_of(request, MCP_SERVERS, mcp_server_id))
    command = ListMcpTools(
        listing_id=api_of(request).ids.new("mcp_listing"),
        server_id=mcp_server_id,
        redirect_uri=callback_address(request),
    )
    return attempt(request, server["server_name"], command)


def attempt(request: AnyRequest, name: str, command: ListMcpTools) -> Stream:
    """The answer of a stream that tells how a connection is made."""

    async def events() -> AsyncGenerator[bytes]:
        yield event("connection_attempt", server_name=name)
        try:
            async with aclosing(progress_messages(request, command)) as messages:
                async for progress in messages:
                    if "event" in progress:
                        yield sent_event(progress)
                    elif "tools" in progress:
                        yield event(
                            "success", tools=[offered_tool(tool) for tool in progress["tools"]]
                        )
        except McpServerFailed as failed:
            words = failed.words
            if failed.kind == "unauthorized" and not command.redirect_uri:
                yield event("oauth_required", message="OAuth authentication required")
                words = f"{words}. {ADD_IT_FIRST}"
            yield event("error", message=f"Connection failed: {words}")
        except Problem as problem:
            yield event("error", message=str(problem.body.get("detail")))

    headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    return Stream(events(), media_type="text/event-stream; charset=utf-8", headers=headers)


def event(kind: str, **fields: Any) -> bytes:
    """One event of such a stream."""
    return sent_event({"event": kind, **fields})


def sent_event(fields: dict[str, Any]) -> bytes:
    """An event with these fields, as a stream sends it."""
    return b"data: %b\n\n" % to_json(fields)
