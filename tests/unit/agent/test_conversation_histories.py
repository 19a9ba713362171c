"""Random histories of a conversation (R22): whatever happens, the model can be asked again."""

from __future__ import annotations

from hypothesis import settings

from tests.unit.agent.conversation_histories import (
    STEPS,
    Histories,
)

HISTORIES = 100


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=STEPS,
    print_blob=True,
)
