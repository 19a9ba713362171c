"""R28: fifty clients press one agent, one block, and leave a thousand requests behind."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r28_one_agent_is_pressed(proves: Proves) -> None:
    verdict = await proves("R28")

    assert verdict.figures["runs_200"] > 0
    assert verdict.figures["patches_200"] > 0
    assert verdict.figures["cancelled_runs"] > 0
