"""TOOL-07 to TOOL-11, TOOL-14, R30: MCP servers over every transport, good ones and bad ones."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from libs.bus.clock_and_ids import SystemClock
from libs.egress.address_guard import MCP_HOSTS, AddressGuard
from services.tools.adapters.mcp.circuit_breaker import FAILURES_MAX
from services.tools.adapters.mcp.connections import SdkConnections
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig, McpTransport
from services.tools.adapters.mcp.settings import McpDeadlines
from tests.mcp_servers.scripted import TOOLS

SCRIPT = Path(__file__).parents[1] / "mcp_servers" / "scripted.py"
PATHS = {"streamable_http": "/mcp", "sse": "/sse"}
HERE = AddressGuard(frozenset({"127.0.0.1"}), MCP_HOSTS)
CALL_SECONDS = 1.2
# What a deadline may be late by, on a busy machine.
LATE_SECONDS = 1.0


@contextmanager
def served(*arguments: str) -> Iterator[int]:
    """A server over HTTP, and its port."""
    command = [sys.executable, str(SCRIPT), "--http", *arguments]
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **streams) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as port:
        yield port


def config(transport: McpTransport, port: int, **fields: Any) -> McpServerConfig:
    url = f"http://127.0.0.1:{port}{PATHS[transport]}"
    told = {"id": "one", "org": "org", "name": "one", "version": 1, "url": url, **fields}
    return McpServerConfig(transport=transport, **told)


@pytest.fixture(params=["streamable_http", "sse"])
def server(request: pytest.FixtureRequest, port: int) -> McpServerConfig:
    return config(request.param, port)


def new_connections(guard: AddressGuard = HERE, **deadlines: float) -> SdkConnections:
    return SdkConnections(guard, McpDeadlines(**deadlines), SystemClock())


@pytest.fixture
async def connections() -> AsyncIterator[SdkConnections]:
    one = new_connections(connect_seconds=CALL_SECONDS, list_seconds=CALL_SECONDS)
    yield one
    await one.close()


async def said(connections: SdkConnections, server: McpServerConfig, tool: str, text: str) -> str:
    outcome = await connections.call_tool(server, tool, {"text": text}, seconds=CALL_SECONDS)
    return outcome.text


async def failure(
    connections: SdkConnections, server: McpServerConfig, tool: str, text: str = ""
) -> McpFailed:
    """How a call fails, which it does in its time."""
    began = time.monotonic()
    with pytest.raises(McpFailed) as failed:
        await said(connections, server, tool, text)
    assert time.monotonic() - began < CALL_SECONDS + LATE_SECONDS
    return failed.value


async def test_a_server_is_listed_page_by_page_and_its_tools_called(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    tools = await connections.list_tools(server)
    assert {one.name: one.description for one in tools} == TOOLS
    assert tools[0].input_schema["properties"] == {"text": {"type": "string"}}
    assert await said(connections, server, "echo", "héllo") == "héllo"
    assert connections.health("one").state == "healthy"


async def test_resources_and_prompts_are_offered(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    """TOOL-14: resources and prompts."""
    assert [one.uri for one in await connections.list_resources(server)] == ["memo://one"]
    [part] = await connections.read_resource(server, "memo://one")
    assert (part.uri, part.text) == ("memo://one", "read")
    [prompt] = await connections.list_prompts(server)
    assert (prompt.name, prompt.arguments[0].name) == ("greet", "who")
    [message] = await connections.get_prompt(server, "greet", {"who": "Ada"})
    assert (message.role, message.text) == ("user", "Greet Ada")


async def test_an_error_of_a_tool_is_what_the_call_came_to(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    outcome = await connections.call_tool(server, "fail", {}, seconds=CALL_SECONDS)
    assert (outcome.status, outcome.text) == ("error", "it failed")
    unknown = await connections.call_tool(server, "no such tool", {}, seconds=CALL_SECONDS)
    assert (unknown.status, "no such tool" in unknown.text) == ("error", True)
    assert connections.health("one").state == "healthy"


async def test_headers_of_the_configuration_are_sent(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    """TOOL-08: a bearer and custom headers."""
    told = replace(server, headers={"Authorization": "Bearer sesame", "X-Team": "blue"})
    headers = json.loads(await said(connections, told, "headers", ""))
    assert (headers["authorization"], headers["x-team"]) == ("Bearer sesame", "blue")


async def test_a_server_that_asks_for_a_model_is_refused_in_words(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    """TOOL-14: sampling."""
    assert "not supported" in await said(connections, server, "sample", "")


@pytest.mark.parametrize(
    ("tool", "kinds"),
    [
        ("hang", {"timeout"}),
        ("crash", {"unreachable", "timeout"}),
        ("garbage", {"protocol"}),
        ("large", {"too_large"}),
        ("notify", {"too_large"}),
    ],
)
async def test_a_call_that_goes_wrong_ends_in_its_time_and_the_server_is_asked_again(
    connections: SdkConnections, server: McpServerConfig, tool: str, kinds: set[str]
) -> None:
    """R30: crash in a call, hang, garbage, 100 MB, notifications without end."""
    failed = await failure(connections, server, tool)
    assert failed.kind in kinds
    assert failed.may_have_taken_effect
    assert await said(connections, server, "echo", "still here") == "still here"


async def test_a_call_that_hangs_does_not_hold_up_another(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    hanging = asyncio.create_task(failure(connections, server, "hang"))
    began = time.monotonic()
    for number in range(20):
        assert await said(connections, server, "echo", str(number)) == str(number)
    assert time.monotonic() - began < CALL_SECONDS
    assert (await hanging).kind == "timeout"
    assert connections.health("one").failures == 0, "it answers, and was only too slow"


async def test_a_call_is_not_sent_twice_though_its_connection_is_lost(
    connections: SdkConnections, port: int
) -> None:
    """TOOL-09: the answer is asked for again, by the id of the last event."""
    assert await said(connections, config("streamable_http", port), "resume", "") == "resumed"


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
@pytest.mark.parametrize(
    ("start", "kinds"),
    [
        ("crash", {"unreachable", "timeout"}),
        ("hang", {"timeout"}),
        ("garbage", {"unreachable", "protocol", "timeout"}),
        ("600", {"timeout"}),
    ],
)
async def test_a_server_that_does_not_say_hello_is_given_up_in_time(
    connections: SdkConnections, transport: McpTransport, start: str, kinds: set[str]
) -> None:
    """R30: crash in start, hang, garbage, a start of ten minutes."""
    if (transport, start) == ("sse", "garbage"):
        pytest.skip("over SSE it is a call that says garbage")
    with served("--start", start) as port:
        failed = await failure(connections, config(transport, port), "echo")
    assert failed.kind in kinds
    assert not failed.may_have_taken_effect


@pytest.mark.parametrize("pages", ["endless", "same"])
async def test_a_list_without_an_end_is_given_up(connections: SdkConnections, pages: str) -> None:
    with served("--pages", pages) as port, pytest.raises(McpFailed) as failed:
        await connections.list_tools(config("streamable_http", port))
    assert failed.value.kind == "too_large"


async def test_nobody_there_is_tried_a_few_times_and_then_left_alone(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    """TOOL-08: after failures in a row nobody is asked for a while."""
    away = replace(server, url="http://127.0.0.1:1/")
    for _ in range(FAILURES_MAX):
        with pytest.raises(McpFailed) as failed:
            await connections.list_tools(away)
        assert failed.value.kind in ("unreachable", "timeout")
    assert connections.health("one").state == "open"
    began = time.monotonic()
    with pytest.raises(McpFailed) as failed:
        await connections.list_tools(away)
    assert (failed.value.kind, time.monotonic() - began < 0.2) == ("breaker_open", True)
    assert await said(connections, replace(server, version=2), "echo", "new") == "new"
    assert connections.health("one").state == "healthy"


async def test_a_server_that_comes_back_is_found_again(connections: SdkConnections) -> None:
    """TOOL-11: a dead server is noticed, and one that is back is used."""
    with served() as port:
        there = config("streamable_http", port)
        assert await said(connections, there, "echo", "one") == "one"
    assert (await failure(connections, there, "echo")).kind == "unreachable"
    assert connections.health("one").state == "failing"
    with served("--port", str(port)):
        assert await said(connections, there, "echo", "two") == "two"


async def test_a_login_that_is_refused_is_said_and_not_shown(connections: SdkConnections) -> None:
    with served("--token", "right") as port:
        for transport in ("streamable_http", "sse"):
            wrong = config(transport, port, headers={"Authorization": "Bearer wrong-secret"})
            failed = await failure(connections, replace(wrong, id=transport), "echo")
            assert failed.kind == "unauthorized"
            assert "wrong-secret" not in failed.words
            right = config(transport, port, headers={"Authorization": "Bearer right"}, version=2)
            assert await said(connections, replace(right, id=transport), "echo", "in") == "in"


async def test_an_organisation_that_asks_for_everything_leaves_room_for_others(
    connections: SdkConnections, port: int
) -> None:
    greedy = [
        connections.call_tool(
            config("streamable_http", port, id=f"server-{number % 20}"), "hang", {}, seconds=3
        )
        for number in range(300)
    ]
    tasks = [asyncio.create_task(one) for one in greedy]  # type: ignore[arg-type]
    await asyncio.sleep(0.5)
    other = config("streamable_http", port, id="other", org="another")
    assert await said(connections, other, "echo", "me too") == "me too"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_hundred_servers_at_once(port: int) -> None:
    """TOOL-18: each with a session of its own."""
    connections = new_connections()
    servers = [config("streamable_http", port, id=f"server-{number}") for number in range(100)]
    calls = [connections.call_tool(one, "echo", {"text": one.id}, seconds=30) for one in servers]
    assert [outcome.text for outcome in await asyncio.gather(*calls)] == [one.id for one in servers]
    assert len(connections.pool.sessions) == 100
    await connections.close()


async def test_a_server_that_is_forgotten_is_known_no_more(
    connections: SdkConnections, server: McpServerConfig
) -> None:
    await said(connections, server, "echo", "one")
    await connections.forget("one")
    assert connections.pool.sessions == {}
    assert connections.health("one").state == "unknown"
    await connections.forget("one")


async def test_private_addresses_are_asked_only_where_they_are_listed(port: int) -> None:
    """S10: the host that is listed works, its neighbour does not; S09: nor behind a redirect."""
    listed = new_connections(AddressGuard(frozenset({f"127.0.0.1:{port}"}), MCP_HOSTS))
    here = config("streamable_http", port)
    assert await said(listed, here, "echo", "here") == "here"
    with served() as neighbour:
        there = config("streamable_http", neighbour, id="two")
        assert "HEELER_MCP_HOSTS" in listed.refused(there)
        assert (await failure(listed, there, "echo")).kind == "refused"
        named = replace(there, url=f"http://localhost:{neighbour}/mcp")
        assert not listed.refused(named), "a name is looked up when it is asked"
        assert (await failure(listed, named, "echo")).kind == "refused"
        with served("--to", f"http://127.0.0.1:{neighbour}/mcp") as redirecting:
            both = new_connections(AddressGuard(frozenset({f"127.0.0.1:{redirecting}"}), MCP_HOSTS))
            leads = replace(here, url=f"http://127.0.0.1:{redirecting}/redirect")
            assert (await failure(both, leads, "echo")).kind in ("protocol", "refused")
            await both.close()
    await listed.close()


@pytest.mark.parametrize("headers", [{"X-Key": "two\nlines"}, {"X-Key": "ключ"}, {"": "nameless"}])
async def test_a_header_that_cannot_be_sent_is_refused_at_once(
    connections: SdkConnections, server: McpServerConfig, headers: dict[str, str]
) -> None:
    assert "header" in connections.refused(replace(server, headers=headers))


async def test_no_command_is_started_unless_it_is_listed(connections: SdkConnections) -> None:
    """S11: off unless the operator lists commands."""
    stdio = McpServerConfig(
        id="one", org="org", name="one", transport="stdio", version=1, command="/bin/true"
    )
    assert connections.refused(stdio)
    assert (await failure(connections, stdio, "echo")).kind == "refused"
