"""R42: long work whose attempts end their process is given up, and everybody else is served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.contracts.bus_messages import DEFAULT_ORG
from libs.contracts.deterministic_ids import derived_id
from libs.work.attempt_counts import ATTEMPTS_MAX
from tests.e2e.asking import unique
from tests.e2e.conftest import Fragile
from tests.waiting import wait_for

MODEL = "demo/offline"
LETTERS = "/v1/admin/dead-letters"
# As long as a process starts, however busy the machine is.
ANSWER_SECONDS_MAX = 180.0
END_SECONDS_MAX = 600.0
GUARD_SECONDS = 1_200
PAUSE_SECONDS = 0.2


pytestmark = pytest.mark.timeout(GUARD_SECONDS)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work: how the letter of one names it, and its failpoint."""

    letter: str
    point: str


IMPORT = Kind("api.import", "work.import")
BATCH = Kind("agent.batch", "work.batch")
FILE = Kind("memory.file", "work.file")
SCHEDULE = Kind("scheduler.schedule", "work.schedule")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A work that was requested: where it is read, and whether it has ended well or badly."""

    path: str
    has_failed: Callable[[Any], bool]
    has_completed: Callable[[Any], bool]


class Server:
    """A server whose processes die, and what a client sees of it."""

    def __init__(self, http: httpx.AsyncClient, failpoints: Path) -> None:
        self.http = http
        self.failpoints = failpoints
        self.answers = 0

    def poison(self, kind: Kind, work_id: str) -> None:
        """Let every attempt at a work end its process."""
        (self.failpoints / f"kill.{kind.point}").write_text(work_id)

    def heal(self) -> None:
        """Let no process die any more."""
        for poison in self.failpoints.iterdir():
            poison.unlink()

    async def answer(self, method: str, path: str, **how: Any) -> httpx.Response:
        """The answer to a request that is sent again while its connection is lost, or the service
        that it is for starts: never another error of the server."""

        async def answered() -> httpx.Response | None:
            try:
                answer = await self.http.request(method, path, **how)
            except httpx.TransportError:
                return None
            is_away = method != "GET" and answer.status_code == 503
            return None if is_away else answer

        answer = await wait_for(f"{method} {path}", answered, ANSWER_SECONDS_MAX)
        assert answer.status_code < 500, (method, path, answer.text)
        self.answers += 1
        return answer

    async def made(self, path: str, key: str = "", **how: Any) -> Any:
        """The document of what a request has made."""
        headers = {"idempotency-key": key} if key else {}
        answer = await self.answer("POST", path, headers=headers, **how)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    async def agent(self) -> str:
        """A new agent's id."""
        body = {"name": unique("r42"), "model": MODEL, "memory_blocks": []}
        return str((await self.made("/v1/agents/", json=body))["id"])

    async def ended(self, work: Wanted, ends: Callable[[Any], bool]) -> Any:
        """The document of a work when it has ended so; it is read all the time until then."""

        deadline = time.monotonic() + END_SECONDS_MAX
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            answer = await self.answer("GET", work.path)
            assert answer.status_code == 200, answer.text
            document = answer.json()
            if ends(document):
                return document
            assert time.monotonic() < deadline, (work.path, document)

    async def letters(self, kind: Kind, work_id: str) -> list[Any]:
        """The dead letters of a work."""
        found = (await self.answer("GET", f"{LETTERS}?limit=1000")).json()
        return [
            letter
            for letter in found
            if letter["name"] == kind.letter and letter["payload"]["id"] == work_id
        ]

    # Works, with and without a poison

    async def imported(self, file: bytes, *, poisoned: bool) -> Wanted:
        """An import of an agent."""
        key = unique("import")
        if poisoned:
            self.poison(IMPORT, derived_id("import", DEFAULT_ORG, key))
        files = {"file": ("agent.heeler.gz", file)}
        begun = await self.made(
            "/v1/agents/import", key, params={"background": "true"}, files=files
        )
        return Wanted(
            f"/v1/imports/{begun['id']}",
            lambda found: found["status"] == "failed" and "attempted 5 times" in str(found),
            lambda found: found["status"] == "completed",
        )

    async def batch(self, agent_id: str, *, poisoned: bool) -> Wanted:
        """A batch of messages."""
        key, path = unique("batch"), f"/v1/agents/{agent_id}/messages/batch"
        if poisoned:
            self.poison(BATCH, derived_id("batch", DEFAULT_ORG, key))
        begun = await self.made(path, key, json={"items": ["Hello", "Bye"]})
        return Wanted(
            f"{path}/{begun['id']}",
            lambda found: found["status"] == "failed",
            lambda found: found["status"] == "completed",
        )

    async def file(self, folder_id: str, *, poisoned: bool) -> Wanted:
        """A file that is processed."""
        key = unique("file")
        file_id = derived_id("file", DEFAULT_ORG, folder_id, key)
        if poisoned:
            self.poison(FILE, file_id)
        headers = {"idempotency-key": key}
        files = {"file": (f"{key}.txt", b"Some words.\n")}
        path = f"/v1/folders/{folder_id}/files/{file_id}"

        async def is_there() -> bool:
            """Whether the file is in its folder. An upload that is sent again is refused while what
            came before is kept: its file comes there, or it is removed and can be sent again."""
            upload = f"/v1/folders/{folder_id}/upload"
            sent = await self.answer("POST", upload, headers=headers, files=files)
            return sent.is_success or (await self.answer("GET", path)).is_success

        await wait_for(path, is_there, END_SECONDS_MAX)
        return Wanted(
            path,
            lambda found: "attempted 5 times" in str(found["error_message"]),
            lambda found: found["processing_status"] == "completed",
        )

    async def schedule(self, agent_id: str, *, poisoned: bool) -> Wanted:
        """A schedule that fires."""
        key, path = unique("schedule"), f"/v1/agents/{agent_id}/schedule"
        if poisoned:
            self.poison(SCHEDULE, derived_id("schedule", DEFAULT_ORG, agent_id, key))
        recurring = {"schedule_type": "recurring", "recurrence_rule": "0 9 * * mon"}
        made = await self.made(path, key, json={"message": "Hello", **recurring})
        await self.made(f"{path}/{made['id']}/fire", f"{key}-fired")
        return Wanted(
            f"{path}/{made['id']}/firings",
            lambda found: [each["status"] for each in found] == ["dead_letter"],
            lambda found: [each["status"] for each in found] == ["completed"],
        )


@pytest.fixture
async def server(fragile: Fragile) -> AsyncIterator[Server]:
    async with httpx.AsyncClient(base_url=fragile.heeler.base_url, timeout=60.0) as http:
        yield (server := Server(http, fragile.failpoints))
    server.heal()


async def given_up(server: Server, kind: Kind, work: Wanted, work_id: str = "") -> Any:
    """What is read of a work at its end, after five attempts, with one dead letter."""
    document = await server.ended(work, work.has_failed)
    [letter] = await server.letters(kind, work_id or work.path.rpartition("/")[2])
    assert (letter["kind"], letter["attempts"]) == ("work", ATTEMPTS_MAX)
    assert letter["error_class"] == "ProcessDied"
    refused = await server.answer("POST", f"{LETTERS}/{letter['id']}/replay")
    assert refused.status_code == 422
    assert "request it anew" in refused.text
    return document


async def test_r42_work_that_kills_its_process_ends_as_failed_while_others_are_served(
    server: Server,
) -> None:
    agent_id, other_id = await server.agent(), await server.agent()
    folder = (await server.made("/v1/folders/", json={"name": unique("r42")}))["id"]
    file = (await server.answer("GET", f"/v1/agents/{agent_id}/export?format=heeler")).content
    # Files come before the api dies: what came of one until then is kept for three minutes, and the
    # same file is refused as long.
    bad_file, *good = await asyncio.gather(
        server.file(folder, poisoned=True),
        server.file(folder, poisoned=False),
        server.imported(file, poisoned=False),
    )
    bad_import, bad_batch, bad_schedule, *more = await asyncio.gather(
        server.imported(file, poisoned=True),
        server.batch(agent_id, poisoned=True),
        server.schedule(agent_id, poisoned=True),
        server.batch(other_id, poisoned=False),
        server.schedule(other_id, poisoned=False),
    )
    await asyncio.gather(
        *(server.ended(work, work.has_completed) for work in (*good, *more)),
        given_up(server, IMPORT, bad_import),
        given_up(server, BATCH, bad_batch),
        given_up(server, FILE, bad_file),
        given_up(server, SCHEDULE, bad_schedule, bad_schedule.path.split("/")[-2]),
    )
    firing_path = bad_schedule.path.rpartition("/")[0]
    schedule = (await server.answer("GET", firing_path)).json()
    assert schedule["status"] == "paused", "its next slot does not do it again"
    server.heal()
    again = await server.imported(file, poisoned=False)
    await server.ended(again, again.has_completed)


async def test_r42_work_that_kills_its_process_can_be_cancelled(server: Server) -> None:
    agent_id = await server.agent()
    file = (await server.answer("GET", f"/v1/agents/{agent_id}/export?format=heeler")).content
    killing = await server.imported(file, poisoned=True)
    batch = await server.batch(agent_id, poisoned=True)
    for _ in range(20):
        await server.answer("GET", killing.path)
        await asyncio.sleep(PAUSE_SECONDS)
    cancelled = await server.answer("POST", f"{killing.path}/cancel")
    assert cancelled.is_success, cancelled.text
    assert (await server.answer("GET", killing.path)).json()["status"] == "cancelled"
    assert await server.letters(IMPORT, killing.path.rpartition("/")[2]) == []
    answer = await server.answer("PATCH", f"{batch.path}/cancel")
    assert answer.is_success, answer.text
    await server.ended(batch, lambda found: found["status"] == "cancelled")
