"""How the window of a conversation changes otherwise than by growing, and how long it is.

The window is what models are shown. What it takes in memory is known at any time, without a look
at what is in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from pydantic import BaseModel

from libs.contracts.agent.compaction import ContextCleared, ConversationCompacted
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.token_estimates import BYTES_PER_TOKEN, stored_bytes
from services.agent.domain.conversations.active_run import ActiveRun, served_parts
from services.agent.domain.conversations.provider_rejected_messages import Omissions, Refusals

# What a provider counts is believed within these limits: some count nothing, or make it up.
BYTES_PER_TOKEN_MAX = 12
BYTES_PER_TOKEN_MIN = 1


class MeasuredPrompt(BaseModel):
    """How many tokens a provider counted last, for what weighed so many bytes."""

    model: str
    tokens: int
    bytes: int


class WindowLength(BaseModel):
    """How much a window takes in memory, how many messages are in it no more, and how many bytes
    are a token to its model."""

    bytes: int = 0
    evicted: int = 0
    measured: MeasuredPrompt | None = None

    def add(self, message: Message, sign: int = 1) -> None:
        """A message more, or with -1 a message less."""
        self.bytes += sign * stored_bytes(message)

    def bytes_per_token(self, model: str) -> float:
        """How many bytes are a token to a model, as far as it is known."""
        if self.measured is None or self.measured.model != model:
            return BYTES_PER_TOKEN
        counted = self.measured.bytes / self.measured.tokens
        return min(max(counted, BYTES_PER_TOKEN_MIN), BYTES_PER_TOKEN_MAX)

    def replied(self, event: ModelReplied) -> None:
        """A provider has counted."""
        if event.prompt_bytes and event.usage.prompt_tokens:
            self.measured = MeasuredPrompt(
                model=event.model, tokens=event.usage.prompt_tokens, bytes=event.prompt_bytes
            )


class ShownConversation(Protocol):
    """What of the state of a conversation says what models are shown."""

    window: list[Message]
    length: WindowLength
    omitted: Omissions
    refusals: Refusals | None
    summary_failures: int
    summary_failed_at: datetime | None
    active_run: ActiveRun | None


def compacted(state: ShownConversation, event: ConversationCompacted) -> None:
    """A summary stands in the place of the older messages."""
    evict(state, len(event.evicted), event.message)
    if event.model is not None:
        state.summary_failures, state.summary_failed_at = 0, None
    elif event.failures:
        state.summary_failures += 1
        state.summary_failed_at = event.timestamp
    if state.active_run is not None:
        state.active_run.compactions += 1
        state.active_run.last_number = event.number + served_parts(event.message) - 1


def cleared(state: ShownConversation, event: ContextCleared) -> None:
    """Only the system message is left, and what came since."""
    evict(state, len(event.evicted))


def evict(state: ShownConversation, count: int, *summaries: Message) -> None:
    """The messages behind the system message are gone, so many; a summary may stand for them."""
    for message in state.window[1 : 1 + count]:
        state.length.add(message, -1)
        if message.summary is None:
            state.length.evicted += 1
    for message in summaries:
        state.length.add(message)
    state.window[1 : 1 + count] = summaries
    state.omitted = moved(state.omitted, state.window, count - len(summaries))
    if state.refusals is not None:
        before = moved(state.refusals.before, state.window, count - len(summaries))
        state.refusals = state.refusals.model_copy(update={"before": before})


def moved(omitted: Omissions, window: list[Message], by: int) -> Omissions:
    """What is left out of a window whose beginning is shorter by so many messages now."""
    if not omitted:
        return omitted
    left = {one.id for one in window} if omitted.messages else set()
    return omitted.model_copy(
        update={
            "messages": {name: why for name, why in omitted.messages.items() if name in left},
            "attachments_before": max(0, omitted.attachments_before - by),
            "all_before": max(0, omitted.all_before - by),
        }
    )
