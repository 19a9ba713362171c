"""What is asked for often answers at once: it imports nothing that takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIGHT_COMMANDS = (
    [],
    ["--help"],
    ["agents", "--help"],
    ["agents", "send", "--help"],
    ["blocks", "--help"],
    ["runs", "--help"],
    ["approvals", "--help"],
    ["remote", "--help"],
    ["remote", "list"],
)
HEAVY = {
    *("aiohttp", "anthropic", "asyncio", "deploy", "eventsourcing", "faststream", "httpx"),
    *("httpx2", "letta_client", "litestar", "nats", "openai", "psutil", "psycopg", "pydantic"),
    *("rich", "ruamel", "services", "tomlkit", "watchfiles"),
}
LAUNCHER = {"deploy", "psutil"}  # what `status` needs to look at processes
STATUS_COMMANDS = (["status"], ["status", "--json"], ["status", "--home", "/nowhere"])
MODULES_MAX = 220  # help has 170; with pydantic it would have 300, with an HTTP client 600
STATUS_MODULES_MAX = 260  # it has 240
ASK = """
import sys
from cli.__main__ import main
main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", LIGHT_COMMANDS, ids=" ".join)
def test_commands_that_say_little_import_little(arguments: list[str], tmp_path: Path) -> None:
    modules = modules_of(arguments, tmp_path)
    assert "cli.__main__" in modules
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert len(modules) <= MODULES_MAX


@pytest.mark.parametrize("arguments", STATUS_COMMANDS, ids=" ".join)
def test_status_imports_little(arguments: list[str], tmp_path: Path) -> None:
    modules = modules_of(arguments, tmp_path)
    assert "deploy.embedded.status" in modules
    assert not (HEAVY - LAUNCHER) & {name.partition(".")[0] for name in modules}
    assert len(modules) <= STATUS_MODULES_MAX


def modules_of(arguments: list[str], home: Path) -> list[str]:
    """The modules that are imported when a command has ended."""
    ended = subprocess.run(
        [sys.executable, "-c", ASK, *arguments],
        capture_output=True,
        text=True,
        env={"HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[3])},
        check=True,
    )
    return ended.stderr.splitlines()[-1].split()
