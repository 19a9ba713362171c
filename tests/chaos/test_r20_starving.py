"""R20: killed for memory at 256 MB, and 5 % of a processor."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r20_a_starving_process_harms_no_other(network_proves: Proves) -> None:
    verdict = await network_proves("R20")

    assert verdict.figures["killed_for_memory"] == 2
