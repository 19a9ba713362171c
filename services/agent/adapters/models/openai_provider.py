"""OpenAI, and everything that speaks its chat completions: vLLM, LM Studio, Ollama `/v1`, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.adapters.models.aiohttp_transport import HttpWire
from services.agent.adapters.models.http_provider import HttpProvider, seed_of
from services.agent.adapters.models.model_errors import failure_of
from services.agent.adapters.models.openai_answer import OpenAIAnswer, reply_of
from services.agent.adapters.models.openai_request import body_of, content_of, rendered_messages
from services.agent.adapters.models.rendered_message_cache import RenderedMessages
from services.agent.domain.model_config_resolution import embedding_config, llm_config
from services.agent.domain.model_context import ModelRequest
from services.agent.domain.step_results import Failure, ModelReply

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


class OpenAIProvider(HttpProvider):
    """Chat completions."""

    name = "openai"
    path = "/chat/completions"

    def __init__(
        self,
        api_key: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        sent = {"Authorization": f"Bearer {api_key}", **(headers or {})}
        super().__init__(base_url, HttpWire(base_url, sent, query=query), secrets)
        self.kept = RenderedMessages(rendered_messages)

    def body(self, request: ModelRequest) -> JsonObject:
        """The request in the provider's words."""
        return body_of(request)

    def content(self, request: ModelRequest) -> bytes:
        """The same as JSON."""
        return content_of(request, self.kept)

    def reply(self, body: Any, request: ModelRequest) -> ModelReply:
        """A whole answer in our words."""
        return reply_of(body, seed_of(request))

    def answer(self, request: ModelRequest) -> OpenAIAnswer:
        """What reads an answer that comes in pieces."""
        return OpenAIAnswer(seed_of(request))

    def refusal(self, status: int, body: Json, text: str) -> Failure:
        """An HTTP error in our words."""
        error = body.get("error", body) if isinstance(body, dict) else None
        return failure_of(status, error, text)

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """What the endpoint lists, with the limits that are known of each."""
        names = sorted(str(entry["id"]) for entry in await self.listed("/models", {}))
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
