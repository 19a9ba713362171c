"""R03: kill -9 of Postgres, 3 times."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r03_a_killed_postgres_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R03")

    assert verdict.kills == 3
