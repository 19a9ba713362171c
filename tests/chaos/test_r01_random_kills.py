"""R01: kill -9 of a random service, 10 times, 2 to 3 s apart, during W1."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r01_random_kills_lose_nothing(proves: Proves) -> None:
    verdict = await proves("R01")

    assert verdict.kills == 10
