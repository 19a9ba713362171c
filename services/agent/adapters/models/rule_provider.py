"""Providers with one model whose answers are rules of this server, in the place of a language
model: they need no key and no network."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import batched

from libs.bus.fair_semaphore import NoPlace
from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.agent.adapters.models import openai_request
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    ModelEvent,
    ModelFailed,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.adapters.models.rendered_message_cache import RenderedMessages
from services.agent.adapters.models.rendered_tools import RenderedTools
from services.agent.domain.agents.model_config_resolution import llm_config
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply

# What the rules may look at on the event loop: about 20 ms of processor.
COMPARED_CHARS_MAX = 5_000_000
CHUNKS_MAX = 1_000  # of a reply: words of a longer one come several at once
CHUNK = re.compile(r"\s*\S+|\s+")
CHARS_PER_TOKEN = 4

type Rules = Callable[[ModelRequest], ModelReply]


class RuleProvider:
    """Keeps the contract of `Provider` for the model of one handle. Where its rules compare more
    than `COMPARED_CHARS_MAX` characters, they do so in a process of their own: what they look at is
    as long as clients like."""

    def __init__(
        self,
        handle: str,
        rules: Rules,
        compared_chars: Callable[[ModelRequest], int],
        *,
        context_window: int,
        output_tokens_max: int,
    ) -> None:
        self.name = handle.partition("/")[0]
        self.rules = rules
        self.compared_chars = compared_chars
        self.processes = LimitedProcesses(rules.__module__)
        self.tools = RenderedTools(openai_request.openai_tool)
        self.config = llm_config(
            handle,
            endpoint_type="openai",
            endpoint=None,
            context_window=context_window,
            max_tokens=output_tokens_max,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer by rule; a request for chunks gets one chunk for each word. Raises ModelFailed."""
        reply = await self.answer(request)
        if request.stream_tokens:
            if reply.reasoning:
                yield ReasoningDelta(reply.reasoning)
            for chunk in chunks_of(reply):
                yield chunk
        yield Finished(reply)

    async def answer(self, request: ModelRequest) -> ModelReply:
        """What the rules say. Raises ModelFailed."""
        if self.compared_chars(request) <= COMPARED_CHARS_MAX:
            return self.rules(request)
        agent = request.config
        try:
            return await self.processes.run(self.rules, request, org=agent.id)
        except LimitReached as reached:
            reason = f"{agent.llm_config.handle}: the conversation is too long for it: {reached}"
            raise ModelFailed(Failure("llm_error", reason)) from reached
        except NoPlace as full:
            raise ModelFailed(Failure("llm_provider_overloaded", full.reason)) from full

    async def close(self) -> None:
        """End what long conversations are read in; safe to repeat."""
        self.processes.close()

    async def payload(self, request: ModelRequest) -> bytes:
        """What it is asked, as a provider with OpenAI's API would be: it is sent nowhere."""
        kept = RenderedMessages(openai_request.rendered_messages)
        return openai_request.content_of(request, kept, await self.tools.of(request.tools))

    def window_tokens(self, _model: str) -> int | None:
        """Its window is as long as it says."""
        return None

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """The one language model, and no embedding models."""
        return [self.config], []


def chunks_of(reply: ModelReply) -> Iterator[ModelDelta]:
    """The answer word by word, as far as there are no more than `CHUNKS_MAX`."""
    for words_said in pieces_of(reply.text):
        yield TextDelta(words_said)
    for call in reply.tool_calls:
        yield ToolCallDelta(call.id, call.name)
        for words_said in pieces_of(call.arguments):
            yield ToolCallDelta(call.id, arguments=words_said)


def pieces_of(text: str) -> Iterator[str]:
    """The words of a text with the space before each, a few at once where there are many."""
    found = CHUNK.findall(text)
    at_once = 1 + len(found) // CHUNKS_MAX
    return map("".join, batched(found, at_once))


def usage_of(request: ModelRequest, text: str) -> Usage:
    """A guess at the tokens, by length."""
    shown = shown_chars(request)
    return Usage(
        prompt_tokens=shown // CHARS_PER_TOKEN, completion_tokens=len(text) // CHARS_PER_TOKEN + 1
    )


def shown_chars(request: ModelRequest) -> int:
    """How many characters the messages of a request have."""
    return sum(len(text_of(message)) for message in request.messages)
