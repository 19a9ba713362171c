"""What all providers over HTTP have in common: asking, and asking again."""

from __future__ import annotations

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.adapters.models.model_errors import MISSHAPEN, failed, misunderstood
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    ModelEvent,
    ModelFailed,
    ProviderUnreachable,
)
from services.agent.adapters.models.transport import WORDS_MAX, Lost, Refused, TooLong, Wire
from services.agent.domain.model_context import ModelRequest
from services.agent.domain.step_results import Failure, ModelReply

TRIES_MAX = 3
PAUSE_SECONDS = (0.5, 1.0)
PAUSE_SPREAD = 0.25
PAUSE_SECONDS_MAX = 60.0

LAST_EVENT = b"[DONE]"

# Of the models that an endpoint lists.
MODELS_MAX = 2_000
NAME_CHARS_MAX = 200

HIDDEN = "***"

# How a stream may say that it breaks off so that another try makes sense.
PASSING = ("llm_provider_overloaded", "llm_rate_limit")


class StreamedAnswer(Protocol):
    """An answer whose events come one after the other."""

    @property
    def whole(self) -> bool:
        """Whether the answer has come to its end."""
        ...

    def read(self, data: bytes) -> list[ModelDelta]:
        """The pieces of one event. Raises ModelFailed if it tells of an error."""
        ...

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last pieces, and the whole."""
        ...


class HttpProvider(ABC):
    """A provider in its own words; the wire carries them."""

    name: str
    path: str

    def __init__(self, base_url: str, wire: Wire, secrets: Sequence[str] = ()) -> None:
        self.base_url = base_url
        self.wire = wire
        self.secrets = secrets

    @abstractmethod
    def body(self, request: ModelRequest) -> JsonObject:
        """The request in the provider's words."""

    def content(self, request: ModelRequest) -> bytes:
        """The same as JSON."""
        return to_json(self.body(request))

    def payload(self, request: ModelRequest) -> JsonObject:
        """What a model is sent for this request."""
        return self.body(request)

    @abstractmethod
    def reply(self, body: Any, request: ModelRequest) -> ModelReply:
        """A whole answer in our words."""

    @abstractmethod
    def answer(self, request: ModelRequest) -> StreamedAnswer:
        """What reads an answer that comes in pieces."""

    @abstractmethod
    def refusal(self, status: int, body: Json, text: str) -> Failure:
        """An HTTP error in our words; `body` is `text` as JSON, or None."""

    @abstractmethod
    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """What the provider offers."""

    async def close(self) -> None:
        """Close the connections."""
        await self.wire.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask a model for a whole step. What passes is tried again until the first piece was
        shown, which cannot be taken back."""
        content = self.content(request)
        for number in range(1, TRIES_MAX + 1):
            shown = False
            try:
                async with aclosing(self.one_try(request, content)) as events:
                    async for event in events:
                        shown = True
                        yield event
            except ModelFailed as problem:
                pause = pause_before_another_try(problem, number)
                if shown or pause is None or number == TRIES_MAX:
                    raise
            else:
                return
            await asyncio.sleep(pause)

    async def one_try(self, request: ModelRequest, content: bytes) -> AsyncGenerator[ModelEvent]:
        """Ask once."""
        with self.failures():
            if not request.stream_tokens:
                body = json.loads(await self.wire.post(self.path, content))
                yield Finished(self.reply(body, request))
                return
            answer = self.answer(request)
            async with aclosing(self.wire.events(self.path, content)) as events:
                async for data in events:
                    if data == LAST_EVENT:
                        break
                    for piece in answer.read(data):
                        yield piece
            if not answer.whole:
                raise Lost(EOFError("the stream ended in the middle of the answer"))
            last, reply = answer.end()
            for piece in last:
                yield piece
            yield Finished(reply)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Say in our words why there is no answer."""
        try:
            yield
        except ModelFailed as told:
            raise ModelFailed(self.without_secrets(told.failure)) from told.__cause__
        except Refused as refused:
            failure = self.refusal(refused.status, refused.body, refused.text[:WORDS_MAX])
            raise ModelFailed(self.without_secrets(failure)) from refused
        except Lost as lost:
            failure = self.failure_of_lost(lost)
            raise ModelFailed(self.without_secrets(failure)) from lost
        except TooLong as endless:
            raise failed("llm_error", "The model's answer is too long", endless) from endless
        except MISSHAPEN as odd:
            raise misunderstood(odd) from odd

    def failure_of_lost(self, lost: Lost) -> Failure:
        """Why there was no answer, or none to its end."""
        if lost.late:
            return failed("llm_timeout", "The model did not answer in time", lost).failure
        reason = f"The model at {self.base_url} cannot be reached"
        return failed("llm_connection_error", reason, lost).failure

    def without_secrets(self, failure: Failure) -> Failure:
        """The same for everybody's eyes: a provider may tell what it was asked by."""
        detail = None if failure.detail is None else self.hidden(failure.detail)
        return replace(failure, message=self.hidden(failure.message), detail=detail)

    def hidden(self, text: str) -> str:
        """A text without the secrets of the endpoint."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    async def listed(self, path: str, parameters: JsonObject) -> list[JsonObject]:
        """The models that the endpoint lists, without those that nobody could name."""
        try:
            listed = json.loads(await self.wire.get(path, parameters))
        except (Refused, Lost, TooLong, ValueError, RecursionError) as problem:
            raise ProviderUnreachable(self.hidden(f"{self.base_url}: {problem}")) from None
        entries = listed.get("data") if isinstance(listed, dict) else None
        named = [one for one in entries if is_named(one)] if isinstance(entries, list) else []
        return named[:MODELS_MAX]


def is_named(entry: object) -> bool:
    """Whether an entry of a list of models has a name that can be kept."""
    name = entry.get("id") if isinstance(entry, dict) else None
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARS_MAX and name.isprintable()


def pause_before_another_try(problem: ModelFailed, number: int) -> float | None:
    """Seconds to wait after try `number`, or None if another makes no sense: what the provider
    asks for, else a little more each time. What asks for too long is not tried again."""
    usual = PAUSE_SECONDS[min(number, len(PAUSE_SECONDS)) - 1] * random.uniform(
        1 - PAUSE_SPREAD, 1 + PAUSE_SPREAD
    )
    match problem.__cause__:
        case Refused(passing=False):
            return None
        case Refused(pause=float(seconds)):
            return max(seconds, 0.0) if seconds <= PAUSE_SECONDS_MAX else None
        case Refused() | Lost():
            return usual
        case _:
            return usual if problem.failure.error_type in PASSING else None


def seed_of(request: ModelRequest) -> str:
    """What tells the answer to this request from others."""
    return request.messages[-1].id
