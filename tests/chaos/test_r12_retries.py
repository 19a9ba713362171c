"""R12: 20 keys with 20 requests each at once, and the SDK's own retries without a key."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r12_a_request_sent_many_times_has_one_effect(proves: Proves) -> None:
    verdict = await proves("R12")

    assert verdict.messages == 20 + 6 + 1
