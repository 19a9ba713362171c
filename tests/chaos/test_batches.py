"""BATCH: the agent service is killed in the middle of a batch."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_each_item_of_a_batch_is_answered_once_whoever_is_killed(proves: Proves) -> None:
    verdict = await proves("BATCH")

    assert verdict.kills == 2
    assert verdict.messages == 30
