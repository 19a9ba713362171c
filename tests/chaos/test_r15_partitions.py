"""R15: workers without Postgres, workers and apis without NATS, both ways and one way."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r15_partitions_split_nothing(network_proves: Proves) -> None:
    verdict = await network_proves("R15")

    assert verdict.figures["turns_taken_over"] > 0
