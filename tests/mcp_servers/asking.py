"""MCP servers that tests start, and how they are asked."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from libs.bus.clock_and_ids import SystemClock
from libs.egress.address_guard import MCP_HOSTS, AddressGuard
from services.tools.adapters.mcp import client_operations, session  # noqa: F401, before any deadline
from services.tools.adapters.mcp.allowed_commands import AllowedCommand
from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp.deadlines import McpDeadlines
from services.tools.adapters.mcp.ports import (
    McpFailed,
    McpOutcome,
    McpServerConfig,
    McpTransport,
)
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.adapters.process_usage import usage_of
from services.tools.sandbox.mcp_server_confinement import Granted

SCRIPT = Path(__file__).with_name("scripted.py")
PYTHON = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
PROGRAM = (PYTHON, str(SCRIPT), "--stdio")
PATHS = {"streamable_http": "/mcp", "sse": "/sse"}
HERE = AddressGuard(frozenset({"127.0.0.1"}), MCP_HOSTS)
# How long a call may take that is to fail by its deadline, and one that is to be answered, or to
# fail otherwise.
CALL_SECONDS = 1.2
ANSWER_SECONDS = 20.0
# What a deadline may be late by (R30).
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


def config(transport: McpTransport, port: int, **fields: Any) -> McpServerConfig:
    told = {"id": "one", "org": "org", "name": "one", "version": 1, **fields}
    if transport == "stdio":
        return McpServerConfig(transport=transport, command=PYTHON, args=PROGRAM[1:], **told)
    url = f"http://127.0.0.1:{port}{PATHS[transport]}"
    return McpServerConfig(transport=transport, url=url, **told)


def allowed(*arguments: str, **fields: Any) -> AllowedCommand:
    """The script as a program that the operator listed."""
    granted = Granted(readable=(str(SCRIPT.parent),), **fields.pop("granted", {}))
    return AllowedCommand((*PROGRAM, *arguments), granted=granted, **fields)


def new_connections(
    guard: AddressGuard = HERE,
    sandbox: ProcessSandbox | None = None,
    commands: tuple[AllowedCommand, ...] = (),
    **deadlines: float,
) -> McpConnections:
    bounds = McpDeadlines(**deadlines)
    return McpConnections(guard, bounds, SystemClock(), commands=commands, sandbox=sandbox)


async def said(connections: McpConnections, server: McpServerConfig, tool: str, text: str) -> str:
    outcome = await connections.call_tool(server, tool, {"text": text}, seconds=ANSWER_SECONDS)
    return outcome.text


async def answers(connections: McpConnections, server: McpServerConfig) -> bool:
    """Whether a server answers, perhaps in a session that begins now."""
    with suppress(McpFailed):
        return await said(connections, server, "echo", "still here") == "still here"
    return False


async def failure(
    connections: McpConnections,
    server: McpServerConfig,
    tool: str,
    text: str = "",
    *,
    seconds: float = ANSWER_SECONDS,
) -> McpFailed:
    """How a call fails, which it does in its time."""
    began = time.monotonic()
    with pytest.raises(McpFailed) as failed:
        await connections.call_tool(server, tool, {"text": text}, seconds=seconds)
    assert time.monotonic() - began < seconds + LATE_SECONDS
    return failed.value


async def call(
    connections: McpConnections, server: McpServerConfig, tool: str, text: str
) -> McpOutcome:
    return await connections.call_tool(server, tool, {"text": text}, seconds=ANSWER_SECONDS)


def children_of_pools(connections: McpConnections) -> list[int]:
    """What runs below the processes that start servers."""
    spawners = [pool.spawner for pool in connections.processes.pools.values() if pool.spawner]
    return [
        pid
        for spawner in spawners
        for pid in usage_of(spawner.process.pid).pids
        if pid != spawner.process.pid
    ]
