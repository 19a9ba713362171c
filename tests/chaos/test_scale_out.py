"""Scale-out: a process that is added under load takes its share of the work."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_a_process_that_is_added_takes_work(network_proves: Proves) -> None:
    verdict = await network_proves("SCALE")

    assert verdict.figures["agent_newcomer_share"] > 0.1
