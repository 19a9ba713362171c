"""LARGE-FILES: a small dose; `make large-files` sends 200 MiB, and bombs of 300."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_large_and_hostile_files_cost_no_service_its_memory(proves: Proves) -> None:
    verdict = await proves("LARGE-FILES")

    assert verdict.messages == 8
    assert verdict.figures["others_requests"] > 0
