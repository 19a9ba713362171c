"""Offers of MCP servers besides tools, and their health: asked of the server itself."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response
from pydantic import BaseModel, Field
from pydantic_core import to_json

from libs.contracts.letta.request_size_limits import JsonLimit
from libs.contracts.tools.mcp_servers import AskMcpServer, Question
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, body_of, query_of, valid_id
from services.api.openapi.operation import get, post
from services.api.resources.tools.mcp_discovery_waiting import (
    McpServerFailed,
    ask_server,
    connection_problem,
)
from services.api.resources.tools.mcp_servers import SERVER

NAME_CHARS_MAX = 2_048  # also of the address of a resource
ARGUMENTS_MAX = 64
ARGUMENT_CHARS_MAX = 16_384

type Word = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
type Argument = Annotated[str, Field(max_length=ARGUMENT_CHARS_MAX)]


class ResourceWanted(Query):
    """Which resource is read."""

    uri: Word


class PromptWanted(BaseModel):
    """Which prompt is made, and with what."""

    name: Word
    arguments: Annotated[dict[Word, Argument], Field(max_length=ARGUMENTS_MAX), JsonLimit()] = (
        Field(default_factory=dict)
    )


@get(f"{SERVER}/health", "how the server has fared")
async def retrieve_mcp_server_health(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """Ping an MCP server, and say how it has fared: `healthy`, `failing`, or `open` for one that is
    left alone until `open_until`."""
    return raw(to_json(await answer_question(request, mcp_server_id, "health")))


@get(f"{SERVER}/resources", "resources")
async def list_mcp_resources(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """List the resources that an MCP server offers."""
    return raw(to_json(await answer_question(request, mcp_server_id, "resources")))


@get(f"{SERVER}/resources/content", "the parts of a resource", query=ResourceWanted)
async def read_mcp_resource(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """Read a resource of an MCP server: each part is text, or bytes in base64."""
    asked = query_of(request, ResourceWanted)
    return raw(to_json(await answer_question(request, mcp_server_id, "resource", asked.uri)))


@get(f"{SERVER}/prompts", "prompts")
async def list_mcp_prompts(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """List the prompts that an MCP server offers."""
    return raw(to_json(await answer_question(request, mcp_server_id, "prompts")))


@post(f"{SERVER}/prompts", "the messages of a prompt", body=PromptWanted)
async def make_mcp_prompt(request: AnyRequest, mcp_server_id: str) -> Response[bytes]:
    """Have an MCP server make a prompt, with arguments."""
    body = await body_of(request, PromptWanted)
    made = await answer_question(request, mcp_server_id, "prompt", body.name, body.arguments)
    return raw(to_json(made))


async def answer_question(
    request: AnyRequest,
    server_id: str,
    question: Question,
    name: str = "",
    arguments: dict[str, str] | None = None,
) -> Any:
    """The answer of a server. Raises the response that its failure is."""
    command = AskMcpServer(
        listing_id=api_of(request).ids.new("mcp_listing"),
        server_id=valid_id("mcp_server", server_id),
        question=question,
        name=name,
        arguments=arguments or {},
    )
    try:
        return (await ask_server(request, command))["answer"]
    except McpServerFailed as failed:
        raise connection_problem(failed) from None
