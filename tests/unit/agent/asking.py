"""How the tests of providers ask them, and what every provider's answer is checked for."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.bus_messages import JsonObject
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    Provider,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.adapters.models.transport import ProviderRequest, Refused, Wire
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import CONFIG, LLM, SYSTEM, message

SCHEMAS = [BASE_TOOLS[name].json_schema for name in ("memory_insert", "conversation_search")]


class GivenWire:
    """A wire whose answers are given: bodies, or the events of streams."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.closed = 0

    async def post(self, path: str, content: bytes) -> bytes:
        return json.dumps(self.answers.pop(0)).encode()

    async def events(self, path: str, content: bytes) -> AsyncGenerator[bytes]:
        try:
            for event in self.answers.pop(0):
                yield json.dumps(event).encode()
        finally:
            self.closed += 1

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        return json.dumps(self.answers.pop(0)).encode()

    async def close(self) -> None:
        pass


class RawWire(Wire):
    """A wire over which bytes come as they are given, in chunks of some size."""

    call_seconds_max = 60.0

    def __init__(self, *answers: bytes | Refused, chunk_bytes: int = 2**16) -> None:
        self.answers = list(answers)
        self.chunk_bytes = chunk_bytes
        self.asked: list[Any] = []

    @asynccontextmanager
    async def stream(self, asked: ProviderRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(json.loads(asked.content or b"null"))
        body = self.answers.pop(0)
        if isinstance(body, Refused):
            raise body
        yield self.chunks(body)

    async def chunks(self, body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), self.chunk_bytes):
            yield body[start : start + self.chunk_bytes]

    async def close(self) -> None:
        pass


def ask(
    *messages: Message, tools: Any = SCHEMAS, parallel: bool = True, **llm: Any
) -> ModelRequest:
    config = CONFIG.model_copy(update={"llm_config": LLM.model_copy(update=llm)})
    return ModelRequest(config, list(messages), tools, parallel)


def script(text: str, **options: Any) -> ModelRequest:
    return ask(SYSTEM, message(50, role="user", content=text), **options)


async def reply_to(provider: Provider, request: ModelRequest) -> ModelReply:
    """The answer to somebody who does not want pieces."""
    events = [event async for event in provider.stream(request)]
    last = events[-1]
    assert isinstance(last, Finished)
    assert events[:-1] == [], "nobody asked for pieces"
    return last.reply


async def streamed(
    provider: Provider, request: ModelRequest, *, into: list[ModelDelta] | None = None
) -> tuple[list[ModelDelta], ModelReply]:
    """The pieces of an answer, and the whole, which must be their sum."""
    deltas: list[ModelDelta] = [] if into is None else into
    async with aclosing(provider.stream(replace(request, stream_tokens=True))) as events:
        async for event in events:
            if isinstance(event, Finished):
                check_sum(deltas, event.reply)
                assert [event async for event in events] == [], "nothing follows the whole"
                return deltas, event.reply
            deltas.append(event)
    raise AssertionError("the stream ended without the whole answer")


def check_sum(deltas: list[ModelDelta], reply: ModelReply) -> None:
    """The pieces are exactly the reply, no piece is empty, and calls come one after the other."""
    assert text_in(deltas) == reply.text
    assert reasoning_in(deltas) == (reply.reasoning or "")
    assert calls_in(deltas) == [
        call.model_copy(update={"extra": None}) for call in reply.tool_calls
    ]
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            assert bool(delta.name) != bool(delta.arguments), "a name, or some arguments"
        else:
            assert delta.text, "a piece is not empty"


def text_in(deltas: list[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def reasoning_in(deltas: list[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))


def calls_in(deltas: list[ModelDelta]) -> list[ToolCall]:
    """The calls that the pieces make up."""
    calls: list[ToolCall] = []
    for delta in deltas:
        if not isinstance(delta, ToolCallDelta):
            continue
        if delta.name is not None:
            assert delta.id not in [call.id for call in calls], "the name comes once"
            calls.append(ToolCall(id=delta.id, name=delta.name, arguments=""))
        else:
            assert calls, "the name comes first"
            assert delta.id == calls[-1].id, "the calls come one after the other"
            arguments = calls[-1].arguments + delta.arguments
            calls[-1] = calls[-1].model_copy(update={"arguments": arguments})
    return calls
