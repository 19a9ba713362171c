"""R25: streams dropped every two seconds, across the death of the api and a wiped NATS."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r25_resumed_streams_have_the_bytes_of_the_history(proves: Proves) -> None:
    verdict = await proves("R25")

    assert verdict.figures["drops"] >= 20
    assert verdict.kills >= 2
