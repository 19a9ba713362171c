"""Processes that die in the midst of an import: the import ends as if they had not."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.asking import MODEL, SDK_HEADERS, SECONDS_MAX, says, unique
from tests.e2e.conftest import Fragile
from tests.e2e.test_agent_imports import exported, texts
from tests.waiting import wait_for

# Where a process of the api, the memory service or the agent service dies.
POINTS = (
    "after_commit.import.requested",
    "import.validated",
    "before_commit.import.validated",
    "after_commit.archive.created",
    "after_commit.passage.created",
    "import.after_memory",
    "before_commit.agent.created",
    "after_commit.agent.created",
    "import.transferred",
    "before_commit.import.completed",
)
UNDO_POINTS = ("before_commit.import.undone", "after_commit.passage.deleted")
# Each takes seconds, in which processes start: by default a few that are far apart.
ALL_OF_THEM = "HEELER_ALL_CRASH_POINTS" in os.environ
DOSE = POINTS if ALL_OF_THEM else ("after_commit.passage.created", "after_commit.agent.created")
UNDO_DOSE = UNDO_POINTS if ALL_OF_THEM else UNDO_POINTS[1:]


def asked(http: httpx.Client, method: str, path: str, **how: Any) -> Any:
    """The JSON of an answer, None while the api is away or there is none."""
    try:
        answer = http.request(method, path, **how)
    except httpx.TransportError:
        return None
    return answer.json() if answer.status_code < 300 else None


def begin_import(http: httpx.Client, file: bytes, key: str, **fields: str) -> Any:
    """Have a file imported, in the background; the same request may be sent again."""
    return asked(
        http,
        "POST",
        "/v1/agents/import",
        headers={"idempotency-key": key},
        params={"background": "true", **fields},
        files={"file": ("agent.heeler.gz", file)},
    )


async def ended(http: httpx.Client, file: bytes, **fields: str) -> Any:
    """The import of a file when it has ended, whatever dies meanwhile."""
    key = unique("import")
    begun = await wait_for("an import", lambda: begin_import(http, file, key, **fields), 60)

    def at_its_end() -> Any:
        found = asked(http, "GET", f"/v1/imports/{begun['id']}")
        return found if found and found["completed_at"] else None

    return await wait_for("the end of the import", at_its_end, 90)


def agent_with_a_fact(http: httpx.Client) -> str:
    """The path of an agent that was spoken to and has a passage."""
    body = {
        "name": unique("crash"),
        "model": MODEL,
        "memory_blocks": [{"label": "human", "value": "Name: Ada"}],
    }
    path = f"/v1/agents/{http.post('/v1/agents', json=body).json()['id']}"
    http.post(f"{path}/messages", json={"messages": says("Hello")}).raise_for_status()
    http.post(f"{path}/archival-memory", json={"text": "A fact."}).raise_for_status()
    return path


def words(http: httpx.Client, path: str) -> list[str] | None:
    """What was said to an agent, and what it knows."""
    messages = asked(http, "GET", f"{path}/messages")
    passages = asked(http, "GET", f"{path}/archival-memory")
    if messages is None or passages is None:
        return None
    return [*map(texts, messages), *(passage["text"] for passage in passages)]


async def test_an_import_whose_processes_die_is_whole_or_nothing(fragile: Fragile) -> None:
    failpoints, base_url = fragile.failpoints, fragile.heeler.base_url
    with httpx.Client(base_url=base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX) as http:
        path = agent_with_a_fact(http)
        file, said = exported(http, path.rpartition("/")[2]), words(http, path)
        for point in DOSE:
            (failpoints / point).touch()
            found = await ended(http, file)
            assert not (failpoints / point).exists(), f"a process died at {point}"
            assert found["status"] == "completed", (point, found)
            [copy] = found["agent_ids"]
            heard = await wait_for("its words", partial(words, http, f"/v1/agents/{copy}"))
            assert heard == said, point
        await fail_and_count(http, failpoints, file)


async def fail_and_count(http: httpx.Client, failpoints: Path, file: bytes) -> None:
    """An import that fails when its agent is there leaves nothing, whatever dies as it is taken
    back."""
    counts = ("/v1/agents/count", "/v1/blocks/count")
    before = [asked(http, "GET", path) for path in counts]
    for point in UNDO_DOSE:
        (failpoints / point).touch()
        found = await ended(http, file, name="x" * 200, model="nobody/nothing")
        assert found["status"] == "failed", found
        assert not (failpoints / point).exists(), f"a process died at {point}"
        assert [asked(http, "GET", path) for path in counts] == before, point
