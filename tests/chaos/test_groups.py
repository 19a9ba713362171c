"""GROUPS: processes die while members of groups answer."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_each_hop_of_a_group_has_one_answer_whichever_process_dies(proves: Proves) -> None:
    verdict = await proves("GROUPS")

    assert verdict.kills >= 5
