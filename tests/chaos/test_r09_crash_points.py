"""R09: kill -9 at every named point of a turn, once each."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r09_dying_at_any_named_point_ends_the_turn_correctly(proves: Proves) -> None:
    verdict = await proves("R09")

    assert verdict.kills == verdict.messages
