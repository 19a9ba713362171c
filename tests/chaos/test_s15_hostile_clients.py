"""S15: header bombs, half-sent and idle connections, and streams that nobody reads."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_s15_hostile_clients_keep_nobody_out(proves: Proves) -> None:
    verdict = await proves("S15")

    assert verdict.figures["reads"] > 10
    assert verdict.figures["grown_mb"] < 100
