"""R02: kill -9 of Postgres, NATS and all services at the same moment, 2 times."""

from __future__ import annotations

from libs.contracts.service_registry import names
from tests.chaos.conftest import Proves


async def test_r02_all_parts_dying_at_once_loses_nothing(proves: Proves) -> None:
    verdict = await proves("R02")

    assert verdict.kills == 2 * (len(names()) + 2)
