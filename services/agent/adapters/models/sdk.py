"""Asking a provider through its official SDK, which brings transport, retries and errors."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_json

from libs.contracts.letta.model_requests import EmbeddingConfig, LLMConfig
from libs.contracts.message import JsonObject
from services.agent.adapters.models.failures import MISSHAPEN, failed, misunderstood
from services.agent.adapters.models.port import (
    Finished,
    ModelDelta,
    ModelEvent,
    ModelFailed,
    ProviderUnreachable,
)
from services.agent.domain.context import ModelRequest
from services.agent.domain.turn import Failure, ModelReply

if TYPE_CHECKING:
    import httpx2

REQUEST_SECONDS_MAX = 600.0
LIST_SECONDS_MAX = 5.0
RETRIES_MAX = 2
RETRY_SECONDS = 0.5

# How a stream may break that is worth another try, as long as nothing of it was shown.
PASSING = ("llm_connection_error", "llm_provider_overloaded", "llm_rate_limit")


class StreamedAnswer(Protocol):
    """An answer whose events come one after the other."""

    @property
    def whole(self) -> bool:
        """Whether the answer has come to its end."""
        ...

    def read(self, data: str) -> list[ModelDelta]:
        """The pieces of one event. Raises ModelFailed if it tells of an error."""
        ...

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last pieces, and the whole."""
        ...


class SdkProvider(ABC):
    """What the providers with an SDK from the same generator have in common.

    Bodies go in as they are and answers come out as lines: the SDKs' walk through typed messages
    costs 0.1 ms each, their objects for the events of a stream three times as much as reading the
    lines. Their aiohttp transport costs two thirds of the default one.
    """

    name: str
    path: str

    def __init__(self, api_key: str, base_url: str) -> None:
        self.api_key = api_key
        self.base_url = base_url
        self.opened: Any = None  # the SDK's client, which is typed only once it is imported

    @abstractmethod
    def sdk(self) -> Any:
        """The SDK's module, imported when it is first needed."""

    @abstractmethod
    def connect(self) -> Any:
        """A client of the SDK."""

    @abstractmethod
    def body(self, request: ModelRequest) -> JsonObject:
        """The request in the provider's words."""

    @abstractmethod
    def reply(self, body: Any, request: ModelRequest) -> ModelReply:
        """A whole answer in our words."""

    @abstractmethod
    def answer(self, request: ModelRequest) -> StreamedAnswer:
        """What reads an answer that comes in pieces."""

    @abstractmethod
    def refusal(self, status: int, body: object, text: str) -> Failure:
        """An HTTP error in our words."""

    @abstractmethod
    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """What the provider offers."""

    @property
    def client(self) -> Any:
        """The SDK's client."""
        if self.opened is None:
            self.opened = self.connect()
        return self.opened

    async def imported(self) -> Any:
        """The SDK's module. To import it takes seconds, in which others have work to do."""
        return self.sdk() if self.opened else await asyncio.to_thread(self.sdk)

    async def close(self) -> None:
        """Close the connections."""
        if self.opened is not None:
            await self.opened.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask a model for a whole step."""
        sdk = await self.imported()
        try:
            if request.stream_tokens:
                async with aclosing(self.pieces(request)) as events:
                    async for event in events:
                        yield event
            else:
                yield Finished(await self.whole(request))
        except sdk.APIStatusError as refused:
            failure = self.refusal(refused.status_code, refused.body, str(refused))
            raise ModelFailed(failure) from None
        except sdk.APIConnectionError as lost:
            raise self.no_answer(lost.__cause__ or lost) from lost
        except (*MISSHAPEN, sdk.APIError) as odd:
            raise misunderstood(odd) from odd

    async def whole(self, request: ModelRequest) -> ModelReply:
        """The answer in one response."""
        import httpx2

        content = to_json(self.body(request))
        response = await self.client.post(self.path, content=content, cast_to=httpx2.Response)
        return self.reply(json.loads(response.content), request)

    async def pieces(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer piece by piece. The SDK tries again until the answer begins, and this until
        its first piece: what was shown cannot be taken back."""
        for retries_left in reversed(range(RETRIES_MAX + 1)):
            shown = False
            try:
                async with aclosing(self.one_try(request, retries_left)) as events:
                    async for event in events:
                        shown = True
                        yield event
            except ModelFailed as broken:
                if shown or not retries_left or broken.failure.error_type not in PASSING:
                    raise
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def one_try(self, request: ModelRequest, retries_left: int) -> AsyncGenerator[ModelEvent]:
        """One stream of events, from its opening to the whole answer."""
        import httpx2

        answer = self.answer(request)
        # Asked for a stream of this type, the SDKs hand out the response with its body unread.
        response: httpx2.Response = await self.client.post(
            self.path,
            content=to_json(self.body(request)),
            cast_to=httpx2.Response,
            stream=True,
            options={"max_retries": retries_left},
        )
        try:
            async for data in event_data(response):
                for piece in answer.read(data):
                    yield piece
        except httpx2.RequestError as lost:
            raise self.no_answer(lost) from lost
        finally:
            await response.aclose()
        if not answer.whole:
            raise self.no_answer(EOFError("the stream ended in the middle of the answer"))
        last, reply = answer.end()
        for piece in last:
            yield piece
        yield Finished(reply)

    def no_answer(self, cause: BaseException) -> ModelFailed:
        """Why there was none. The transport calls a refused connection a timeout, of connecting."""
        import httpx2

        late = isinstance(cause, httpx2.TimeoutException)
        if late and not isinstance(cause, httpx2.ConnectTimeout):
            return failed("llm_timeout", "The model did not answer in time", cause)
        reason = f"The model at {self.base_url} cannot be reached"
        return failed("llm_connection_error", reason, cause)

    async def listed(self, path: str, parameters: JsonObject) -> list[JsonObject]:
        """The models that the endpoint lists."""
        sdk = await self.imported()
        options = {"timeout": LIST_SECONDS_MAX, "max_retries": 0, "params": parameters}
        try:
            listed = await self.client.get(path, cast_to=object, options=options)
        except sdk.APIError as problem:
            raise ProviderUnreachable(f"{self.base_url}: {problem}") from problem
        entries = listed.get("data") if isinstance(listed, dict) else None
        return [entry for entry in entries or [] if isinstance(entry, dict) and entry.get("id")]


def seed_of(request: ModelRequest) -> str:
    """What tells the answer to this request from others."""
    return request.messages[-1].id


async def event_data(response: httpx2.Response) -> AsyncGenerator[str]:
    """The data of each server-sent event; both wires put it on one line."""
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            data = line[len("data:") :].strip()
            if data == "[DONE]":
                return
            yield data
