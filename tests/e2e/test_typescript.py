"""The same server from TypeScript: both generations of the client, as npm has them.

The tests themselves are in `tests/e2e/typescript`, one node:test file for each subject.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import HeelerInstance

FOLDER = Path(__file__).parent / "typescript"
LOCK = FOLDER / "package-lock.json"
INSTALLED = FOLDER / "node_modules" / ".heeler-lock"
NODE_OLDEST = 20
INSTALL_SECONDS_MAX = 240
FILE_SECONDS_MAX = 240
MODERN = "TypeScript 1.12.1"
LEGACY = "TypeScript 0.0.68665"

AGENTS = [
    "POST /v1/agents/",
    "GET /v1/agents/",
    "GET /v1/agents/{agent_id}",
    "PATCH /v1/agents/{agent_id}",
    "DELETE /v1/agents/{agent_id}",
]
BLOCKS = [
    "POST /v1/blocks/",
    "GET /v1/blocks/",
    "GET /v1/blocks/{block_id}",
    "PATCH /v1/blocks/{block_id}",
    "DELETE /v1/blocks/{block_id}",
    "GET /v1/agents/{agent_id}/core-memory/blocks",
    "GET /v1/agents/{agent_id}/core-memory/blocks/{block_label}",
    "PATCH /v1/agents/{agent_id}/core-memory/blocks/{block_label}",
    "PATCH /v1/agents/{agent_id}/core-memory/blocks/attach/{block_id}",
    "PATCH /v1/agents/{agent_id}/core-memory/blocks/detach/{block_id}",
]
MESSAGES = [
    "POST /v1/agents/{agent_id}/messages",
    "POST /v1/agents/{agent_id}/messages/stream",
    "GET /v1/agents/{agent_id}/messages",
]
RUNS = ["GET /v1/runs/", "GET /v1/runs/{run_id}", "GET /v1/models/", "GET /v1/health/"]


def proves(file: str, operations: list[str], client: str) -> Any:
    """A file of tests, and the operations of which it says that they work with this client."""
    marks = [pytest.mark.operation(name, client=client) for name in operations]
    return pytest.param(file, marks=marks, id=file.removesuffix(".test.mjs"))


FILES = [
    proves("agents.test.mjs", AGENTS, MODERN),
    proves("blocks.test.mjs", [*BLOCKS, "GET /v1/blocks/{block_id}/agents"], MODERN),
    proves("messages.test.mjs", MESSAGES, MODERN),
    proves(
        "runs.test.mjs",
        [*RUNS, "GET /v1/runs/{run_id}/usage", "GET /v1/models/embedding"],
        MODERN,
    ),
    proves(
        "legacy.test.mjs",
        [
            *(*AGENTS, *BLOCKS, *MESSAGES, *RUNS),
            "GET /v1/agents/count",
            "GET /v1/blocks/count",
            "GET /v1/agents/{agent_id}/core-memory",
            "GET /v1/runs/active",
            "GET /v1/models/embeddings",
        ],
        LEGACY,
    ),
]


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
        f"NO TYPESCRIPT TESTS: neither Node {NODE_OLDEST} nor newer is here, nor its wheel"
        " (uv sync --group typescript)"
    )


def version_of(node: str) -> int:
    """The major version, 0 if it does not start."""
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().removeprefix("v").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def is_installed() -> bool:
    """Whether what is installed is what the lockfile says."""
    return INSTALLED.exists() and INSTALLED.read_text() == LOCK.read_text()


@pytest.fixture(scope="module")
def node() -> Node:
    """Node with both clients installed, exactly as locked and without running their scripts."""
    found = find_node()
    if is_installed():
        return found
    asked = npm(found, "view", "@letta-ai/letta-client@1.12.1", "version", "--fetch-retries=1")
    if asked.returncode:
        pytest.skip(f"NO TYPESCRIPT TESTS: the npm registry does not answer: {asked.stderr[-500:]}")
    done = npm(found, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    assert done.returncode == 0, f"npm ci failed:\n{done.stderr}"
    shutil.copy(LOCK, INSTALLED)
    return found


def npm(found: Node, *words: str) -> subprocess.CompletedProcess[str]:
    """What npm says in the folder of the tests."""
    return subprocess.run(
        [found.npm, *words],
        cwd=FOLDER,
        env=found.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_SECONDS_MAX,
    )


@pytest.mark.timeout(INSTALL_SECONDS_MAX + FILE_SECONDS_MAX)
@pytest.mark.parametrize("file", FILES)
def test_typescript(heeler: HeelerInstance, node: Node, file: str) -> None:
    done = subprocess.run(
        [node.node, "--test", "--test-reporter=spec", file],
        cwd=FOLDER,
        env={**node.environment, "HEELER_TEST_URL": heeler.base_url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=FILE_SECONDS_MAX,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "skipped 0" in done.stdout


def test_every_typescript_file_is_run() -> None:
    listed = {file.values[0] for file in FILES}

    assert listed == {path.name for path in FOLDER.glob("*.test.mjs")}
