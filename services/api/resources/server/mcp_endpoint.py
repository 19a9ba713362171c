"""The endpoint at which other programs use Heeler's own tools over MCP (streamable HTTP)."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Response

from services.api.adapters.server.mcp_endpoint_protocol import HttpAnswer, McpEndpoint
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest
from services.api.openapi.operation import post

PATH = "/mcp"


@post(PATH, "a JSON-RPC answer of MCP")
async def mcp(request: AnyRequest) -> Response[bytes]:
    """Answer one request of an MCP client; the tools are those of `tools/list`."""
    end_turn(request.scope["state"])  # the requests that a tool makes have turns of their own
    server: McpEndpoint[Any] = request.app.state.mcp_endpoint
    call = server.answer(request.scope, replay(await request.body()))
    return response(await unless_hung_up(request, call))


def replay(body: bytes) -> Any:
    """The messages for the protocol's half: the body, which has come, and then nothing."""
    parts = [body]

    async def receive() -> Any:
        if not parts:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(), "more_body": False}

    return receive


def response(answer: HttpAnswer) -> Response[bytes]:
    """An answer, as this server sends one."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
    headers.pop("content-length", None)
    kind = headers.pop("content-type", "application/json")
    return Response(bytes(answer.body), status_code=answer.status, headers=headers, media_type=kind)
