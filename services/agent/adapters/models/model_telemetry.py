"""Telemetry of models: a span for each step, its duration and its cost."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from libs.bus.ports import Clock
from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.telemetry import metrics, span_attributes, tracing
from libs.telemetry.span_attributes import Attributes, Value
from libs.telemetry.tracing import UNSEEN, Span
from services.agent.adapters.models.ports import Finished, ModelEvent, ModelFailed, Provider
from services.agent.adapters.telemetry import about
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply

ANSWERED = "answered"
ABANDONED = "abandoned"


class ObservedProvider:
    """A provider whose answers are seen."""

    def __init__(self, provider: Provider, clock: Clock) -> None:
        self.name = provider.name
        self.provider = provider
        self.clock = clock

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The same answer. It is over when it is whole, however long the reader takes then."""
        call = ModelCall(self.name, request, self.clock)
        try:
            async with aclosing(self.provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        call.record_answer(event.reply)
                    yield event
        except ModelFailed as failed:
            call.over(failed.failure.error_type)
            raise
        finally:
            call.over(ABANDONED)

    async def payload(self, request: ModelRequest) -> bytes:
        """The body of a request to the model, as JSON."""
        return await self.provider.payload(request)

    def window_tokens(self, model: str) -> int | None:
        """The size of a model's window in tokens."""
        return self.provider.window_tokens(model)

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        return await self.provider.models()

    async def close(self) -> None:
        await self.provider.close()


class ModelCall:
    """One call of a model. Not a `with`: the reader may leave a generator from another context."""

    def __init__(self, provider: str, request: ModelRequest, clock: Clock) -> None:
        self.provider = provider
        self.model = request.config.llm_config.model
        self.clock = clock
        self.began = clock.monotonic()
        self.span = chatting(provider, request)
        self.outcome: str | None = None

    def record_answer(self, reply: ModelReply) -> None:
        """Count the answer's tokens, note it on the span and end the call."""
        usage = reply.usage
        for kind, tokens in (
            ("input", usage.prompt_tokens),
            ("output", usage.completion_tokens),
            ("cached_input", usage.cached_input_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            if tokens:
                metrics.MODEL_TOKENS.labels(self.provider, self.model, kind).inc(tokens)
        if self.span is not UNSEEN:
            self.span.note(answer_of(reply))
        self.over(ANSWERED)

    def over(self, outcome: str) -> None:
        """The call has come to an end; the first that is told counts."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if outcome != ANSWERED:
            self.span.mark_failed(outcome)
        self.span.end()
        metrics.MODEL_CALLS.labels(self.provider, self.model, outcome).inc()
        seconds = self.clock.monotonic() - self.began
        metrics.MODEL_SECONDS.labels(self.provider, self.model).observe(seconds)


def chatting(provider: str, request: ModelRequest) -> Span:
    """The span of a model's step."""
    tracer = tracing.tracer()
    if tracer is None:
        return UNSEEN
    config = request.config.llm_config
    attributes: dict[str, Value] = {
        **about.get(),
        span_attributes.OPERATION: span_attributes.CHAT,
        span_attributes.PROVIDER: provider,
        span_attributes.REQUEST_MODEL: config.model,
        span_attributes.REQUEST_TEMPERATURE: config.temperature,
    }
    if config.max_tokens:
        attributes[span_attributes.REQUEST_TOKENS_MAX] = config.max_tokens
    if tracer.content:
        attributes[span_attributes.INPUT_MESSAGES] = json.dumps(
            list(map(message_fields, request.messages))
        )
    return tracer.span(f"{span_attributes.CHAT} {config.model}", "client", attributes)


def answer_of(reply: ModelReply) -> Attributes:
    """The attributes of a step's span once there is an answer."""
    usage = reply.usage
    attributes: dict[str, Value] = {
        span_attributes.FINISH_REASONS: [reply.finish_reason],
        span_attributes.INPUT_TOKENS: usage.prompt_tokens,
        span_attributes.OUTPUT_TOKENS: usage.completion_tokens,
        span_attributes.CACHE_READ_TOKENS: usage.cached_input_tokens,
        span_attributes.CACHE_CREATION_TOKENS: usage.cache_write_tokens,
        span_attributes.REASONING_TOKENS: usage.reasoning_tokens,
    }
    tracer = tracing.tracer()
    if tracer is not None and tracer.content:
        parts = [*texts(reply.text), *map(call_fields, reply.tool_calls)]
        output = {"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason}
        attributes[span_attributes.OUTPUT_MESSAGES] = json.dumps([output])
    return attributes


def message_fields(message: Message) -> JsonObject:
    """A message as OpenTelemetry's conventions write it."""
    if message.role == "tool":
        result: JsonObject = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "result": text_of(message),
        }
        return {"role": "tool", "parts": [result]}
    parts: list[Json] = [*texts(text_of(message)), *map(call_fields, message.tool_calls)]
    return {"role": message.role, "parts": parts}


def texts(text: str) -> list[Json]:
    """The texts of the answer, if it has any."""
    return [{"type": "text", "content": text}] if text else []


def call_fields(call: ToolCall) -> JsonObject:
    """A tool call as OpenTelemetry's conventions write it."""
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
