"""R05: NATS stopped, its store deleted, NATS started, twice in the middle of the load; and the
same under a running NATS."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r05_a_nats_that_lost_its_store_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R05")

    assert verdict.kills == 2


async def test_r05_a_store_deleted_under_a_running_nats_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R05-RUNNING")

    assert verdict.kills == 1
