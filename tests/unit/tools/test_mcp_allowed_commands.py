"""S11: the list of commands that may be MCP servers is read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.contracts.environment_parsing import WrongSetting
from services.tools.adapters.mcp.allowed_commands import allowed_commands, match
from services.tools.adapters.mcp.ports import McpServerConfig
from services.tools.sandbox.mcp_server_confinement import Granted

FULL = """
[[command]]
argv = ["/usr/bin/node", "/opt/mcp/index.js", "stdio"]
environment = ["API_KEY"]
readable = ["/opt/mcp"]
writable = ["/srv/files"]
network = true
memory_mb = 64
processes = 8
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "commands.toml"
    path.write_text(text)
    return path


def test_nothing_is_allowed_unless_it_is_listed() -> None:
    assert allowed_commands({}) == ()


def test_every_field_is_read(tmp_path: Path) -> None:
    [one] = allowed_commands({"HEELER_MCP_COMMANDS": str(written(tmp_path, FULL))})
    assert one.argv == ("/usr/bin/node", "/opt/mcp/index.js", "stdio")
    assert one.environment == {"API_KEY"}
    assert one.granted == Granted(("/opt/mcp",), ("/srv/files",), True)
    assert (one.memory_bytes, one.processes) == (64 << 20, 8)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[command]]\nargv = ['node', 'x']", "absolute path of a program"),
        ("[[command]]\nargv = ['/usr/../bin/sh']", "absolute path of a program"),
        ("[[command]]\nargv = []", "absolute path of a program"),
        ("[[command]]\nargv = '/bin/true'", "argv must be a list"),
        ("[[command]]\nargv = ['/bin/true', 1]", "argv must be a list of texts"),
        ("[[command]]\nargv = ['/bin/true']\nshell = true", "there is no shell"),
        ("[[command]]\nargv = ['/bin/true']\nnetwork = 1", "network must be a bool"),
        ("[[command]]\nargv = ['/bin/true']\nmemory_mb = true", "memory_mb must be a int"),
        ("[[command]]\nargv = ['/bin/true']\nprocesses = 0", "processes must be a number"),
        ("[[command]]\nargv = ['/bin/true']\nwritable = ['/']", "not the root"),
        ("[[command]]\nargv = ['/bin/true']\nreadable = ['here']", "absolute paths"),
        ("[[command]]\nargv = ['/bin/true']\nenvironment = ['A=B']", "names of variables"),
        ("commands = []", r"must hold \[\[command\]\] tables"),
        ("nonsense", "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_field(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(WrongSetting, match=says):
        allowed_commands({"HEELER_MCP_COMMANDS": str(written(tmp_path, text))})


@pytest.mark.parametrize("field", ["readable", "writable"])
def test_a_path_that_is_not_there_is_named_with_its_field(tmp_path: Path, field: str) -> None:
    folder = tmp_path / "folder"
    text = f"[[command]]\nargv = ['/bin/true']\n{field} = ['{folder}']\n"
    allowed = allowed_commands({"HEELER_MCP_COMMANDS": str(written(tmp_path, text))})
    config = McpServerConfig(
        id="mcp_server-1",
        org="org-1",
        name="files",
        transport="stdio",
        version=1,
        command="/bin/true",
    )
    assert match(allowed, config) == (
        None,
        f"HEELER_MCP_COMMANDS: `{field}` of /bin/true names {folder}, which is not there: make it,"
        " or leave it out",
    )
    folder.mkdir()
    assert match(allowed, config) == (allowed[0], "")


def test_a_list_that_is_not_there_is_no_empty_list(tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="HEELER_MCP_COMMANDS"):
        allowed_commands({"HEELER_MCP_COMMANDS": str(tmp_path / "none")})
