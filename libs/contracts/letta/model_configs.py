"""Model settings of requests: the deprecated configs and the settings of each provider."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import Effort, ReasoningEffort, Verbosity
from libs.contracts.letta.request_size_limits import Integer
from libs.contracts.letta.url_redaction import Address

type Number = Annotated[float, Field(allow_inf_nan=False)]


class TextResponseFormat(BaseModel):
    type: Literal["text"] = "text"


class JsonSchemaResponseFormat(BaseModel):
    type: Literal["json_schema"] = "json_schema"
    json_schema: dict[str, JsonValue]


class JsonObjectResponseFormat(BaseModel):
    type: Literal["json_object"] = "json_object"


type ResponseFormat = Annotated[
    TextResponseFormat | JsonSchemaResponseFormat | JsonObjectResponseFormat,
    Field(discriminator="type"),
]


class LLMConfig(BaseModel):
    """Which language model an agent uses and how; its fields are in the recorded order."""

    model_config = ConfigDict(protected_namespaces=())

    model: str
    display_name: str | None = None
    model_endpoint_type: str
    model_endpoint: Address = None
    provider_name: str | None = None
    provider_category: Literal["base", "byok"] | None = None
    model_wrapper: str | None = None
    context_window: Integer
    put_inner_thoughts_in_kwargs: bool | None = False
    handle: str | None = None
    temperature: Number = 1.0
    max_tokens: Integer | None = None
    enable_reasoner: bool = True
    reasoning_effort: ReasoningEffort | None = None
    max_reasoning_tokens: Integer = 0
    effort: Effort | None = None
    frequency_penalty: Number | None = None
    compatibility_type: Literal["gguf", "mlx"] | None = None
    verbosity: Verbosity | None = None
    tier: str | None = None
    parallel_tool_calls: bool | None = False
    response_format: ResponseFormat | None = None
    strict: bool = False
    return_logprobs: bool = False
    top_logprobs: Integer | None = None
    return_token_ids: bool = False
    tool_call_parser: str | None = None


class EmbeddingConfig(BaseModel):
    """Which embedding model an agent uses; its fields are in the recorded order."""

    embedding_endpoint_type: str
    embedding_endpoint: Address = None
    embedding_model: str
    embedding_dim: Integer
    embedding_chunk_size: Integer | None = 300
    handle: str | None = None
    batch_size: Integer = 32
    azure_endpoint: Address = None
    azure_version: str | None = None
    azure_deployment: str | None = None


class ModelSettings(BaseModel):
    max_output_tokens: Integer = 4096
    parallel_tool_calls: bool = True


class OpenAIReasoning(BaseModel):
    reasoning_effort: ReasoningEffort = "minimal"


class OpenAIModelSettings(ModelSettings):
    provider_type: Literal["openai"] = "openai"
    temperature: Number = 0.7
    reasoning: OpenAIReasoning = OpenAIReasoning(reasoning_effort="high")
    response_format: ResponseFormat | None = None
    strict: bool = True


class SGLangModelSettings(ModelSettings):
    provider_type: Literal["sglang"] = "sglang"
    temperature: Number = 0.7
    reasoning: OpenAIReasoning = OpenAIReasoning(reasoning_effort="high")
    response_format: ResponseFormat | None = None
    strict: bool = True
    tool_call_parser: str | None = None


class AnthropicThinking(BaseModel):
    type: Literal["enabled", "disabled"] = "enabled"
    budget_tokens: Integer = 1024


class AnthropicModelSettings(ModelSettings):
    provider_type: Literal["anthropic", "moonshot_coding"] = "anthropic"
    temperature: Number = 1.0
    thinking: AnthropicThinking = AnthropicThinking()
    response_format: ResponseFormat | None = None
    verbosity: Verbosity | None = None
    effort: Effort | None = None
    strict: bool = False


class GeminiThinkingConfig(BaseModel):
    include_thoughts: bool = True
    thinking_budget: Integer = 1024


class GoogleAIModelSettings(ModelSettings):
    max_output_tokens: Integer = 65536
    provider_type: Literal["google_ai", "google_vertex"] = "google_ai"
    temperature: Number = 0.7
    thinking_config: GeminiThinkingConfig = GeminiThinkingConfig()
    response_schema: ResponseFormat | None = None


class CompatibleModelSettings(ModelSettings):
    """A provider that speaks OpenAI's protocol and has no settings of its own."""

    provider_type: Literal[
        "azure", "xai", "groq", "deepseek", "together", "bedrock", "openrouter", "moonshot"
    ]
    temperature: Number = 0.7
    response_format: ResponseFormat | None = None


class ZAIThinking(BaseModel):
    type: Literal["enabled", "disabled"] = "enabled"
    clear_thinking: bool = False


class ZAIModelSettings(ModelSettings):
    provider_type: Literal["zai"] = "zai"
    temperature: Number = 0.7
    response_format: ResponseFormat | None = None
    thinking: ZAIThinking = ZAIThinking()


class ChatGPTOAuthReasoning(BaseModel):
    reasoning_effort: Literal["none", "low", "medium", "high", "xhigh"] = "medium"


class ChatGPTOAuthModelSettings(ModelSettings):
    provider_type: Literal["chatgpt_oauth"] = "chatgpt_oauth"
    temperature: Number = 0.7
    reasoning: ChatGPTOAuthReasoning = ChatGPTOAuthReasoning()


class BasetenModelSettings(ModelSettings):
    provider_type: Literal["baseten"] = "baseten"
    temperature: Number = 0.7


type AnyModelSettings = Annotated[
    OpenAIModelSettings
    | SGLangModelSettings
    | AnthropicModelSettings
    | GoogleAIModelSettings
    | CompatibleModelSettings
    | ZAIModelSettings
    | ChatGPTOAuthModelSettings
    | BasetenModelSettings,
    Field(discriminator="provider_type"),
]

type CompactionMode = Literal[
    "all", "sliding_window", "self_compact_all", "self_compact_sliding_window"
]


class CompactionSettings(BaseModel):
    """When and how a conversation is summarised; its fields are in the recorded order."""

    model_config = ConfigDict(protected_namespaces=())

    model: str | None = None
    model_settings: AnyModelSettings | None = None
    prompt: str | None = None
    prompt_acknowledgement: bool = False
    clip_chars: Integer | None = 50000
    mode: CompactionMode = "sliding_window"
    sliding_window_percentage: Number = 0.3


def model_entry(config: LLMConfig) -> JsonObject:
    """A language model as clients choose it; pass the catalogue's config of its handle."""
    deprecated = config.model_dump(mode="json", exclude={"display_name", "provider_name", "handle"})
    return {
        "handle": config.handle,
        "name": config.model,
        "display_name": config.display_name or config.model,
        "provider_type": config.model_endpoint_type,
        "provider_name": config.provider_name or config.model_endpoint_type,
        "model_type": "llm",
        **deprecated,
        "max_context_window": config.context_window,
    }


def embedding_entry(config: EmbeddingConfig) -> JsonObject:
    """An embedding model as clients choose it."""
    return {
        "handle": config.handle,
        "name": config.embedding_model,
        "display_name": config.embedding_model,
        "provider_type": config.embedding_endpoint_type,
        "provider_name": config.embedding_endpoint_type,
        "model_type": "embedding",
        **config.model_dump(mode="json", exclude={"handle"}),
    }
