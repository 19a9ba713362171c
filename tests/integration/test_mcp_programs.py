"""TOOL-07, S11, R30: MCP servers that are programs: only those that are listed, walled in, and gone
when they have ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.tools.adapters.mcp import server_processes
from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.adapters.process_sandbox import ProcessSandbox
from tests.mcp_servers.asking import (
    ANSWER_SECONDS,
    HERE,
    PROGRAM,
    PYTHON,
    SCRIPT,
    allowed,
    call,
    children_of_pools,
    config,
    failure,
    new_connections,
    said,
    served,
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as port:
        yield port


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[ProcessSandbox]:
    one = ProcessSandbox(idle_min=0)
    await one.start()
    if one.refusal:
        pytest.skip(one.refusal)
    yield one
    await one.close()


@pytest.fixture
async def connections(sandbox: ProcessSandbox) -> AsyncIterator[McpConnections]:
    seconds = {"connect_seconds": ANSWER_SECONDS, "list_seconds": ANSWER_SECONDS}
    commands = (allowed(environment=frozenset({"KEY"})), allowed("--start", "crash"))
    one = new_connections(HERE, sandbox, commands, **seconds)
    yield one
    await one.close()


@pytest.fixture
def program(connections: McpConnections) -> McpServerConfig:
    return config("stdio", 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"command": "/bin/sh", "args": ("-c", "touch /tmp/owned")},
        {"command": "python3"},
        {"command": f"/tmp/../{PYTHON}"},
        {"command": f"{PYTHON} "},
        {"args": ("-c", "print(1)")},
        {"args": (*PROGRAM[1:], "--pages", "endless")},
        {"args": PROGRAM[1:-1]},
        {"env": {"PATH": "/tmp"}},
        {"env": {"LD_PRELOAD": "/tmp/evil.so"}},
        {"env": {"PYTHONSTARTUP": "/tmp/evil.py"}},
        {"env": {"KEY": "a\0b"}},
    ],
)
async def test_nothing_is_started_that_is_not_listed_word_for_word(
    connections: McpConnections, program: McpServerConfig, changed: dict[str, Any]
) -> None:
    """S11: another command, other arguments, another environment, a trick with the path."""
    assert connections.refusal_of(program) == ""
    wanted = replace(program, **changed)
    assert connections.refusal_of(wanted)
    assert (await failure(connections, wanted, "echo")).kind == "refused"
    assert connections.processes.pools == {}


async def test_no_command_is_started_where_none_is_listed(port: int) -> None:
    """S11: off unless the operator lists commands; a server that is renamed stays refused."""
    nothing = new_connections()
    for name in ("one", "allowed"):
        assert "HEELER_MCP_COMMANDS" in nothing.refusal_of(config("stdio", port, name=name))
    await nothing.close()


async def test_a_program_is_walled_in(
    connections: McpConnections, program: McpServerConfig, port: int
) -> None:
    """TOOL-07: no network, no files but those that are granted, no secret of the environment."""
    assert (await call(connections, program, "connect", f"127.0.0.1:{port}")).status == "error"
    for path in ("/etc/shadow", str(Path(__file__)), "/proc/1/environ"):
        assert (await call(connections, program, "read", path)).status == "error", path
    assert (await call(connections, program, "write", str(SCRIPT))).status == "error"
    assert (await call(connections, program, "write", "/tmp/scratch")).status == "success"
    environment = json.loads(await said(connections, program, "environment", "*"))
    assert environment.keys() <= {"PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE"}
    assert json.loads(await said(connections, program, "process", ""))["sees"] <= 3


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that every user may write."""
    tmp_path.chmod(0o777)
    return tmp_path


async def test_a_program_has_the_folder_and_the_network_that_it_is_granted(
    sandbox: ProcessSandbox, shared: Path, port: int
) -> None:
    granted = {"writable": (str(shared),), "network": True}
    connections = new_connections(HERE, sandbox, (allowed(granted=granted),))
    server = config("stdio", port)
    assert (await call(connections, server, "write", str(shared / "file"))).status == "success"
    assert (shared / "file").read_text() == "written"
    connected = await call(connections, server, "connect", f"127.0.0.1:{port}")
    assert connected.text == "connected"
    await connections.close()


async def test_what_a_program_leaves_behind_ends_with_it(
    connections: McpConnections, program: McpServerConfig
) -> None:
    """R30: no child process is left, also none that left its session."""
    for _ in range(3):
        assert await said(connections, program, "fork", "") == "forked"
    assert len(children_of_pools(connections)) >= 4
    await connections.forget(program.id)
    assert children_of_pools(connections) == []


async def test_a_program_that_uses_too_much_memory_ends(
    sandbox: ProcessSandbox, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_processes, "LOOK_SECONDS", 0.05)
    connections = new_connections(HERE, sandbox, (allowed(memory_bytes=4 << 20),))
    with pytest.raises(McpFailed, match="more than 4 MiB of memory"):
        await connections.call_tool(config("stdio", port), "hang", {}, seconds=10)
    await connections.close()


async def test_a_program_that_crashes_in_its_start_says_why(
    connections: McpConnections, program: McpServerConfig
) -> None:
    crashing = replace(program, args=(*PROGRAM[1:], "--start", "crash"))
    failed = await failure(connections, crashing, "echo")
    assert failed.words.endswith("its process ended with status 1: it crashes in its start")
