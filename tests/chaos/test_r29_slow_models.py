"""R29: 100 messages wait for a slow model; nobody holds a connection or a transaction."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r29_slow_models_hold_no_connection(proves: Proves) -> None:
    verdict = await proves("R29")

    assert verdict.messages == 100
