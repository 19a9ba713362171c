"""Heeler as a server of the Model Context Protocol (MCP): the protocol is its official SDK's, the
tools are given.

Each request is answered by itself, with JSON, without a session: so any process can answer it. The
SDK is slow to import, and is imported when a client first asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.version import HEELER_VERSION

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

ANSWER_BYTES_MAX = 16 * 1024 * 1024
SDK = ("mcp.server.lowlevel", "mcp.server.streamable_http_manager")
# What a client is told of the server as a whole.
INSTRUCTIONS = (
    "Heeler keeps stateful agents: each has memory blocks that it edits itself, and a history of"
    " messages. Find an agent with list_agents, talk to it with send_message."
)


class ToolFailed(Exception):
    """A tool did not do what it was asked; the text says why, for the model that called it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool[Client]:
    """A tool that clients may call. `call` gets who calls and the arguments, which nobody has
    checked; it returns an object, or raises ToolFailed."""

    name: str
    description: str
    input_schema: JsonObject
    call: Callable[[Client, JsonObject], Awaitable[JsonObject]]
    reads_only: bool = False
    idempotent: bool = False
    destructive: bool = False


@dataclass(slots=True)
class HttpAnswer:
    """An answer, as it is sent in parts."""

    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    async def send(self, message: Any) -> None:
        """Keep one part of the answer. Raises ValueError for one too large."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
            return
        self.body += message.get("body", b"")
        if len(self.body) > ANSWER_BYTES_MAX:
            raise ValueError(f"an MCP answer is larger than {ANSWER_BYTES_MAX} bytes")


class McpEndpoint[Client]:
    """Offers tools. `client_of` makes of a request's scope what the tools are told of it."""

    def __init__(
        self, tools: Sequence[OfferedTool[Client]], client_of: Callable[[Any], Client]
    ) -> None:
        self.tools: Mapping[str, OfferedTool[Client]] = {tool.name: tool for tool in tools}
        self.client_of = client_of
        self.manager: StreamableHTTPSessionManager | None = None
        self.starting = asyncio.Lock()
        self.running: asyncio.Task[None] | None = None

    async def answer(self, scope: Any, receive: Any) -> HttpAnswer:
        """The answer to a POST. Cancelling it ends the call that it makes."""
        manager = await self.start_once()
        answer = HttpAnswer()
        await manager.handle_request(scope, receive, answer.send)
        return answer

    async def start_once(self) -> StreamableHTTPSessionManager:
        """Start what answers requests, unless it runs already; returns it."""
        async with self.starting:
            if self.manager is None:
                for module in SDK:
                    await asyncio.to_thread(import_module, module)
                manager, ready = self.new_manager(), asyncio.Event()
                self.running = asyncio.create_task(hold(manager, ready))
                await ready.wait()
                self.manager = manager
            return self.manager

    def new_manager(self) -> StreamableHTTPSessionManager:
        """The SDK's half: it reads requests, and asks for tools."""
        from mcp.server.lowlevel import Server
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        server: Server[Any] = Server(
            "heeler",
            version=HEELER_VERSION,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )
        return StreamableHTTPSessionManager(app=server, json_response=True, stateless=True)

    async def list_tools(self, context: Any, params: Any) -> Any:
        """The tools, as the protocol describes them."""
        from mcp_types import ListToolsResult, Tool, ToolAnnotations

        return ListToolsResult(
            tools=[
                Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.input_schema,
                    annotations=ToolAnnotations(
                        read_only_hint=tool.reads_only,
                        destructive_hint=tool.destructive,
                        idempotent_hint=tool.idempotent or tool.reads_only,
                        open_world_hint=False,
                    ),
                )
                for tool in self.tools.values()
            ]
        )

    async def call_tool(self, context: Any, params: Any) -> Any:
        """The answer of a tool; a refusal is an answer, too, so that a model can do better."""
        from mcp_types import CallToolResult, TextContent

        tool = self.tools.get(params.name)
        try:
            if tool is None:
                raise ToolFailed(f"There is no tool named '{params.name}'")
            client = self.client_of(context.request.scope)
            result = await tool.call(client, params.arguments or {})
        except ToolFailed as failed:
            return CallToolResult(
                content=[TextContent(type="text", text=str(failed))], is_error=True
            )
        text = to_json(result).decode()
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=result
        )

    async def close(self) -> None:
        """End all calls that are under way."""
        if self.running is not None:
            self.running.cancel()
            with suppress(asyncio.CancelledError):
                await self.running


async def hold(manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
    """Keep a manager at work until this is cancelled."""
    async with manager.run():
        ready.set()
        await asyncio.Event().wait()
