"""Programs that may be MCP servers in the tests: scripted ones, those of npm and PyPI."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.mcp_servers.asking import PROGRAM, SCRIPT

CHECKOUT = Path(__file__).parents[2]
FOREIGN = Path(__file__).with_name("foreign")
MODULES = FOREIGN / "node_modules"
STARTS = ("crash", "hang", "garbage", "600")
# Where npm's are started from; the tests that need them see to it that they are there.
PACKAGE = MODULES / "@modelcontextprotocol"
NOT_HERE = "/nonexistent/node"
PYTHON = str(CHECKOUT / ".venv" / "bin" / "python")
TIME = (PYTHON, "-m", "mcp_server_time", "--local-timezone", "UTC")


def node() -> str:
    """The Node of the machine, or that of the wheel."""
    found = shutil.which("node", path=f"{os.environ['PATH']}{os.pathsep}{Path(PYTHON).parent}")
    return str(Path(found).resolve()) if found else NOT_HERE


def everything() -> tuple[str, ...]:
    """The server of npm that has one of everything, without its transport."""
    return (node(), str(PACKAGE / "server-everything" / "dist" / "index.js"))


def filesystem(shared: Path) -> tuple[str, ...]:
    """The server of npm that reads and writes files of a folder."""
    return (node(), str(PACKAGE / "server-filesystem" / "dist" / "index.js"), str(shared))


def write_list(folder: Path) -> Path:
    """The file of programs that may be started; `folder / "shared"` is open to one of them."""
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    script, modules = [str(SCRIPT.parent)], [str(MODULES)]
    commands: list[Mapping[str, Any]] = [
        {"argv": PROGRAM, "readable": script, "environment": ["KEY"]},
        *({"argv": (*PROGRAM, "--start", how), "readable": script} for how in STARTS),
        {"argv": (*everything(), "stdio"), "readable": modules},
        {"argv": filesystem(shared), "readable": modules, "writable": [str(shared)]},
        {"argv": TIME, "readable": [str(CHECKOUT / ".venv")]},
    ]
    path = folder / "commands.toml"
    # A list or a text of JSON is one of TOML.
    path.write_text(
        "".join(
            "[[command]]\n"
            + "".join(f"{name} = {json.dumps(value)}\n" for name, value in command.items())
            for command in commands
        )
    )
    return path
