"""Length of a window in memory, and the bytes in a token of its model.

The window is what models are shown. What it takes in memory is known at any time, without a look
at what is in it.
"""

from __future__ import annotations

from pydantic import BaseModel

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.token_estimates import BYTES_PER_TOKEN, stored_bytes

# What a provider counts is believed within these limits: some count nothing, or make it up.
BYTES_PER_TOKEN_MAX = 12
BYTES_PER_TOKEN_MIN = 1


class MeasuredPrompt(BaseModel):
    """The number of tokens that a provider counted last, and the bytes of that prompt."""

    model: str
    tokens: int
    bytes: int


class WindowLength(BaseModel):
    """The bytes of a window in memory, the number of messages that have left it, and the bytes in a
    token of its model."""

    bytes: int = 0
    evicted: int = 0
    measured: MeasuredPrompt | None = None

    def add(self, message: Message, sign: int = 1) -> None:
        """A message more, or with -1 a message less."""
        self.bytes += sign * stored_bytes(message)

    def bytes_per_token(self, model: str) -> float:
        """The bytes in a token of a model, as far as known."""
        if self.measured is None or self.measured.model != model:
            return BYTES_PER_TOKEN
        counted = self.measured.bytes / self.measured.tokens
        return min(max(counted, BYTES_PER_TOKEN_MIN), BYTES_PER_TOKEN_MAX)

    def measure(self, event: ModelReplied) -> None:
        """Keep how many tokens the provider counted in a prompt of known bytes."""
        if event.prompt_bytes and event.usage.prompt_tokens:
            self.measured = MeasuredPrompt(
                model=event.model, tokens=event.usage.prompt_tokens, bytes=event.prompt_bytes
            )
