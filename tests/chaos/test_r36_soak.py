"""R36: a short soak, which sees what leaks fast; `make soak` is long, and judges memory."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r36_what_is_used_at_the_end_was_used_at_the_beginning(proves: Proves) -> None:
    verdict = await proves("R36")

    assert verdict.kills > 0
    assert verdict.figures["message_done"] > 0
    assert verdict.figures["bad_requests"] > 0
