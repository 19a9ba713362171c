"""Ask a server thousands of nearly valid requests, and judge its answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlsplit

from tests.fuzz.connection import Answer, Connection
from tests.fuzz.corpus import operations, recorded, things
from tests.fuzz.mutations import Mutator, Request

CONNECTIONS = 8
REQUESTS_OF_A_WORLD = 500  # then the things that are asked about are made anew
SECONDS_MAX = 10.0
GIVE_UP_SECONDS = 60.0
NOT_BUILT = 501
# A 502 that says so: what a client named does not answer, or the model wrote what is no tool.
FAULTS_OF_OTHERS = (b'"mcp_connection_error"', b"The model has written no tool")
LEAKS = (b"errors.pydantic.dev", b"Traceback", b"psycopg", b"input_type=")
FINDINGS_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer that should not be."""

    why: str
    seed: str
    request: Request
    answer: Answer

    def __str__(self) -> str:
        body = self.request.content
        headers = ", ".join(f"{name}: {value[:60]!r}" for name, value in self.request.headers)
        return (
            f"{self.why} (seed {self.seed})\n"
            f"  {self.request.method} {self.request.target[:300]} [{headers}]\n"
            f"  body of {len(body)} bytes: {body[:300]!r}\n"
            f"  answer: {self.answer.body[:300]!r}"
        )


@dataclass(slots=True)
class Report:
    """What came of it."""

    seconds_max: float = SECONDS_MAX
    statuses: Counter[int] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest_seconds: float = 0.0
    slowest: str = ""

    def note(self, seed: str, request: Request, answer: Answer, seconds: float) -> None:
        """Judge one answer."""
        self.statuses[answer.status] += 1
        if seconds > self.slowest_seconds:
            self.slowest_seconds = seconds
            self.slowest = f"{request.method} {request.path[:80]} (seed {seed})"
        if seconds > self.seconds_max:
            self.findings.append(Finding(f"took {seconds:.1f} s", seed, request, answer))
        for why in wrongs(answer):
            self.findings.append(Finding(why, seed, request, answer))

    def __str__(self) -> str:
        asked = sum(self.statuses.values())
        by_status = "  ".join(f"{status}: {n}" for status, n in sorted(self.statuses.items()))
        return (
            f"{asked} requests, {len(self.findings)} findings\n  {by_status}\n"
            f"  slowest {self.slowest_seconds:.2f} s: {self.slowest}"
        )


def wrongs(answer: Answer) -> Iterator[str]:
    """What is wrong with an answer."""
    if answer.status == 0:
        yield "no answer"
    elif answer.status >= 500 and answer.status != NOT_BUILT:
        if answer.status != 502 or not any(fault in answer.body for fault in FAULTS_OF_OTHERS):
            yield f"status {answer.status}"
    elif answer.status >= 400 and any(leak in answer.body for leak in LEAKS):
        yield "says what is inside"


async def fuzz(
    base_url: str, *, seed: int, requests: int, seconds_max: float = SECONDS_MAX
) -> Report:
    """Ask so many requests; the same seed asks the same ones, about other ids."""
    report = Report(seconds_max)
    for first in range(0, requests, REQUESTS_OF_A_WORLD):
        ids = await things(base_url)
        valid = operations(ids) + recorded(ids)
        last = min(first + REQUESTS_OF_A_WORLD, requests)
        numbers = iter(range(first, last))
        await asyncio.gather(
            *(
                ask_all(base_url, seed, numbers, valid, list(ids.values()), report)
                for _ in range(CONNECTIONS)
            )
        )
    return report


async def ask_all(
    base_url: str,
    seed: int,
    numbers: Iterator[int],
    valid: list[Request],
    ids: list[str],
    report: Report,
) -> None:
    """Ask the requests of these numbers, one after the other, on one connection."""
    url = urlsplit(base_url)
    assert url.hostname
    assert url.port
    connection = Connection(url.hostname, url.port)
    for number in numbers:
        name = f"{seed}-{number}"
        random = Random(name)
        request = Mutator(random, ids).changed(random.choice(valid))
        began = time.monotonic()
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                answer = await connection.ask(request)
        except TimeoutError:
            answer = Answer(0, b"")
            connection = Connection(url.hostname, url.port)
        report.note(name, request, answer, time.monotonic() - began)
    await connection.close()
