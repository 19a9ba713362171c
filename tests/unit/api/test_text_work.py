"""Work on texts that takes too long, or waits too long, is refused, and holds up no other kind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_core import to_json

from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses
from services.api.http import text_work
from services.api.http.error_responses import Problem
from services.api.http.text_work import SHORT_CHARS_MAX, TextWork, TextWorks
from services.api.v1.block_blame import page_of_blame
from tests.processor_bounds import processor_time
from tests.unit.work import limited_functions as functions

LONG = SHORT_CHARS_MAX + 1


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextWorks]:
    """Two kinds of work, whose processes may take a second."""
    monkeypatch.setattr(text_work, "org_of", lambda _: "org-1")
    run = LimitedProcesses.run
    monkeypatch.setattr(
        LimitedProcesses,
        "run",
        lambda *given, org: run(*given, org=org, limits=ProcessLimits(1)),
    )
    works = TextWorks(TextWork("The file", functions.__name__), TextWork("The difference", "json"))
    yield works
    works.close()


def asked_by_somebody(*, hangs_up: bool = False) -> Any:
    """A request whose client waits, unless it hangs up at once."""

    async def body() -> bytes:
        return b""

    async def receive() -> None:
        await asyncio.sleep(0 if hangs_up else 600)

    return SimpleNamespace(body=body, receive=receive)


async def test_a_text_that_takes_too_long_is_a_422(works: TextWorks) -> None:
    with pytest.raises(Problem) as refused:
        await works.checks.run(asked_by_somebody(), LONG, functions.spin)
    assert refused.value.status == 422
    assert "The file cannot be looked at: it takes more than 1 s" in str(refused.value.body)


async def test_where_too_many_wait_a_client_is_told_when_to_come_again(works: TextWorks) -> None:
    works.checks.processes.places.of_organisation_waiting_max = 0
    with pytest.raises(Problem) as refused:
        await works.checks.run(asked_by_somebody(), LONG, len, "a")
    assert refused.value.status == 503
    assert refused.value.headers["Retry-After"]


async def test_many_slow_files_hold_up_no_difference(works: TextWorks) -> None:
    waiting = [
        asyncio.create_task(works.checks.run(asked_by_somebody(), LONG, functions.spin))
        for _ in range(20)
    ]
    await asyncio.sleep(0)
    text = json.dumps(["a" * LONG])
    assert await works.comparisons.run(asked_by_somebody(), LONG, json.loads, text) == ["a" * LONG]
    assert not any(task.done() and task.exception() is None for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_work_ends_with_its_client(works: TextWorks) -> None:
    begin = time.monotonic()
    with pytest.raises(Problem) as refused:
        await works.checks.run(asked_by_somebody(hangs_up=True), LONG, time.sleep, 600)
    assert refused.value.status == 499
    assert time.monotonic() - begin < 300


async def test_a_short_text_is_looked_at_at_once(works: TextWorks) -> None:
    assert await works.checks.run(asked_by_somebody(), SHORT_CHARS_MAX, len, "text") == 4
    assert works.checks.processes.server.program is None


async def test_lines_that_are_alike_are_compared_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_work, "org_of", lambda _: "org-1")
    comparisons = TextWorks().comparisons
    texts = ["\n".join("ab"[step * at * at // 3 % 2] for at in range(100)) for step in range(3)]
    written = to_json([{"value": text} for text in texts])
    assert len(written) <= SHORT_CHARS_MAX
    with processor_time():
        page = await comparisons.run(
            asked_by_somebody(), len(written), page_of_blame, written, 0, 10
        )
    assert page["lines_total"] == 100
    comparisons.processes.close()
