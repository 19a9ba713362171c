"""Anthropic's messages API, and whatever speaks it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from urllib.parse import urlsplit

from libs.bus.ports import Clock
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.adapters.models.anthropic_answer import AnthropicAnswer
from services.agent.adapters.models.anthropic_request import (
    ANTHROPIC_HOST,
    UNSIGNED_THOUGHTS,
    Thoughts,
    anthropic_tool,
    body_around_tools,
)
from services.agent.adapters.models.anthropic_sdk_transport import AnthropicWire
from services.agent.adapters.models.http_provider import HttpProvider, seed_of
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.provider_error_words import names
from services.agent.adapters.models.rendered_tools import RenderedTools
from services.agent.adapters.models.transport import Refused
from services.agent.domain.agents.model_config_resolution import llm_config
from services.agent.domain.prompts.model_context import ModelRequest

MODELS_LISTED_MAX = 1_000
CONTEXT_WINDOW_DEFAULT = 200_000
CONTEXT_WINDOW_MAX = 2**31
OUTPUT_TOKENS_DEFAULT = 8_192

# Output tokens by the beginning of a model's name; the longest match counts.
OUTPUT_TOKENS = {
    "claude-opus-4": 16_384,
    "claude-opus-4-6": 21_000,
    "claude-sonnet-4": 16_384,
    "claude-sonnet-4-6": 21_000,
}

# What a request need not have: a server that refuses one is asked without.
OPTIONAL: dict[str, tuple[str, ...]] = {
    "temperature": (),
    "thinking": (),
    "output_config": ("effort",),
    "tool_choice": ("disable_parallel_tool_use",),
    UNSIGNED_THOUGHTS: ("thinking",),
}

# Models that V1 offers under a shorter handle.
HANDLES = {
    "claude-3-5-haiku-20241022": "claude-3-5-haiku",
    "claude-haiku-4-5-20251001": "claude-haiku-4-5",
}


class AnthropicProvider(HttpProvider):
    """Messages."""

    name = "anthropic"
    path = "/v1/messages"
    optional = OPTIONAL

    def __init__(
        self,
        api_key: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        wire = AnthropicWire(base_url, api_key, headers=headers, query=query)
        super().__init__(base_url, wire, RenderedTools(anthropic_tool), secrets, clock)
        self.takes_unsigned = urlsplit(base_url).hostname != ANTHROPIC_HOST

    def body(self, request: ModelRequest, omitted: Container[str] = ()) -> JsonObject:
        """The request in the provider's words, around its tools."""
        takes_unsigned = self.takes_unsigned and UNSIGNED_THOUGHTS not in omitted
        return body_around_tools(request, takes_unsigned=takes_unsigned)

    def sent_parameters(self, request: ModelRequest) -> set[str]:
        thoughts = Thoughts(self.takes_unsigned, takes_signed=False)
        is_unsigned = any(map(thoughts.of, request.messages))
        return super().sent_parameters(request) | ({UNSIGNED_THOUGHTS} if is_unsigned else set())

    def refused_parameters(self, problem: ModelFailed, request: ModelRequest) -> frozenset[str]:
        """The optional parameters that an error says are not taken. One that misses a signature is
        about thoughts that were made elsewhere, not about thinking."""
        refused = super().refused_parameters(problem, request)
        said = problem.__cause__
        is_of_signature = isinstance(said, Refused) and names(said.text, UNSIGNED_THOUGHTS)
        return refused & {UNSIGNED_THOUGHTS} if is_of_signature else refused

    def answer(self, request: ModelRequest) -> AnthropicAnswer:
        return AnthropicAnswer(seed_of(request))

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """The models that the endpoint lists; Anthropic has no embedding models."""
        entries = await self.list_models("/v1/models", {"limit": MODELS_LISTED_MAX})
        offered = [entry for entry in entries if entry.get("lifecycle") != "retired"]
        return sorted(map(self.chat_model, offered), key=lambda config: str(config.handle)), []

    def named_model(self, name: str) -> LLMConfig:
        return self.chat_model({"id": name})

    def chat_model(self, entry: JsonObject) -> LLMConfig:
        """The catalogue's config of a model."""
        name = str(entry["id"])
        prefixes = [prefix for prefix in OUTPUT_TOKENS if name.startswith(prefix)]
        output = OUTPUT_TOKENS[max(prefixes, key=len)] if prefixes else OUTPUT_TOKENS_DEFAULT
        window = self.window_tokens(name) or entry.get("max_input_tokens")
        if not isinstance(window, int) or not 0 < window < CONTEXT_WINDOW_MAX:
            window = CONTEXT_WINDOW_DEFAULT
        config = llm_config(
            f"{self.name}/{HANDLES.get(name, name)}",
            endpoint_type="anthropic",
            endpoint=f"{self.base_url}/v1",
            context_window=window,
            max_tokens=output,
        )
        return config.model_copy(update={"model": name})
