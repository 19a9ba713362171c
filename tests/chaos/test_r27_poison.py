"""R27: a message that raises, one that kills its process, a run that kills its driver."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r27_poison_is_parked_and_replayed_while_others_go_on(proves: Proves) -> None:
    verdict = await proves("R27")

    assert verdict.kills >= 6
