"""The same server from TypeScript: both generations of the client, as npm has them.

The tests themselves are in `tests/e2e/typescript`, one node:test file for each subject.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.e2e.node import FOLDER, INSTALL_SECONDS_MAX, LEGACY, MODERN, Node
from tests.servers import HeelerInstance

FILE_SECONDS_MAX = 240

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
    "POST /v1/agents/{agent_id}/messages/async",
    "POST /v1/agents/{agent_id}/messages/cancel",
    "POST /v1/agents/{agent_id}/messages",
    "POST /v1/agents/{agent_id}/messages/stream",
    "GET /v1/agents/{agent_id}/messages",
]
ARCHIVES = [
    "POST /v1/archives/",
    "GET /v1/archives/",
    "GET /v1/archives/{archive_id}",
    "PATCH /v1/archives/{archive_id}",
    "DELETE /v1/archives/{archive_id}",
    "POST /v1/archives/{archive_id}/passages",
    "POST /v1/archives/{archive_id}/passages/batch",
    "DELETE /v1/archives/{archive_id}/passages/{passage_id}",
    "POST /v1/passages/search",
    "POST /v1/agents/{agent_id}/archival-memory",
    "GET /v1/agents/{agent_id}/archival-memory",
    "GET /v1/agents/{agent_id}/archival-memory/search",
    "DELETE /v1/agents/{agent_id}/archival-memory/{memory_id}",
    "PATCH /v1/agents/{agent_id}/archives/attach/{archive_id}",
    "PATCH /v1/agents/{agent_id}/archives/detach/{archive_id}",
]
FOLDERS = [
    "POST /v1/folders/",
    "GET /v1/folders/",
    "GET /v1/folders/{folder_id}",
    "PATCH /v1/folders/{folder_id}",
    "DELETE /v1/folders/{folder_id}",
    "POST /v1/folders/{folder_id}/upload",
    "GET /v1/folders/{folder_id}/files",
    "GET /v1/folders/{folder_id}/files/{file_id}",
    "DELETE /v1/folders/{folder_id}/{file_id}",
    "GET /v1/folders/{folder_id}/agents",
    "GET /v1/agents/{agent_id}/folders",
    "PATCH /v1/agents/{agent_id}/folders/attach/{folder_id}",
    "PATCH /v1/agents/{agent_id}/folders/detach/{folder_id}",
    "GET /v1/agents/{agent_id}/files",
    "PATCH /v1/agents/{agent_id}/files/close-all",
    "PATCH /v1/agents/{agent_id}/files/{file_id}/open",
    "PATCH /v1/agents/{agent_id}/files/{file_id}/close",
]
LEGACY_MEMORY = [
    "POST /v1/archives/",
    "GET /v1/archives/",
    "PATCH /v1/archives/{archive_id}",
    "POST /v1/agents/{agent_id}/archival-memory",
    "GET /v1/agents/{agent_id}/archival-memory",
    "GET /v1/agents/{agent_id}/archival-memory/search",
    "DELETE /v1/agents/{agent_id}/archival-memory/{memory_id}",
    *(
        operation.replace("folder", kind)
        for kind in ("folder", "source")
        for operation in (
            "POST /v1/folders/",
            "GET /v1/folders/",
            "GET /v1/folders/count",
            "GET /v1/folders/metadata",
            "GET /v1/folders/name/{folder_name}",
            "GET /v1/folders/{folder_id}",
            "PATCH /v1/folders/{folder_id}",
            "DELETE /v1/folders/{folder_id}",
            "POST /v1/folders/{folder_id}/upload",
            "GET /v1/folders/{folder_id}/files",
            "DELETE /v1/folders/{folder_id}/{file_id}",
            "GET /v1/folders/{folder_id}/passages",
            "GET /v1/folders/{folder_id}/agents",
            "GET /v1/agents/{agent_id}/folders",
            "PATCH /v1/agents/{agent_id}/folders/attach/{folder_id}",
            "PATCH /v1/agents/{agent_id}/folders/detach/{folder_id}",
        )
    ),
    "GET /v1/sources/{source_id}/files/{file_id}",
    "GET /v1/agents/{agent_id}/files",
    "PATCH /v1/agents/{agent_id}/files/close-all",
    "PATCH /v1/agents/{agent_id}/files/{file_id}/open",
    "PATCH /v1/agents/{agent_id}/files/{file_id}/close",
]
RUNS = ["GET /v1/runs/", "GET /v1/runs/{run_id}", "GET /v1/models/", "GET /v1/health/"]


def proves(file: str, operations: list[str], client: str) -> Any:
    """A file of tests, and the operations of which it says that they work with this client."""
    marks = [pytest.mark.operation(name, client=client) for name in operations]
    return pytest.param(file, marks=marks, id=file.removesuffix(".test.mjs"))


FILES = [
    proves("agents.test.mjs", AGENTS, MODERN),
    proves("blocks.test.mjs", [*BLOCKS, "GET /v1/blocks/{block_id}/agents"], MODERN),
    proves("archives.test.mjs", ARCHIVES, MODERN),
    proves("folders.test.mjs", FOLDERS, MODERN),
    proves("legacy_memory.test.mjs", LEGACY_MEMORY, LEGACY),
    proves("messages.test.mjs", [*MESSAGES, "POST /v1/messages/search"], MODERN),
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
