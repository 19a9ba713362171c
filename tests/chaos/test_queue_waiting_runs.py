"""QUEUE: hundreds of waiting runs are cancelled, or deleted with their agent, by one request."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_waiting_runs_are_cancelled_and_deleted_at_once(proves: Proves) -> None:
    verdict = await proves("QUEUE")

    assert verdict.messages == 300
