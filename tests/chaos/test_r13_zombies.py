"""R13: the process that drives a slow model call is frozen for 20 s, 3 times."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r13_a_frozen_process_is_replaced_and_writes_nothing(proves: Proves) -> None:
    verdict = await proves("R13")

    assert verdict.kills == 3
