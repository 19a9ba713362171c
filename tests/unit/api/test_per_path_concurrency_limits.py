"""Those that ask the same of one thing wait for each other, and for nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from services.api.http import per_path_concurrency_limits
from services.api.http.error_responses import Problem
from services.api.http.per_path_concurrency_limits import AT_ONCE_MAX, ConcurrencyLimits, Slot

HOT, CALM = "POST /v1/agents/hot/messages", "GET /v1/agents/hot"


async def stays() -> Any:
    await asyncio.Event().wait()


async def hangs_up() -> Any:
    await asyncio.sleep(0.01)


async def all_taken(limits: ConcurrencyLimits) -> list[Slot]:
    return [await limits.turn(HOT, 0, stays) for _ in range(AT_ONCE_MAX)]


def waiting(limits: ConcurrencyLimits, size: int = 0) -> asyncio.Task[Slot]:
    return asyncio.create_task(limits.turn(HOT, size, stays))


async def problem_of(turn: Awaitable[Slot]) -> Problem:
    with pytest.raises(Problem) as refused:
        await turn
    return refused.value


async def test_turns_are_handed_over_in_order_and_cost_nobody_else() -> None:
    limits = ConcurrencyLimits()
    turns = await all_taken(limits)
    first, second = waiting(limits), waiting(limits)
    calm = await limits.turn(CALM, 0, stays)
    assert not first.done()
    turns[0].end()
    turns[0].end()
    await first
    await asyncio.sleep(0)
    assert not second.done()
    turns[1].end_with(200)
    for turn in [*turns, calm, await first, await second]:
        turn.end()
    assert not limits.lines
    assert not limits.waiting_bytes


async def test_who_hangs_up_while_waiting_is_not_answered_and_leaves_nothing() -> None:
    limits = ConcurrencyLimits()
    turns = await all_taken(limits)
    assert (await problem_of(limits.turn(HOT, 7, hangs_up))).status == 499
    for turn in turns:
        turn.end()
    assert not limits.lines
    assert not limits.waiting_bytes


async def test_too_many_that_wait_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_path_concurrency_limits, "WAITING_MAX", 1)
    limits = ConcurrencyLimits()
    turns = await all_taken(limits)
    waits = waiting(limits)
    await asyncio.sleep(0)
    refused = await problem_of(limits.turn(HOT, 0, stays))
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})
    turns[0].end()
    await waits


async def test_bodies_that_wait_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_path_concurrency_limits, "WAITING_BYTES_MAX", 10)
    limits = ConcurrencyLimits()
    turns = await all_taken(limits)
    waits = waiting(limits, 6)
    await asyncio.sleep(0)
    assert (await problem_of(limits.turn(HOT, 5, stays))).status == 429
    turns[0].end()
    await waits
    assert not limits.waiting_bytes


async def test_who_waits_too_long_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_path_concurrency_limits, "WAIT_SECONDS_MAX", 0.01)
    limits = ConcurrencyLimits()
    await all_taken(limits)
    refused = await problem_of(limits.turn(HOT, 0, stays))
    assert (refused.status, refused.headers) == (503, {"Retry-After": "1"})


async def test_a_refusal_keeps_its_turn_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_path_concurrency_limits, "REFUSED_SECONDS", 0.02)
    limits = ConcurrencyLimits()
    turns = await all_taken(limits)
    waits = waiting(limits)
    turns[0].end_with(429)
    await asyncio.sleep(0.005)
    assert not waits.done()
    await waits


async def test_a_wait_that_is_cancelled_gives_the_turn_on() -> None:
    limits = ConcurrencyLimits()
    turns = await all_taken(limits)
    first, second = waiting(limits), waiting(limits)
    await asyncio.sleep(0)
    turns[0].end()  # handed to the first, which is cancelled before it knows
    first.cancel()
    await second
    for turn in [*turns[1:], await second]:
        turn.end()
    assert not limits.lines
