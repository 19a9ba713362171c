"""R37: Postgres or NATS away while agents are read: 200 or 503, never 404."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r37_an_outage_is_never_an_absence(proves: Proves) -> None:
    verdict = await proves("R37")

    assert verdict.kills == 2
