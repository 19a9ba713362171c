"""R19: clocks skewed by 5 minutes, and jumps of 2 hours in both directions."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r19_jumping_clocks_lose_no_lease_and_no_order(
    network_proves: Proves,
) -> None:
    verdict = await network_proves("R19")

    assert verdict.figures["hours_ahead"] > 1
    assert verdict.figures["hours_behind"] < -1
