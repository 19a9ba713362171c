"""R16: 200 ms +- 100 each way, and 2 % resets."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r16_a_slow_and_lossy_network_loses_nothing(network_proves: Proves) -> None:
    verdict = await network_proves("R16")

    assert verdict.figures["resets"] > 0
