"""Requests of servers to models in the course of a call (`sampling/createMessage`), in the words of
the port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import mcp_types
from mcp.client.session import ClientRequestContext
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST

from libs.contracts.bus_messages import Json
from libs.telemetry import metrics
from services.tools.adapters.mcp.ports import (
    Sampler,
    SamplingAnswer,
    SamplingMessage,
    SamplingOutcome,
    SamplingRefused,
    SamplingRequest,
)

log = logging.getLogger(__name__)

# Of one request: its texts and images, as they came.
REQUEST_BYTES_MAX = 1 << 20
MESSAGES_MAX = 100
STOP_SEQUENCES_MAX = 16
TEMPERATURE_MAX = 2.0
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

type Answer = mcp_types.CreateMessageResult | mcp_types.ErrorData

# The call in whose course something is done, where a transport tells.
CALL: ContextVar[Sampler | None] = ContextVar("CALL", default=None)


@dataclass(slots=True)
class SampledCall:
    """A call that is under way: how often its server has asked, and what it waits for."""

    asked: int = 0
    tasks: set[asyncio.Task[Answer]] = field(default_factory=set)


class SessionSampling:
    """Answers a server in one session, whose calls are all of one agent."""

    def __init__(self) -> None:
        self.calls: dict[Sampler, SampledCall] = {}

    @contextmanager
    def during(self, sampler: Sampler) -> Iterator[None]:
        """A call, in whose course the server may ask; what is not answered then never is."""
        call = self.calls[sampler] = SampledCall()
        token = CALL.set(sampler)
        try:
            yield
        finally:
            CALL.reset(token)
            del self.calls[sampler]
            for task in call.tasks:
                task.cancel()

    async def answer(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> Answer:
        """Answer a request. Streamable HTTP tells in the course of which call it is made; else it
        is the one that has made the fewest."""
        sampler = CALL.get()
        if sampler not in self.calls:
            sampler = min(self.calls, key=lambda caller: self.calls[caller].asked, default=None)
        if sampler is None:
            count("outside_of_a_call")
            return error("A model is asked only while a tool of this server is called")
        call = self.calls[sampler]
        call.asked += 1
        task = asyncio.create_task(answer_server(sampler, params))
        call.tasks.add(task)
        task.add_done_callback(call.tasks.discard)
        try:
            await asyncio.wait({task})
            return error("The call of the tool is over") if task.cancelled() else task.result()
        finally:
            task.cancel()


async def answer_server(sampler: Sampler, params: mcp_types.CreateMessageRequestParams) -> Answer:
    """The answer to a server that asks for a model in the course of a call."""
    try:
        answer = await sampler(request_of(params))
    except SamplingRefused as refused:
        count(refused.outcome)
        return error(refused.words, INTERNAL_ERROR if refused.outcome == "failed" else None)
    except asyncio.CancelledError:
        count("abandoned")
        raise
    except Exception:
        log.exception("a server is not answered")
        count("failed")
        return error("The model could not be asked", INTERNAL_ERROR)
    count("answered")
    return result_of(answer)


def error(words: str, code: int | None = None) -> mcp_types.ErrorData:
    """Why there is no answer, as a server reads it."""
    return mcp_types.ErrorData(code=code or INVALID_REQUEST, message=words)


def count(outcome: SamplingOutcome) -> None:
    """Have operators see what came of a request."""
    metrics.MCP_SAMPLING_REQUESTS.labels(outcome).inc()


def request_of(params: mcp_types.CreateMessageRequestParams) -> SamplingRequest:
    """The request. Preferences for a model and more context are advice, which is not followed.
    Raises SamplingRefused."""
    if params.tools or params.tool_choice or params.task:
        words = "This client lets no model call tools, and has no tasks"
        raise SamplingRefused("unsupported", words)
    if not 0 < len(params.messages) <= MESSAGES_MAX:
        raise SamplingRefused("unsupported", f"`messages` must be 1 to {MESSAGES_MAX}")
    if params.max_tokens < 1:
        raise SamplingRefused("unsupported", "`maxTokens` must be above 0")
    if params.temperature is not None and not 0 <= params.temperature <= TEMPERATURE_MAX:
        words = f"`temperature` must be a number from 0 to {TEMPERATURE_MAX:g}"
        raise SamplingRefused("unsupported", words)
    stops = params.stop_sequences or []
    if len(stops) > STOP_SEQUENCES_MAX:
        words = f"`stopSequences` may be {STOP_SEQUENCES_MAX} at most"
        raise SamplingRefused("unsupported", words)
    if size_of(params) > REQUEST_BYTES_MAX:
        words = f"The request has more than {REQUEST_BYTES_MAX} bytes of text and images"
        raise SamplingRefused("too_large", words)
    return SamplingRequest(
        messages=tuple(
            SamplingMessage(role=message.role, content=content_of(message))
            for message in params.messages
        ),
        max_tokens=params.max_tokens,
        system_prompt=params.system_prompt,
        temperature=params.temperature,
        stop_sequences=tuple(stops),
    )


def size_of(params: mcp_types.CreateMessageRequestParams) -> int:
    """The bytes of a request that a model would be shown."""
    texts = [params.system_prompt or "", *(params.stop_sequences or [])]
    for part in (part for message in params.messages for part in message.content_as_list):
        match part:
            case mcp_types.TextContent():
                texts.append(part.text)
            case mcp_types.ImageContent():
                texts.append(part.data)
    return sum(len(text.encode()) for text in texts)


def content_of(message: mcp_types.SamplingMessage) -> Json:
    """The content of a message, in parts. Raises SamplingRefused."""
    parts: list[Json] = []
    for part in message.content_as_list:
        match part:
            case mcp_types.TextContent():
                parts.append({"type": "text", "text": part.text})
            case mcp_types.ImageContent(mime_type=kind) if (
                message.role == "user" and kind in IMAGE_TYPES
            ):
                source: Json = {"type": "base64", "media_type": kind, "data": part.data}
                parts.append({"type": "image", "source": source})
            case _:
                words = (
                    "A message may hold text, and one of the user images of these types: "
                    + ", ".join(sorted(IMAGE_TYPES))
                )
                raise SamplingRefused("unsupported", words)
    return parts


def result_of(answer: SamplingAnswer) -> mcp_types.CreateMessageResult:
    """The model's answer, as a server reads it."""
    return mcp_types.CreateMessageResult(
        role="assistant",
        content=mcp_types.TextContent(type="text", text=answer.text),
        model=answer.model,
        stop_reason=answer.stop_reason,
    )
