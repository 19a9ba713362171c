"""R11: every command and event of 150 messages published again, 3 times, in random order."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r11_everything_delivered_again_has_no_effect(proves: Proves) -> None:
    verdict = await proves("R11")

    assert verdict.messages == 150
