"""One delivery of a command: the reply, or why there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from libs.bus.command_attempt import attempt
from libs.bus.ports import TryAgain

DELIVERY: Any = type("Delivery", (), {"subject": "agent.command.run.start.org-1.run-1"})()


async def test_a_handler_that_breaks_off_by_itself_is_asked_again() -> None:
    async def answer(_: object) -> Any:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    outcome = await attempt(answer, DELIVERY, bytes_max=100, pause_seconds=0.5)
    assert isinstance(outcome, TryAgain)
    assert outcome.seconds == 0.5


async def test_one_that_is_cancelled_is_cancelled() -> None:
    async def answer(_: object) -> Any:
        await asyncio.sleep(60)

    task = asyncio.ensure_future(attempt(answer, DELIVERY, bytes_max=100, pause_seconds=0.5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
