"""What asks MCP servers: the real one and the one of the tests keep the same contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp.ports import (
    McpFailed,
    McpOutcome,
    McpServerConfig,
    McpTool,
)
from tests.mcp_servers.asking import config, new_connections, served
from tests.unit.tools.mcp_world import InMemoryMcpConnections

AWAY = "http://127.0.0.1:1/mcp"


@pytest.fixture(params=["the SDK", "in memory"])
async def asked(
    request: pytest.FixtureRequest,
) -> AsyncIterator[Asked]:
    """The connections, and a server with the tools `echo` and `fail`."""
    if request.param == "in memory":
        memory = InMemoryMcpConnections()
        server = config("streamable_http", 2)
        there = memory.at(server.url)
        there.tools = [McpTool(name="echo"), McpTool(name="fail")]
        there.answer = lambda name, arguments: McpOutcome(
            status="error" if name == "fail" else "success",
            text="it failed" if name == "fail" else str(arguments["text"]),
        )
        yield memory, server
        return
    with served() as port:
        real = new_connections(connect_seconds=5.0, list_seconds=5.0)
        yield real, config("streamable_http", port)
        await real.close()


type Asked = tuple[McpConnections | InMemoryMcpConnections, McpServerConfig]


async def test_tools_are_listed_and_called(asked: Asked) -> None:
    connections, server = asked
    assert connections.refusal_of(server) == ""
    assert {"echo", "fail"} <= {tool.name for tool in await connections.list_tools(server)}
    said = await connections.call_tool(server, "echo", {"text": "Hello"}, seconds=5)
    assert (said.status, said.text) == ("success", "Hello")
    failed = await connections.call_tool(server, "fail", {}, seconds=5)
    assert (failed.status, failed.text) == ("error", "it failed")
    await connections.ping(server)
    assert connections.health(server.id).state == "healthy"


async def test_nobody_there_is_a_failure_in_words(asked: Asked) -> None:
    connections, _ = asked
    away = McpServerConfig(
        id="away", org="org", name="away", transport="streamable_http", version=1, url=AWAY
    )
    for asking in (
        connections.list_tools(away),
        connections.call_tool(away, "echo", {"text": ""}, seconds=5),
        connections.list_resources(away),
        connections.ping(away),
    ):
        with pytest.raises(McpFailed) as failed:
            await asking
        assert failed.value.kind == "unreachable"
        assert failed.value.words
        assert not failed.value.may_have_taken_effect


async def test_to_forget_is_safe_to_repeat_and_a_server_is_asked_again_after_it(
    asked: Asked,
) -> None:
    connections, server = asked
    await connections.forget("nobody")
    await connections.list_tools(server)
    for _ in range(2):
        await connections.forget(server.id)
    said = await connections.call_tool(server, "echo", {"text": "again"}, seconds=5)
    assert said.text == "again"
