"""RELAY: as much as clients may send, and more: refused or published, and nobody else notices."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_relay_goes_on_whatever_is_large(proves: Proves) -> None:
    verdict = await proves("RELAY")

    assert verdict.messages == 60
    assert verdict.figures["memory_growth_megabytes"] < 1_024
