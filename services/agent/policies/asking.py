"""Ask a model for one step, and tell its answer while it comes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from libs.bus.ports import Clock, Ids
from libs.contracts.letta.base_tools import BASE_TOOLS, json_schema
from libs.contracts.letta.messages import Envelope
from libs.contracts.served import assistant_parts
from services.agent.adapters.models.port import Finished, Models
from services.agent.domain.agent import Design
from services.agent.domain.context import (
    ModelRequest,
    SeenBlock,
    rebuilt_prompt,
    shown_messages,
)
from services.agent.domain.conversation import Conversation, kept_calls, spoken_message
from services.agent.domain.talk import SystemPrompt
from services.agent.domain.turn import ModelReply, Spoken, Turn
from services.agent.policies.pieces import StepPieces
from services.agent.policies.telling import RunTeller

PIECES_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked for a step; it holds for the conversation at `version`. `rebuilt` is
    the system message that it shows, if that is a new one."""

    version: int
    request: ModelRequest
    rebuilt: SystemPrompt | None


def question_of(
    conversation: Conversation, design: Design, blocks: list[SeenBlock], *, at: datetime
) -> Question:
    """What the model is asked next by an agent whose blocks are these."""
    talk, config = conversation.state, design.config
    rebuilt = rebuilt_prompt(talk, config, blocks, at=at)
    request = ModelRequest(
        config=config,
        messages=shown_messages(talk, rebuilt),
        tools=[json_schema(BASE_TOOLS[name]) for name in design.tools],
        parallel=bool(config.llm_config.parallel_tool_calls),
        stream_tokens=conversation.running().stream_tokens,
    )
    return Question(conversation.version, request, rebuilt)


class Asking:
    """Asks the models for the steps of one conversation."""

    def __init__(self, models: Models, teller: RunTeller, clock: Clock, ids: Ids) -> None:
        self.models = models
        self.teller = teller
        self.clock = clock
        self.ids = ids

    async def answer(
        self, request: ModelRequest, turn: Turn, step_id: str, *, number: int
    ) -> tuple[ModelReply, Spoken]:
        """The model's answer to a step, told from `number` on if tokens were asked for. Raises
        ModelFailed."""
        message_id = self.ids.new("message")
        if not request.stream_tokens:
            reply = await self.models.reply(request)
            return reply, Spoken(message_id, self.clock.now())
        since = self.clock.now()
        envelope = Envelope(id=message_id, date=since, run_id=turn.run.id, step_id=step_id)
        step = StepPieces(envelope, parallel=request.parallel)
        spoken = Spoken(message_id, since, number, step.pieces)
        reply = await self.told_reply(request, turn, step, spoken)
        return reply, spoken

    async def told_reply(
        self, request: ModelRequest, turn: Turn, step: StepPieces, spoken: Spoken
    ) -> ModelReply:
        """The model's reply, told piece by piece."""
        assert spoken.number is not None, "what is told has a number"
        self.teller.told, after = spoken.number - 1, turn.told
        async with aclosing(self.models.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    calls = kept_calls(event.reply, parallel=request.parallel)
                    message = spoken_message(spoken, event.reply, calls)
                    pieces = step.rest(assistant_parts(message, step.envelope))
                else:
                    # The rest is told at the end: each piece is remembered with the message.
                    pieces = step.of(event) if len(step.pieces) < PIECES_MAX else []
                for piece in pieces:
                    await self.teller.piece(turn.run.id, piece, after=after)
                    after = self.teller.told
                    if after == spoken.number:
                        # It may be sent before the others are looked at, which came with it.
                        await asyncio.sleep(0)
                if isinstance(event, Finished):
                    return event.reply
        raise AssertionError("a model's stream ends with the whole answer, or fails")
