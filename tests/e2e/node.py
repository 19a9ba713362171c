"""Node, and in it what npm has of Letta: both generations of the TypeScript client, Letta Code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "typescript"
LETTA_CODE = Path(__file__).parent / "letta_code"
PROBE = "@letta-ai/letta-client@1.12.1"  # is asked for first, to know whether npm answers
NODE_OLDEST = 20
INSTALL_SECONDS_MAX = 240
# Instead of 10 s and 60 s between the tries for each package, which no test waits for.
RETRIES = ("--prefer-offline", "--fetch-retry-mintimeout=1000", "--fetch-retry-factor=2")
INSTALLS_MAX = 3  # npm keeps what it got: after a moment without the registry it goes on
MODERN = "TypeScript 1.12.1"
LEGACY = "TypeScript 0.0.68665"


@dataclass(frozen=True)
class Node:
    """Programs that are new enough."""

    node: str
    npm: str

    @property
    def environment(self) -> dict[str, str]:
        """npm starts the node that it finds first."""
        return {**os.environ, "PATH": f"{Path(self.node).parent}{os.pathsep}{os.environ['PATH']}"}


def find_node() -> Node:
    """The machine's, else the one that `deploy/bootstrap.sh --dev` took from a wheel."""
    for folder in (os.environ.get("PATH"), sysconfig.get_path("scripts")):
        node, npm = shutil.which("node", path=folder), shutil.which("npm", path=folder)
        if node and npm and version_of(node) >= NODE_OLDEST:
            return Node(node, npm)
    pytest.skip(
        f"NO TESTS WITH NODE: neither Node {NODE_OLDEST} nor newer is here, nor its wheel"
        " (uv sync --group typescript)"
    )


def version_of(node: str) -> int:
    """The major version, 0 if it does not start."""
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().removeprefix("v").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def npm(found: Node, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What npm says in this folder."""
    return subprocess.run(
        [found.npm, *words],
        cwd=folder,
        env=found.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_SECONDS_MAX,
    )


def installed(folder: Path = FOLDER) -> Node:
    """Node with the packages of a folder, exactly as locked and without running their scripts."""
    found = find_node()
    lock, done_before = folder / "package-lock.json", folder / "node_modules" / ".heeler-lock"
    if done_before.exists() and done_before.read_text() == lock.read_text():
        return found
    asked = npm(found, folder, "view", PROBE, "version", "--fetch-retries=1")
    if asked.returncode:
        pytest.skip(f"NO TESTS WITH NODE: the npm registry does not answer: {asked.stderr[-500:]}")
    for _ in range(INSTALLS_MAX):
        done = npm(found, folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *RETRIES)
        if done.returncode == 0:
            break
    assert done.returncode == 0, f"npm ci failed:\n{done.stderr}"
    shutil.copy(lock, done_before)
    return found
