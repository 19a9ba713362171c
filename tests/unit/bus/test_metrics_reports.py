"""A scrape asks every process, and waits for none that does not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from libs.bus import metrics_collection
from libs.bus.metrics_collection import Reporter, Reports
from libs.contracts.nats_permissions import METRICS_ASKED, METRICS_REPORTS
from libs.contracts.service_registry import names
from tests.clock_and_ids import ManualClock


class OneBus:
    """A client of a bus on which only it is."""

    def __init__(self) -> None:
        self.hearers: dict[str, list[Callable[[Any], Any]]] = {}
        self.published: list[str] = []

    async def subscribe(self, subject: str, cb: Callable[[Any], Any]) -> None:
        self.hearers.setdefault(subject, []).append(cb)

    async def publish(self, subject: str, data: bytes) -> None:
        self.published.append(subject)
        for hearer in self.hearers.get(subject, []):
            await hearer(SimpleNamespace(data=data))


async def processes(bus: OneBus, told: Reports, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A process of each service, which tells its name; those in the list answer."""
    alive = [*names()]
    await told.listen(cast(Any, bus))

    async def answer(_: Any) -> None:
        for name in alive:
            report = {"process": f"p-{name}", "service": name, "families": {name: (name, "\n")}}
            await bus.publish(METRICS_REPORTS, json.dumps(report).encode())

    await bus.subscribe(METRICS_ASKED, answer)
    monkeypatch.setattr(metrics_collection, "families", dict)
    return alive


async def test_scrapes_at_once_share_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, clock = OneBus(), ManualClock(100.0)
    told = Reports(clock)
    await processes(bus, told, monkeypatch)
    texts = await asyncio.gather(told.text(), told.text())
    assert [*texts, await told.text()] == 3 * ["".join(f"{name}\n" for name in sorted(names()))]
    assert bus.published.count(METRICS_ASKED) == 1
    clock.seconds += metrics_collection.ANSWERS_FRESH_SECONDS + 0.1
    await told.text()
    assert bus.published.count(METRICS_ASKED) == 2


async def test_who_does_not_answer_is_shown_as_it_was_and_then_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_collection, "ANSWERS_SECONDS_MAX", 0.01)
    bus, clock = OneBus(), ManualClock(100.0)
    told = Reports(clock)
    alive = await processes(bus, told, monkeypatch)
    await told.text()
    alive.remove("tools")
    clock.seconds += metrics_collection.REPORT_KEPT_SECONDS - 1
    assert "tools" in await told.text()
    clock.seconds += 2
    assert "tools" not in await told.text()


async def test_a_process_that_cannot_look_tells_what_it_knows() -> None:
    bus = OneBus()
    looking = asyncio.Event()

    async def look() -> None:
        looking.set()
        raise ValueError("the store is strange")

    await Reporter(cast(Any, bus), "agent", look).listen()
    await bus.publish(METRICS_ASKED, b"")
    assert looking.is_set()
    assert bus.published == [METRICS_ASKED, METRICS_REPORTS]
