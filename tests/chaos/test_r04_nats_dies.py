"""R04: kill -9 of NATS, 3 times."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r04_a_killed_nats_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R04")

    assert verdict.kills == 3
