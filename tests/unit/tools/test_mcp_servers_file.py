"""TOOL-06: MCP servers that a file declares, applied at each start and no more than needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from libs.bus.in_memory import InMemoryBus
from libs.contracts.bus_messages import DEFAULT_ORG
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.tools.mcp_servers import DeleteMcpServer
from services.tools.adapters.mcp_servers_file import McpDeclarations, declarations
from services.tools.engine.mcp_declared_servers import DeclaredMcpServers
from tests.unit.tools.mcp_world import URL, McpProcess, McpWorld, create, tool

FILE = f"""
[servers.weather]
url = "{URL}"
auth_token = "canary-token"
headers = {{ X-Team = "a" }}

[servers.files]
command = "/usr/local/bin/mcp-files"
args = ["/srv"]
env = {{ KEY = "canary-env" }}
"""


@pytest.fixture
async def process() -> McpProcess:
    world = McpWorld()
    for place in (URL, "/usr/local/bin/mcp-files"):
        world.connections.at(place).tools = [tool(f"tool_of_{place[-5:]}")]
    made = McpProcess(world)
    bus = made.ports.bus
    assert isinstance(bus, InMemoryBus)
    await bus.serve("tools", made.shell.answer)
    return made


async def started(process: McpProcess, text: str, folder: Path) -> None:
    """The service has started with such a file."""
    path = folder / "mcp.toml"
    path.write_text(text)
    declared = declarations({"HEELER_MCP_CONFIG": str(path)})
    await DeclaredMcpServers(process.ports, declared).apply()
    await process.idle()


def rows(process: McpProcess) -> dict[str, Any]:
    return {str(row["name"]): row for row in process.world.schema.rows("mcp_servers")}


async def test_declared_servers_are_there_once_however_often_the_service_starts(
    process: McpProcess, tmp_path: Path
) -> None:
    for _ in range(3):
        await started(process, FILE, tmp_path)

    world, there = process.world, rows(process)
    assert {name: row["discovery"]["status"] for name, row in there.items()} == {
        "weather": "ready",
        "files": "ready",
    }
    assert all(row["declared"] and row["org"] == DEFAULT_ORG for row in there.values())
    assert set(world.tools()) == {"tool_of_m_mcp", "tool_of_files"}
    for row in there.values():
        assert world.story(row["id"]) == ["mcp_server.created", "mcp_server.tools_discovered"]
        assert "canary" not in str(
            [event.payload_json for event in world.schema.streams[row["id"]]]
        )
    stdio = next(config for config in world.connections.configs if config.transport == "stdio")
    assert (stdio.command, stdio.args, stdio.env) == (
        "/usr/local/bin/mcp-files", ("/srv",), {"KEY": "canary-env"},
    )  # fmt: skip
    http = next(config for config in world.connections.configs if config.transport != "stdio")
    assert http.transport == "streamable_http"
    assert http.headers == {"X-Team": "a", "Authorization": "Bearer canary-token"}


async def test_what_is_declared_otherwise_is_changed_and_what_is_gone_goes(
    process: McpProcess, tmp_path: Path
) -> None:
    await started(process, FILE, tmp_path)
    await process.done(create(process.world, "mine"), DEFAULT_ORG)
    before = rows(process)

    await started(process, f'[servers.weather]\nurl = "{URL}"', tmp_path)

    after = rows(process)
    assert set(after) == {"weather", "mine"}, "what clients made is not the file's"
    assert after["weather"]["id"] == before["weather"]["id"]
    assert process.world.connections.configs[-1].headers == {}
    await started(process, "", tmp_path)
    assert set(rows(process)) == {"mine"}


async def test_a_declared_server_may_ask_models_as_long_as_the_file_says_so(
    process: McpProcess, tmp_path: Path
) -> None:
    """TOOL-14: the switch is read again at each start."""
    allowed = FILE.replace("headers", "sampling = true\nheaders", 1)
    versions = []
    for text in (FILE, allowed, allowed, FILE):
        await started(process, text, tmp_path)
        row = rows(process)["weather"]
        assert row["sampling"] is (text == allowed)
        versions.append(row["version"])
    assert versions == [1, 2, 2, 3]
    assert rows(process)["files"]["sampling"] is False


async def test_a_declared_server_that_somebody_deleted_comes_back_with_the_next_start(
    process: McpProcess, tmp_path: Path
) -> None:
    await started(process, FILE, tmp_path)
    gone = rows(process)["weather"]["id"]
    await process.done(DeleteMcpServer(server_id=gone), DEFAULT_ORG)
    await started(process, FILE, tmp_path)

    assert rows(process)["weather"]["id"] != gone
    assert rows(process)["weather"]["discovery"]["status"] == "ready"


async def test_a_declared_server_whose_name_is_taken_is_said_and_the_others_are_there(
    process: McpProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await process.done(create(process.world, "weather"), DEFAULT_ORG)
    await started(process, FILE, tmp_path)

    assert set(rows(process)) == {"weather", "files"}
    assert "'weather' exists already" in caplog.text


def test_without_a_file_nothing_is_declared() -> None:
    assert declarations({}) == McpDeclarations(given=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[servers.x", "no TOML"),
        ("[server.x]\nurl = 'https://a.b'", "server"),
        ("[servers.x]\nurl = 'ftp://a.b'", "http://"),
        ("[servers.x]\nurl = 'https://a.b'\ntoken = 'canary'", "token"),
        ("[servers.x]\nargs = []", "servers.x"),
        ("[servers.x]\nurl = 'https://a.b'\ncommand = '/bin/x'", "not both"),
        ("[servers.x]\ntransport = 'stdio'\nurl = 'https://a.b'", "servers.x"),
        ("[servers.x]\nauth_token = 7\nurl = 'https://a.b'", "auth_token"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "mcp.toml"
    path.write_text(text)
    with pytest.raises(WrongSetting, match=words) as refused:
        declarations({"HEELER_MCP_CONFIG": str(path)})
    assert "HEELER_MCP_CONFIG" in str(refused.value)
    assert "canary" not in str(refused.value)
    with pytest.raises(WrongSetting, match="cannot be read"):
        declarations({"HEELER_MCP_CONFIG": str(tmp_path / "none")})
