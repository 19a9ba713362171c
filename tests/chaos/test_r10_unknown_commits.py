"""R10: the answers to 50 commits are lost, and some commits before they arrive."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r10_a_commit_of_unknown_outcome_is_neither_lost_nor_doubled(
    network_proves: Proves,
) -> None:
    verdict = await network_proves("R10")

    assert verdict.figures["answers_lost"] >= 50
    assert verdict.figures["statements_lost"] > 0
