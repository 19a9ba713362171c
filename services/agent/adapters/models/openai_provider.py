"""OpenAI, and everything that speaks its chat completions: vLLM, LM Studio, Ollama `/v1`, ..."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from urllib.parse import urlsplit

from libs.bus.ports import Clock
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.adapters.models.aiohttp_transport import HttpWire
from services.agent.adapters.models.answer_sanitization import number
from services.agent.adapters.models.http_provider import (
    PARAMETER_STATUSES,
    HttpProvider,
    seed_of,
)
from services.agent.adapters.models.openai_answer import OpenAIAnswer
from services.agent.adapters.models.openai_request import (
    MISSING_THOUGHTS,
    THOUGHTS,
    carries_thoughts,
    content_of,
    lacks_thoughts,
    openai_tool,
    parameters_of,
    rendered_messages,
    with_empty_thoughts,
    without_thoughts,
)
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.provider_error_words import error_words
from services.agent.adapters.models.rendered_message_cache import RenderedMessages
from services.agent.adapters.models.rendered_tools import RenderedTools
from services.agent.adapters.models.transport import Refused
from services.agent.domain.agents.model_config_resolution import embedding_config, llm_config
from services.agent.domain.prompts.model_context import ModelRequest

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
# Where servers that stand in for OpenAI say in their lists how much a model may be shown.
WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
WINDOW_MAX = 2**31
NOTHING_LISTED: JsonObject = {}

# What a request need not have, with other names for it: a server that refuses one is asked without.
OPTIONAL = {
    "max_completion_tokens": ("max_tokens",),
    "temperature": (),
    "reasoning_effort": ("reasoning", "reasoning.effort"),
    "frequency_penalty": (),
    "response_format": (),
    "logprobs": (),
    "top_logprobs": (),
    "return_token_ids": (),
    "tool_choice": (),
    "parallel_tool_calls": (),
    "stream": ("streaming",),
    "stream_options": (),
    THOUGHTS: ("reasoning", "extra_content"),
    MISSING_THOUGHTS: (),
}
# OpenAI's own address: it does not show thoughts, and takes none.
OPENAI_HOSTS = ("api.openai.com", "openai.azure.com")
EMBEDDING_DIMENSIONS = {"text-embedding-3-large": 3_072}
EMBEDDING_DIMENSIONS_DEFAULT = 1_536
NOT_FOR_CHAT = ("audio", "dall-e", "image", "moderation", "realtime", "sora", "transcribe", "tts",
                "whisper", "babbage", "davinci")  # fmt: skip
EMBEDDINGS = ("text-embedding-3-large", "text-embedding-3-small", "text-embedding-ada-002")


class OpenAIProvider(HttpProvider):
    """Chat completions."""

    name = "openai"
    path = "/chat/completions"
    optional = OPTIONAL
    answer_room = ("max_completion_tokens",)

    def __init__(
        self,
        api_key: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        sent = {"Authorization": f"Bearer {api_key}", **(headers or {})}
        wire = HttpWire(base_url, sent, query=query)
        super().__init__(base_url, wire, RenderedTools(openai_tool), secrets, clock)
        self.kept = RenderedMessages(rendered_messages)
        self.kept_without_thoughts = RenderedMessages(without_thoughts)
        self.kept_with_empty_thoughts = RenderedMessages(with_empty_thoughts)
        host = urlsplit(base_url).hostname or ""
        self.takes_thoughts = not f".{host}".endswith(tuple(f".{own}" for own in OPENAI_HOSTS))

    def body(self, request: ModelRequest, omitted: Container[str] = ()) -> JsonObject:
        """The request in the provider's words, around its tools and without its messages."""
        return parameters_of(request)

    def content(self, request: ModelRequest, tools: bytes, omitted: Container[str]) -> bytes:
        kept = self.kept
        if THOUGHTS in omitted:
            kept = self.kept_without_thoughts
        elif MISSING_THOUGHTS in omitted:
            kept = self.kept_with_empty_thoughts
        return content_of(request, kept, tools, omitted)

    def omitted_parameters(self, request: ModelRequest) -> frozenset[str]:
        """The parameters that are left out, and for OpenAI itself the thoughts of other models."""
        omitted = super().omitted_parameters(request)
        return omitted if self.takes_thoughts else omitted | {THOUGHTS}

    def sent_parameters(self, request: ModelRequest) -> set[str]:
        thinks = any(map(carries_thoughts, request.messages))
        return super().sent_parameters(request) | ({THOUGHTS} if thinks else set())

    def refused_parameters(self, problem: ModelFailed, request: ModelRequest) -> frozenset[str]:
        """The optional parameters that an error says are not taken. An error that misses thoughts
        is about calls that have none: another model made them."""
        refused = problem.__cause__
        if isinstance(refused, Refused) and refused.status in PARAMETER_STATUSES:
            error = error_words(refused.body)
            # Where no message has any, an error that names them can only miss them.
            misses = error.misses(THOUGHTS) or (
                bool(error.refused_parameters({THOUGHTS}))
                and not any(map(carries_thoughts, request.messages))
            )
            if misses and any(map(lacks_thoughts, request.messages)):
                return frozenset({MISSING_THOUGHTS})
        return super().refused_parameters(problem, request)

    def answer(self, request: ModelRequest) -> OpenAIAnswer:
        return OpenAIAnswer(seed_of(request))

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """The models that the endpoint lists, with the known limits of each."""
        entries = {str(entry["id"]): entry for entry in await self.list_models("/models", {})}
        names = sorted(entries)
        chat = [name for name in names if not any(part in name for part in NOT_FOR_CHAT)]
        chat = [name for name in chat if "embed" not in name]
        embeddings = sorted({*EMBEDDINGS, *(name for name in names if "embed" in name)})
        return (
            [self.named_model(name, entries[name]) for name in chat],
            [self.named_embedding(name) for name in embeddings],
        )

    def named_model(self, name: str, entry: JsonObject = NOTHING_LISTED) -> LLMConfig:
        """The catalogue's config of a model, with the window that its server names, if it does."""
        prefixes = [prefix for prefix in LIMITS if name.startswith(prefix)]
        unknown = (UNKNOWN_CONTEXT_WINDOW, UNKNOWN_OUTPUT_TOKENS_MAX)
        window, output = LIMITS[max(prefixes, key=len)] if prefixes else unknown
        listed = (number(entry.get(field)) for field in WINDOW_FIELDS)
        known = self.window_tokens(name) or next(
            (window for window in listed if window and 0 < window < WINDOW_MAX), None
        )
        return llm_config(
            f"{self.name}/{name}",
            endpoint_type="openai",
            endpoint=self.base_url,
            context_window=known or window,
            max_tokens=min(output, known // 2) if known else output,
        )

    def named_embedding(self, name: str) -> EmbeddingConfig:
        """The catalogue's config of an embedding model."""
        return embedding_config(
            f"{self.name}/{name}",
            endpoint_type="openai",
            endpoint=self.base_url,
            dimensions=EMBEDDING_DIMENSIONS.get(name, EMBEDDING_DIMENSIONS_DEFAULT),
        )
