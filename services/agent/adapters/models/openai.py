"""OpenAI, and everything that speaks its chat completions: vLLM, LM Studio, Ollama `/v1`, ..."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from libs.contracts.letta.model_config import embedding_config, llm_config
from libs.contracts.letta.model_requests import EmbeddingConfig, LLMConfig
from libs.contracts.message import Json
from services.agent.adapters.models.failures import MISSHAPEN, failed, failure_of, misunderstood
from services.agent.adapters.models.openai_answer import StreamedAnswer, reply_of
from services.agent.adapters.models.openai_request import body_of
from services.agent.adapters.models.port import (
    Finished,
    ModelEvent,
    ModelFailed,
    ProviderUnreachable,
)
from services.agent.domain.context import ModelRequest
from services.agent.domain.turn import ModelReply

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

REQUEST_SECONDS_MAX = 600.0
LIST_SECONDS_MAX = 5.0
RETRIES_MAX = 2
UNKNOWN_CONTEXT_WINDOW = 30_000
UNKNOWN_OUTPUT_TOKENS_MAX = 16_384

# Context window and output tokens by the beginning of a model's name; the longest match counts.
LIMITS = {
    "gpt-3.5-turbo": (16_385, 4_096),
    "gpt-4": (8_192, 4_096),
    "gpt-4-turbo": (128_000, 4_096),
    "gpt-4.1": (1_047_576, 16_384),
    "gpt-4o": (128_000, 16_384),
    "gpt-5": (272_000, 16_384),
    "gpt-5.2": (272_000, 128_000),
    "gpt-5.4": (1_050_000, 128_000),
    "o1": (200_000, 16_384),
    "o3": (200_000, 16_384),
    "o4": (200_000, 16_384),
}
EMBEDDING_DIMENSIONS = {"text-embedding-3-large": 3_072}
EMBEDDING_DIMENSIONS_DEFAULT = 1_536
NOT_FOR_CHAT = ("audio", "dall-e", "image", "moderation", "realtime", "sora", "transcribe", "tts",
                "whisper", "babbage", "davinci")  # fmt: skip
EMBEDDINGS = ("text-embedding-3-large", "text-embedding-3-small", "text-embedding-ada-002")


class OpenAIProvider:
    """Chat completions through the official SDK, which brings transport, retries and errors.

    The body goes in as it is: the SDK's walk through typed messages costs 0.1 ms each. Its aiohttp
    transport costs two thirds of the default one.
    """

    name = "openai"

    def __init__(self, api_key: str, base_url: str) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.opened: AsyncOpenAI | None = None

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK, imported at the first use because that takes over a second."""
        if self.opened is None:
            from openai import AsyncOpenAI, DefaultAioHttpClient

            self.opened = AsyncOpenAI(
                api_key=self.api_key,
                base_url=self.base_url,
                max_retries=RETRIES_MAX,
                timeout=REQUEST_SECONDS_MAX,
                http_client=DefaultAioHttpClient(),
            )
        return self.opened

    async def close(self) -> None:
        """Close the connections."""
        if self.opened is not None:
            await self.opened.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask a model for a whole step. Only what the SDK does before the answer begins is tried
        again: what was shown cannot be taken back."""
        import httpx2
        import openai

        try:
            if request.stream_tokens:
                async with aclosing(self.pieces(request)) as events:
                    async for event in events:
                        yield event
            else:
                yield Finished(await self.whole(request))
        except openai.APIStatusError as refused:
            raise ModelFailed(failure_of(refused.status_code, refused.body, str(refused))) from None
        except openai.APIConnectionError as lost:
            raise self.no_answer(lost.__cause__ or lost) from lost
        except httpx2.RequestError as lost:
            raise self.no_answer(lost) from lost
        except (*MISSHAPEN, openai.OpenAIError) as odd:
            raise misunderstood(odd) from odd

    async def whole(self, request: ModelRequest) -> ModelReply:
        """The answer in one response."""
        import httpx2

        response = await self.client.post(
            "/chat/completions", body=body_of(request), cast_to=httpx2.Response
        )
        return reply_of(json.loads(response.content), seed_of(request))

    async def pieces(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer piece by piece. The SDK's objects for the events cost three times as much as
        reading the lines."""
        answer = StreamedAnswer(seed_of(request))
        response = await self.opened_stream(request)
        try:
            async for line in response.aiter_lines():
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    break
                if data and line.startswith("data:"):
                    for piece in answer.read(data):
                        yield piece
        finally:
            await response.aclose()
        if answer.finish_reason is None:
            raise self.no_answer(EOFError("the stream ended in the middle of the answer"))
        last, reply = answer.end()
        for piece in last:
            yield piece
        yield Finished(reply)

    async def opened_stream(self, request: ModelRequest) -> httpx2.Response:
        """A response whose body is still to come."""
        import httpx2
        from openai import AsyncStream

        body: dict[str, Json] = {
            **body_of(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        response = await self.client.post(
            "/chat/completions",
            body=body,
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        return cast(httpx2.Response, response)  # which the SDK hands out as it is, if asked so

    def no_answer(self, cause: BaseException) -> ModelFailed:
        """Why there was none. The transport calls a refused connection a timeout, of connecting."""
        import httpx2

        late = isinstance(cause, httpx2.TimeoutException)
        if late and not isinstance(cause, httpx2.ConnectTimeout):
            return failed("llm_timeout", "The model did not answer in time", cause)
        reason = f"The model at {self.base_url} cannot be reached"
        return failed("llm_connection_error", reason, cause)

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """What the endpoint lists, with the limits that are known of each."""
        import openai

        try:
            listed = await self.client.get(
                "/models", cast_to=object, options={"timeout": LIST_SECONDS_MAX, "max_retries": 0}
            )
        except openai.OpenAIError as problem:
            raise ProviderUnreachable(f"{self.base_url}: {problem}") from problem
        entries = listed.get("data", []) if isinstance(listed, dict) else []
        names = sorted(str(entry["id"]) for entry in entries if isinstance(entry, dict))
        chat = [name for name in names if not any(part in name for part in NOT_FOR_CHAT)]
        chat = [name for name in chat if "embed" not in name]
        embeddings = sorted({*EMBEDDINGS, *(name for name in names if "embed" in name)})
        return (
            [self.chat_model(name) for name in chat],
            [self.embedding_model(name) for name in embeddings],
        )

    def chat_model(self, name: str) -> LLMConfig:
        """The catalogue's config of a model."""
        prefixes = [prefix for prefix in LIMITS if name.startswith(prefix)]
        unknown = (UNKNOWN_CONTEXT_WINDOW, UNKNOWN_OUTPUT_TOKENS_MAX)
        window, output = LIMITS[max(prefixes, key=len)] if prefixes else unknown
        return llm_config(
            f"{self.name}/{name}",
            endpoint_type="openai",
            endpoint=self.base_url,
            context_window=window,
            max_tokens=output,
        )

    def embedding_model(self, name: str) -> EmbeddingConfig:
        """The catalogue's config of an embedding model."""
        return embedding_config(
            f"{self.name}/{name}",
            endpoint_type="openai",
            endpoint=self.base_url,
            dimensions=EMBEDDING_DIMENSIONS.get(name, EMBEDDING_DIMENSIONS_DEFAULT),
        )


def seed_of(request: ModelRequest) -> str:
    """What tells the answer to this request from others."""
    return request.messages[-1].id
