"""R17: the disk full for a quarter of a minute, then room again: all is well within half one."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r17_a_full_disk_heals_by_itself(proves: Proves) -> None:
    verdict = await proves("R17")

    assert verdict.figures["back_seconds_max"] <= 30
