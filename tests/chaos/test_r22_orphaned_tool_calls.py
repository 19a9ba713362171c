"""R22: 100 histories whose tool call was killed at its start or its end."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r22_killed_tool_calls_leave_histories_that_work(proves: Proves) -> None:
    verdict = await proves("R22")

    assert verdict.messages == 100
