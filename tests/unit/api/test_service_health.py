"""What a service's answers about itself mean, in the order in which they come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic_core import from_json

from libs.bus.clock_and_ids import RandomIds
from libs.contracts.service_registry import names
from services.api.adapters.server.service_health import (
    DOWN,
    LOOK_AGAIN_SECONDS,
    LOOK_EVERY_SECONDS,
    OK,
    STANDSTILL_SECONDS_MAX,
    UNANSWERED,
    UNANSWERED_SECONDS_MAX,
    Health,
    ServiceHealth,
)
from services.api.resources.server.health import health, livez
from tests.clock_and_ids import ManualClock


def said(service: ServiceHealth, done: int, waiting: int, *, now: float) -> str:
    service.note_answer({"relay": {"done": done, "waiting": waiting}}, now)
    return service.problem(now)


def test_who_does_not_answer_for_a_while_is_ill_until_it_does() -> None:
    service = ServiceHealth(0.0)
    assert service.problem(UNANSWERED_SECONDS_MAX) == OK
    assert service.problem(UNANSWERED_SECONDS_MAX + 0.1) == UNANSWERED
    assert said(service, 5, 0, now=60.0) == OK


def test_a_relay_that_has_work_and_does_none_is_ill_until_it_does() -> None:
    service = ServiceHealth(0.0)
    assert said(service, 7, 3, now=1.0) == OK
    late = 1.0 + STANDSTILL_SECONDS_MAX + 0.1
    assert said(service, 7, 12, now=late) == "the relay stands still with 12 events waiting"
    assert said(service, 8, 11, now=late + 1) == OK


def test_a_relay_that_is_far_behind_and_gets_on_is_well() -> None:
    service = ServiceHealth(0.0)
    for second in range(60):
        assert said(service, second, 100_000, now=float(second)) == OK


def test_a_relay_that_waits_for_work_is_well_however_long() -> None:
    service = ServiceHealth(0.0)
    for second in range(0, 600, 5):
        assert said(service, 7, 0, now=float(second)) == OK


async def test_who_has_just_answered_a_command_is_not_asked_whether_it_is_there() -> None:
    clock = ManualClock()
    health = Health(cast(Any, None), cast(Any, None), clock, RandomIds())  # it asks nobody
    clock.seconds = 1_000.0
    health.services["agent"].note_answer({}, clock.seconds)
    clock.seconds += LOOK_EVERY_SECONDS / 2
    assert await health.service("agent") == OK
    clock.seconds += LOOK_EVERY_SECONDS
    with pytest.raises(AttributeError):
        await health.service("agent")


async def test_what_is_missing_is_looked_for_again_soon() -> None:
    clock = ManualClock()
    health = Health(cast(Any, None), cast(Any, None), clock, RandomIds())
    for found in (DOWN, OK):

        async def look(*_: object, found: str = found) -> str:
            return found

        health.postgres = health.nats = health.service = look  # type: ignore[method-assign]
        await health.turn()
    assert clock.slept == [LOOK_AGAIN_SECONDS, LOOK_EVERY_SECONDS]


def test_who_is_busy_is_not_down_and_who_is_not_there_is() -> None:
    service = ServiceHealth(0.0)
    said(service, 5, 0, now=60.0)
    busy = 60.0 + UNANSWERED_SECONDS_MAX
    assert service.silent(busy, nobody=False) == OK
    assert service.silent(busy + 0.1, nobody=False) == DOWN
    assert service.silent(60.0, nobody=True) == DOWN


@pytest.mark.parametrize("missing", [*names(), "postgres", "nats"])
async def test_who_is_not_ready_says_what_is_missing_and_lives_all_the_same(missing: str) -> None:
    """OBS-06: a probe of readiness takes it out of service, and one of liveness starts nothing."""
    parts = dict.fromkeys([*names(), "postgres", "nats"], "ok")
    state = SimpleNamespace(health=SimpleNamespace(parts=parts, dead_letters=0))
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    assert (await health.fn(request)).status_code == 200
    parts[missing] = "down"
    answer = await health.fn(request)
    assert answer.status_code == 503
    body = from_json(answer.content)
    assert body["status"] == "unavailable"
    assert {**body, **body["services"]}[missing] == "down"
    assert await livez.fn() == {"status": "ok"}
