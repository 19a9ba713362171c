"""A dose of the fuzzers: whatever is asked, nothing fails and nothing takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fuzz.corpus import things
from tests.fuzz.fuzzer import GIVE_UP_SECONDS, Report, fuzz
from tests.fuzz.openapi import fuzz_document
from tests.fuzz.servers import fuzzed_server
from tests.servers import HeelerInstance

SEED = 1
REQUESTS = 1_000
EXAMPLES = 1  # of each operation, twice


@pytest.fixture(scope="module")
async def heeler() -> AsyncIterator[HeelerInstance]:
    async with fuzzed_server() as instance:
        yield instance


def findings(report: Report) -> str:
    return "\n".join(map(str, report.findings))


async def test_nearly_valid_requests_are_answered_or_refused(heeler: HeelerInstance) -> None:
    report = await fuzz(heeler.base_url, seed=SEED, requests=REQUESTS, seconds_max=GIVE_UP_SECONDS)

    assert findings(report) == ""
    assert sum(report.statuses.values()) == REQUESTS
    assert report.statuses[200] > REQUESTS / 10, "most of it is refused before it does anything"


async def test_requests_made_from_the_openapi_document_are_answered_or_refused(
    heeler: HeelerInstance,
) -> None:
    ids = await things(heeler.base_url)
    report = await asyncio.to_thread(
        fuzz_document,
        heeler.base_url,
        ids,
        seed=SEED,
        examples=EXAMPLES,
        seconds_max=GIVE_UP_SECONDS,
    )

    assert findings(report) == ""
    assert report.statuses[200] > 0
    assert report.statuses[422] > 0
