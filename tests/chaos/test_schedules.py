"""SCHEDULES: schedules fire while processes die."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_each_slot_fires_once_while_the_scheduler_is_killed(proves: Proves) -> None:
    verdict = await proves("SCHEDULES")

    assert verdict.kills >= 8
    assert verdict.messages == 60
