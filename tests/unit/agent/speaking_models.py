"""Models whose answers come in deltas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from services.agent.adapters.models.ports import (
    ModelEvent,
)
from services.agent.domain.prompts.model_context import ModelRequest
from tests.unit.agent.world import FakeModel, Process, World


class SpeakingModel(FakeModel):
    """Answers in the pieces that it is given; it stands still where it finds an event to wait
    for, and counts how often it was let go in the middle."""

    def __init__(self, *answers: list[Any]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.let_go = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        assert request.stream_tokens
        self.asked.append(request)
        try:
            for answer in self.answers.pop(0):
                if isinstance(answer, asyncio.Event):
                    await answer.wait()
                elif isinstance(answer, Exception):
                    raise answer
                else:
                    yield answer
        except asyncio.CancelledError:
            self.let_go += 1
            raise


def speaking(world: World, holder: str, *answers: list[Any]) -> Process:
    process = world.process(holder)
    model = SpeakingModel(*answers)
    process.model = process.drivers.ports.models = model
    return process
