"""R13: one process of each service is frozen for 15 s, the other of the pair serves."""

from __future__ import annotations

from libs.contracts.service_registry import names
from tests.chaos.conftest import Proves


async def test_r13_the_other_of_a_pair_takes_over(network_proves: Proves) -> None:
    verdict = await network_proves("R13-PAIRS")

    assert verdict.kills == len(names())
