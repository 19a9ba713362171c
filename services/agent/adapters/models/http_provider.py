"""The common part of all providers over HTTP: requests and retries."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Container, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Protocol

from libs.bus.clock_and_ids import SystemClock
from libs.bus.ports import Clock
from libs.contracts.agent.conversations import ReasoningPart
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.token_estimates import message_bytes, schema_bytes
from services.agent.adapters.models.learned_models import LearnedModels
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    ModelEvent,
    ModelFailed,
    NoModelList,
    OddAnswer,
    ProviderUnreachable,
    is_usable,
)
from services.agent.adapters.models.provider_error_words import (
    MISSHAPEN,
    TOO_LONG,
    error_words,
    failure_of,
    model_failure,
    names,
)
from services.agent.adapters.models.rendered_tools import RenderedTools, json_around
from services.agent.adapters.models.transport import (
    LIST_SECONDS_MAX,
    PASSING_STATUSES,
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

# With what an answer may end that says nothing; and the reason of one that is not whole.
GOOD_ENDS = ("stop", "length", "content_filter")
BROKEN_OFF = "error"

# Of the models that an endpoint lists.
MODELS_MAX = 2_000

HIDDEN = "***"

# The statuses of a path that a server does not have.
NOT_THERE = (404, 405, 501)
# The statuses with which a key is refused.
KEY_REFUSED = (401, 403)

# The statuses with which servers refuse a parameter.
PARAMETER_STATUSES = (400, 422)


class StreamedAnswer(Protocol):
    """An answer whose events come one after the other; a whole answer is one event. `has_begun`
    says that something of it came."""

    has_begun: bool

    @property
    def whole(self) -> bool:
        """Whether the answer has come to its end."""

    def read(self, data: bytes) -> list[ModelDelta]:
        """The chunks of one event. Raises Refused if it tells of an error, and OddAnswer."""

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last chunks, and the whole. Raises OddAnswer if there was no answer."""


class HttpProvider(ABC):
    """A provider in its own words; the wire carries them."""

    name: str
    path: str
    # What a request need not have, with other names that errors call it by.
    optional: Mapping[str, tuple[str, ...]]
    # Those of these that keep room in the window for the answer.
    answer_room: tuple[str, ...] = ()
    # The config of an embedding model of a name, where the provider has such models.
    named_embedding: Callable[[str], EmbeddingConfig] | None = None

    def __init__(
        self,
        base_url: str,
        wire: Wire,
        tools: RenderedTools,
        secrets: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self.base_url = base_url
        self.wire = wire
        self.tools = tools
        self.secrets = secrets
        self.has_no_list = False
        self.learned = LearnedModels(clock or SystemClock())

    @property
    def endpoint(self) -> str:
        """The provider and its address, as error messages name it."""
        return f"{self.name} at {self.base_url}"

    @abstractmethod
    def body(self, request: ModelRequest, omitted: Container[str] = ()) -> JsonObject:
        """The request in the provider's words, with an empty list in the place of its tools, and
        without those of its messages' parts that are omitted."""

    def content(self, request: ModelRequest, tools: bytes, omitted: Container[str]) -> bytes:
        """All of the request as JSON, without these of its parameters."""
        return json_around(without(self.body(request, omitted), omitted), tools)

    async def payload(self, request: ModelRequest) -> bytes:
        """The body of a request to the model."""
        tools = await self.tools.of(request.tools)
        return self.content(request, tools, self.omitted_parameters(request))

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
        """The size of a model's window in tokens, where its server has said so in an error."""
        return self.learned.window(model)

    @abstractmethod
    def answer(self, request: ModelRequest) -> StreamedAnswer:
        """Return the reader that assembles the answer to this request."""

    @abstractmethod
    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """The language models and embedding models that the provider offers. Raises
        ProviderUnreachable."""

    @abstractmethod
    def named_model(self, name: str) -> LLMConfig:
        """The config of a model of this name, whether it is listed or not."""

    async def close(self) -> None:
        """Close the connections of the wire."""
        await self.wire.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask a model for a whole step. An answer without words and calls is asked for once more
        where that may help: the thoughts of both are shown, and are the whole."""
        earlier: ModelReply | None = None
        while True:
            try:
                async with aclosing(self.one_answer(request)) as events:
                    shown = False
                    async for event in events:
                        if isinstance(event, Finished):
                            reply = event.reply if earlier is None else behind(earlier, event.reply)
                        else:
                            shown = True
                            yield event
            except ModelFailed:
                if shown or earlier is None or not is_enough(earlier):
                    raise
                break  # it was asked for more, and need not have been
            if earlier is not None or not may_say_more(reply, request):
                break
            log.warning("%s answered without words: %s", self.endpoint, reply.finish_reason)
            earlier = reply
        if is_wordless(reply) and reply.finish_reason not in GOOD_ENDS and not reply.reasoning:
            why = f"it has no words and no calls, and ends with {reply.finish_reason!r}"
            raise ModelFailed(self.failure_of_odd(why))
        yield Finished(reply)

    async def one_answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """One answer of a model. Until the first chunk was shown, which cannot be taken back, what
        passes is tried again, and what a server does not know is left out."""
        model, number = request.config.llm_config.model, 1
        omitted, tools = self.omitted_parameters(request), await self.tools.of(request.tools)
        while True:
            shown = False
            try:
                content = self.content(request, tools, omitted)
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
        error, sent = error_words(refused.body), self.sent_parameters(request)
        if error.blames_room_for_answer:
            return frozenset(sent.intersection(self.answer_room))
        if problem.failure.error_type == TOO_LONG:
            return frozenset()
        aliases = {name: {name, *self.optional[name]} for name in sent}
        named = error.refused_parameters(set().union(*aliases.values()))
        return frozenset(name for name in sent if named & aliases[name])

    def sent_parameters(self, request: ModelRequest) -> set[str]:
        """The names of what a request has that it need not have."""
        return self.optional.keys() & self.body(request).keys()

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
            odd: OddAnswer | None = None
            try:
                async with aclosing(self.data(request, content)) as events:
                    async for data in events:
                        if is_over := data == LAST_EVENT:
                            break
                        heard += 1
                        try:
                            chunks = answer.read(data)
                        except OddAnswer as problem:
                            if data.startswith(b"{"):
                                raise
                            odd = problem  # a sign of life; where nothing else comes, the answer
                            continue
                        for chunk in chunks:
                            if request.stream_tokens:
                                shown = True
                                yield chunk
            except Lost:
                if not (shown and answer.whole):  # else nothing but the end of the stream is lost
                    raise
            if odd and not answer.has_begun and (is_over or heard == 1):
                raise odd
            # One chunk of data that begins no answer is no part of one.
            if not (answer.whole or is_over) and (answer.has_begun or heard != 1):
                raise Lost(EOFError("it ended in the middle" if heard else NOTHING), cut=True)
            last, reply = answer.end()
            if reply.finish_reason == BROKEN_OFF:
                raise Lost(EOFError(f"it ends with the reason {BROKEN_OFF!r}"), cut=True)
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

    async def takes_questions(self, *, key_refused: bool = False) -> bool:
        """Whether the endpoint knows the path of questions: it is sent one that asks nothing."""
        try:
            async with asyncio.timeout(LIST_SECONDS_MAX):
                await self.wire.post(self.path, b"{}")
        except Refused as refused:
            if refused.status in NOT_THERE:
                # Where the model is missing, a server may say that there is none of this name.
                return names(refused.text, "model")
            return not (key_refused and refused.status in KEY_REFUSED)
        except (Lost, TooLong, TimeoutError):
            return False
        return True

    async def list_models(self, path: str, parameters: JsonObject) -> list[JsonObject]:
        """The endpoint's own list of models, without those whose names cannot be used. Raises
        ProviderUnreachable, and NoModelList."""
        try:
            listed = json.loads(await self.wire.get(path, parameters))
        except (Refused, Lost, TooLong, ValueError, RecursionError) as problem:
            # What passes says nothing of the list; nor does a key that is refused for all.
            status = problem.status if isinstance(problem, Refused) else 200
            lasts = (status < 500 and status not in PASSING_STATUSES) or status in NOT_THERE
            if lasts and not isinstance(problem, Lost):
                await self.go_without_list(key_refused=status in KEY_REFUSED)
            raise ProviderUnreachable(self.hide_secrets(f"{self.base_url}: {problem}")) from None
        found = listed.get("data") if isinstance(listed, dict) else listed
        if not isinstance(found, list):  # some servers send the list alone, others none
            await self.go_without_list()
            raise ProviderUnreachable(f"{self.base_url}: its list of models is none")
        return [entry for entry in found if is_named(entry)][:MODELS_MAX]

    async def go_without_list(self, *, key_refused: bool = False) -> None:
        """Raises NoModelList where the endpoint answers questions all the same."""
        self.has_no_list = self.has_no_list or await self.takes_questions(key_refused=key_refused)
        if self.has_no_list:
            raise NoModelList(self.endpoint, self.named_model, self.named_embedding) from None


def is_wordless(reply: ModelReply) -> bool:
    """Whether an answer has neither words nor calls."""
    return not (reply.text.strip() or reply.tool_calls)


def is_enough(reply: ModelReply) -> bool:
    """Whether an answer without words can stand: it has thoughts, and ended well."""
    thinks = bool(reply.reasoning or reply.reasoning_parts)
    return thinks and reply.finish_reason in GOOD_ENDS


def may_say_more(reply: ModelReply, request: ModelRequest) -> bool:
    """Whether to ask again for an answer that says nothing: one that ended with a fault, stopped
    behind its thoughts, or owes the user a word. One that used up its tokens would do so again."""
    if not is_wordless(reply) or reply.finish_reason == "length":
        return False
    thinks = bool(reply.reasoning or reply.reasoning_parts)
    is_owed = request.messages[-1].role in ("user", "system")
    return thinks or is_owed or reply.finish_reason not in GOOD_ENDS


def behind(earlier: ModelReply, reply: ModelReply) -> ModelReply:
    """An answer behind one that said nothing, as one answer."""
    return replace(
        reply,
        text=earlier.text + reply.text,
        reasoning=(earlier.reasoning or "") + (reply.reasoning or "") or None,
        # No server signed those together with what follows now.
        reasoning_parts=[
            *(ReasoningPart(text=part.text) for part in earlier.reasoning_parts if part.text),
            *reply.reasoning_parts,
        ],
        finish_reason=reply.finish_reason
        if reply.finish_reason != "stop" or not is_wordless(reply)
        else earlier.finish_reason,
        reasoning_field=reply.reasoning_field or earlier.reasoning_field,
        usage=earlier.usage.plus(reply.usage),
        asked_twice=True,
    )


def without(body: JsonObject, omitted: Container[str]) -> JsonObject:
    """A request without these of its parameters."""
    return {name: value for name, value in body.items() if name not in omitted}


def tokens_max(request: ModelRequest) -> int:
    """As many tokens as a question hardly has more of."""
    weight = sum(map(message_bytes, request.messages)) + schema_bytes(request.tools)
    return weight // TOKEN_BYTES_MIN


def is_named(entry: object) -> bool:
    """Whether an entry of a list of models has a name that can be kept."""
    return isinstance(entry, dict) and is_usable(entry.get("id"))


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
    """The key that sets this request's answer apart from others."""
    return request.messages[-1].id
