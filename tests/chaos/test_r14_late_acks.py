"""R14: a command held past its time, acknowledged late, the second worker killed, twice."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r14_a_late_acknowledgement_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R14")

    assert verdict.kills == 4
