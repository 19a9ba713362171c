"""An MCP server made with the official SDK, over streamable HTTP, whose tools a test changes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    InputRequiredResult,
    ListToolsResult,
    SamplingMessage,
    TextContent,
    Tool,
)
from starlette.applications import Starlette
from starlette.routing import Mount

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "which one"}},
    "required": ["city"],
}


class ChangingServer:
    """The server, what it offers, and what it was asked. `token` must come with each request, if
    there is one."""

    def __init__(self) -> None:
        self.tools: list[Tool] = [tool("forecast"), tool("alerts")]
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.token = ""
        self.url = ""

    async def list_tools(self, context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=self.tools)

    async def call_tool(self, context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if params.name == "ask":
            return asked(params.input_responses)
        arguments = dict(params.arguments or {})
        self.calls.append((params.name, arguments))
        if arguments.get("city") == "Atlantis":
            text = TextContent(type="text", text="there is no Atlantis")
            return CallToolResult(content=[text], is_error=True)
        text = TextContent(type="text", text=f"{params.name}: sun over {arguments.get('city')}")
        return CallToolResult(content=[text])

    def application(self) -> Starlette:
        """What is served at /mcp."""
        server: Any = Server("changing", on_list_tools=self.list_tools, on_call_tool=self.call_tool)
        manager = StreamableHTTPSessionManager(server)

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.headers.append(headers)
            if self.token and headers.get("authorization") != f"Bearer {self.token}":
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await manager.handle_request(scope, receive, send)

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> Any:
            async with manager.run():
                yield

        return Starlette(routes=[Mount("/mcp", app=serve)], lifespan=lifespan)


def asked(answers: Any) -> CallToolResult | InputRequiredResult:
    """What a tool says that has to ask a model first, as the later versions of MCP do it: by its
    answer, after which it is called again."""
    if answers:
        return CallToolResult(content=[answers["question"].content])
    question = SamplingMessage(role="user", content=TextContent(type="text", text="Hi"))
    params = CreateMessageRequestParams(messages=[question], max_tokens=5)
    request = CreateMessageRequest(params=params)
    return InputRequiredResult(input_requests={"question": request})


def tool(name: str, description: str = "", **schema: Any) -> Tool:
    """A tool as the server lists it."""
    described = description or f"Says the {name}."
    return Tool(name=name, description=described, input_schema={**SCHEMA, **schema})


@contextlib.contextmanager
def changing_server(port: int = 0) -> Iterator[ChangingServer]:
    """A server that runs in a thread of this process, at a port that is free if none is named."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        made = ChangingServer()
        made.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp/"
        config = uvicorn.Config(made.application(), log_level="error", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.should_exit = True
            thread.join(10)
