"""What all providers over HTTP have in common: asking, and asking again."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Container, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Protocol

from pydantic_core import to_json

from libs.bus.clock_and_ids import SystemClock
from libs.bus.ports import Clock
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.token_estimates import message_bytes, schema_bytes
from services.agent.adapters.models.learned_models import LearnedModels
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    ModelEvent,
    ModelFailed,
    OddAnswer,
    ProviderUnreachable,
)
from services.agent.adapters.models.provider_error_words import (
    MISSHAPEN,
    TOO_LONG,
    error_words,
    failure_of,
    model_failure,
)
from services.agent.adapters.models.transport import (
    WORDS_MAX,
    Lost,
    Refused,
    TooLong,
    Wire,
    events_in,
)
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply

log = logging.getLogger(__name__)

TRIES_MAX = 3
PAUSE_SECONDS = (0.5, 1.0)
PAUSE_SPREAD = 0.25
PAUSE_SECONDS_MAX = 60.0

# Hardly any text has more tokens than this makes of it.
TOKEN_BYTES_MIN = 2

LAST_EVENT = b"[DONE]"
# The names that the libraries under a wire give to what goes wrong, in their words for it.
ERROR_NAMES = re.compile(r"\b\w+(?:Error|Exception)\b:? ?")
NOTHING = "there was nothing in it"

# Of the models that an endpoint lists.
MODELS_MAX = 2_000
NAME_CHARS_MAX = 200

HIDDEN = "***"

# The statuses with which servers refuse a parameter.
PARAMETER_STATUSES = (400, 422)


class StreamedAnswer(Protocol):
    """An answer whose events come one after the other; a whole answer is one event. `has_begun`
    says that something of it came."""

    has_begun: bool

    @property
    def whole(self) -> bool:
        """Whether the answer has come to its end."""
        ...

    def read(self, data: bytes) -> list[ModelDelta]:
        """The chunks of one event. Raises Refused if it tells of an error, and OddAnswer."""
        ...

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last chunks, and the whole. Raises OddAnswer if there was no answer."""
        ...


class HttpProvider(ABC):
    """A provider in its own words; the wire carries them."""

    name: str
    path: str
    # What a request need not have, with other names that errors call it by.
    optional: Mapping[str, tuple[str, ...]]
    # Those of these that keep room in the window for the answer.
    answer_room: tuple[str, ...] = ()

    def __init__(
        self, base_url: str, wire: Wire, secrets: Sequence[str] = (), clock: Clock | None = None
    ) -> None:
        self.base_url = base_url
        self.wire = wire
        self.secrets = secrets
        self.learned = LearnedModels(clock or SystemClock())

    @property
    def endpoint(self) -> str:
        """The provider and its address, as error messages name it."""
        return f"{self.name} at {self.base_url}"

    @abstractmethod
    def body(self, request: ModelRequest) -> JsonObject:
        """The request in the provider's words."""

    def content(self, request: ModelRequest, omitted: Container[str]) -> bytes:
        """The same as JSON, without these of its parameters."""
        return to_json(without(self.body(request), omitted))

    def payload(self, request: ModelRequest) -> JsonObject:
        """What a model is sent for this request."""
        return without(self.body(request), self.omitted_parameters(request))

    def omitted_parameters(self, request: ModelRequest) -> frozenset[str]:
        """The parameters that are left out: those that the model refuses, and room for an answer
        that would leave less than half of the window for the question."""
        config = request.config.llm_config
        refused, window = (
            self.learned.omitted_parameters(config.model),
            self.window_tokens(config.model),
        )
        is_tight = window is not None and 2 * (config.max_tokens or 0) > window
        return refused.union(self.answer_room) if is_tight else refused

    def window_tokens(self, model: str) -> int | None:
        """How many tokens a model may be shown, where its server has said so in an error."""
        return self.learned.window(model)

    @abstractmethod
    def answer(self, request: ModelRequest) -> StreamedAnswer:
        """Return the reader that assembles the answer to this request."""

    @abstractmethod
    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """The language models and embedding models that the provider offers. Raises
        ProviderUnreachable."""

    async def close(self) -> None:
        """Close the connections of the wire."""
        await self.wire.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask a model for a whole step. Until the first chunk was shown, which cannot be taken
        back, what passes is tried again, and what a server does not know is left out."""
        model, number = request.config.llm_config.model, 1
        omitted = self.omitted_parameters(request)
        while True:
            shown = False
            try:
                content = self.content(request, omitted)
                async with aclosing(self.ask_once(request, content)) as events:
                    async for event in events:
                        shown = True
                        self.learned.omit(model, omitted)
                        yield event
                return
            except ModelFailed as problem:
                self.learned.limit(model, problem.failure.window, tokens_max(request))
                refused = (
                    frozenset() if shown else self.refused_parameters(problem, request) - omitted
                )
                pause = 0.0 if refused else pause_before_another_try(problem, number)
                if shown or pause is None or (number == TRIES_MAX and not refused):
                    raise
            if refused:
                log.warning("%s does not take %s of %s", self.endpoint, sorted(refused), model)
                omitted |= refused
                continue
            await asyncio.sleep(pause)
            number += 1

    def refused_parameters(self, problem: ModelFailed, request: ModelRequest) -> frozenset[str]:
        """The optional parameters that an error says are not taken. A request that is too long
        names some as well, but is to blame itself, unless it wants too much room for the answer."""
        refused = problem.__cause__
        if not isinstance(refused, Refused) or refused.status not in PARAMETER_STATUSES:
            return frozenset()
        error = error_words(refused.body)
        body = self.body(request)
        if error.blames_room_for_answer:
            return frozenset(filter(body.__contains__, self.answer_room))
        if problem.failure.error_type == TOO_LONG:
            return frozenset()
        sent = self.optional.keys() & body.keys()
        aliases = {alias: name for name in sent for alias in (name, *self.optional[name])}
        return frozenset(aliases[name] for name in error.refused_parameters(aliases))

    async def data(self, request: ModelRequest, content: bytes) -> AsyncGenerator[bytes]:
        """The data of the events that answer a request; whether they come as they are made, is
        as the request wants."""
        if request.stream_tokens:
            async with aclosing(self.wire.events(self.path, content)) as events:
                async for data in events:
                    yield data
        else:
            for data in events_in(await self.wire.post(self.path, content)):
                yield data

    async def ask_once(self, request: ModelRequest, content: bytes) -> AsyncGenerator[ModelEvent]:
        """Ask the provider once. Raises ModelFailed."""
        with self.failures():
            answer, heard, is_over, shown = self.answer(request), 0, False, False
            try:
                async with aclosing(self.data(request, content)) as events:
                    async for data in events:
                        if is_over := data == LAST_EVENT:
                            break
                        heard += 1
                        for chunk in answer.read(data):
                            if request.stream_tokens:
                                shown = True
                                yield chunk
            except Lost:
                if not (shown and answer.whole):  # else nothing but the end of the stream is lost
                    raise
            # One chunk of data that begins no answer is no part of one.
            if not (answer.whole or is_over) and (answer.has_begun or heard != 1):
                raise Lost(EOFError("it ended in the middle" if heard else NOTHING), cut=True)
            last, reply = answer.end()
            for chunk in last if request.stream_tokens else ():
                yield chunk
            yield Finished(reply)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Say in our words why there is no answer."""
        try:
            yield
        except Refused as refused:
            text = refused.text[:WORDS_MAX]
            failure = failure_of(self.endpoint, refused.status, refused.body, text)
            raise ModelFailed(self.without_secrets(failure)) from refused
        except Lost as lost:
            failure = self.failure_of_lost(lost)
            raise ModelFailed(self.without_secrets(failure)) from lost
        except TooLong as endless:
            message = f"The answer of {self.endpoint} is too long: {endless}"
            raise model_failure("llm_error", message) from endless
        except OddAnswer as odd:
            failure = self.failure_of_odd(str(odd))
            raise ModelFailed(self.without_secrets(failure)) from odd
        except MISSHAPEN as odd:
            log.exception("an answer of %s was not expected", self.endpoint)
            raise ModelFailed(self.failure_of_odd("it has another form")) from odd

    def failure_of_odd(self, why: str) -> Failure:
        """An answer came that is none."""
        message = f"The answer of {self.endpoint} cannot be understood: {why}"
        return model_failure("llm_error", message, why).failure

    def failure_of_lost(self, lost: Lost) -> Failure:
        """Why there was no answer, or none to its end."""
        if lost.late:
            return model_failure("llm_timeout", f"{self.endpoint} did not answer in time").failure
        what = "broke off its answer" if lost.cut else "cannot be reached"
        why = ERROR_NAMES.sub("", lost.why) or "the connection was lost"
        return model_failure("llm_connection_error", f"{self.endpoint} {what}: {why}", why).failure

    def without_secrets(self, failure: Failure) -> Failure:
        """The same for everybody's eyes: a provider may tell what it was asked by."""
        detail = None if failure.detail is None else self.hide_secrets(failure.detail)
        return replace(failure, message=self.hide_secrets(failure.message), detail=detail)

    def hide_secrets(self, text: str) -> str:
        """The text with the endpoint's secrets replaced."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    async def list_models(self, path: str, parameters: JsonObject) -> list[JsonObject]:
        """The endpoint's own list of models, without those whose names cannot be used. Raises
        ProviderUnreachable."""
        try:
            listed = json.loads(await self.wire.get(path, parameters))
        except (Refused, Lost, TooLong, ValueError, RecursionError) as problem:
            raise ProviderUnreachable(self.hide_secrets(f"{self.base_url}: {problem}")) from None
        found = listed.get("data") if isinstance(listed, dict) else listed
        entries = found if isinstance(found, list) else []  # some servers send the list alone
        return [entry for entry in entries if is_named(entry)][:MODELS_MAX]


def without(body: JsonObject, omitted: Container[str]) -> JsonObject:
    """A request without these of its parameters."""
    return {name: value for name, value in body.items() if name not in omitted}


def tokens_max(request: ModelRequest) -> int:
    """As many tokens as a question hardly has more of."""
    weight = sum(map(message_bytes, request.messages)) + schema_bytes(request.tools)
    return weight // TOKEN_BYTES_MIN


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
        case Refused() if problem.failure.error_type == TOO_LONG:
            return None
        case Refused(passing=False):
            return None
        case Refused(pause=float(seconds)):
            return max(seconds, 0.0) if seconds <= PAUSE_SECONDS_MAX else None
        case Refused() | Lost():
            return usual
        case _:
            return None


def seed_of(request: ModelRequest) -> str:
    """What tells the answer to this request from others."""
    return request.messages[-1].id
