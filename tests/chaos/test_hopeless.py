"""HOPELESS: what can never succeed is refused at once, and disturbs nobody."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_what_can_never_succeed_disturbs_nobody(proves: Proves) -> None:
    verdict = await proves("HOPELESS")

    assert verdict.messages > 0
