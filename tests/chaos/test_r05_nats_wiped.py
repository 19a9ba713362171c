"""R05: NATS stopped, its store deleted, NATS started, twice in the middle of the load."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r05_a_nats_that_lost_its_store_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R05")

    assert verdict.kills == 2
