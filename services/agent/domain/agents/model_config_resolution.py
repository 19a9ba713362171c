"""Stored model configs, made from a request's model fields.

`base` below is the catalogue's config of the handle, as `/v1/models/` lists it.
"""

from __future__ import annotations

from typing import Literal

from libs.contracts.letta import JsonObject
from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.error_bodies import InvalidArgument
from libs.contracts.letta.model_configs import (
    AnthropicModelSettings,
    AnyModelSettings,
    ChatGPTOAuthModelSettings,
    CompactionSettings,
    EmbeddingConfig,
    GoogleAIModelSettings,
    LLMConfig,
    OpenAIModelSettings,
    SGLangModelSettings,
    ZAIModelSettings,
)
from services.agent.domain.agents.agent_types import PROFILES
from services.agent.domain.agents.prompt_texts import compaction_prompt

BUDGET_TOKENS_DEFAULT = 1024

# The genuine server does not know these, but would treat them so.
_CLAUDE_LATER = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5", "claude-fable-5")
_CLAUDE = (
    *("claude-3-7-sonnet", "claude-sonnet-4", "claude-opus-4", "claude-haiku-4-5"),
    *_CLAUDE_LATER,
)
_CLAUDE_ADAPTIVE = (
    *("claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8"),
    *_CLAUDE_LATER,
)
_CLAUDE_WITH_EFFORT = ("claude-opus-4-5", *_CLAUDE_ADAPTIVE)
_GEMINI_ALWAYS = ("gemini-2.5-pro", "gemini-3")
_GPT_WITH_NONE = ("gpt-5.1", "gpt-5.2", "gpt-5.3", "gpt-5.4")
_GLM = ("glm-4.5", "glm-4.6", "glm-4.7", "glm-5")
_OPENROUTER = (
    *("/o1", "/o3", "/o4", "/gpt-5", "claude-3-7-sonnet", "claude-sonnet-4", "claude-opus-4"),
    *("claude-haiku-4", "gemini", *_GLM, "deepseek-r1", "deepseek-reasoner", "kimi"),
)


def with_reasoning(config: LLMConfig, reasoning: bool, agent_type: AgentType) -> LLMConfig:
    """The config with reasoning on or off, as far as its model lets it be chosen."""
    inner_thoughts = PROFILES[agent_type].inner_thoughts
    changes: dict[str, object] = {"put_inner_thoughts_in_kwargs": False}
    if _is_openai(config):
        changes |= _openai(config, reasoning)
    elif config.model.startswith(_GEMINI_ALWAYS):
        changes |= {"enable_reasoner": True, **_budget(config)}
        changes["put_inner_thoughts_in_kwargs"] = inner_thoughts
    elif _is_claude(config):
        changes |= {"enable_reasoner": reasoning, **(_claude(config) if reasoning else {})}
    elif _is_gemini(config):
        changes |= {"enable_reasoner": reasoning, **(_budget(config) if reasoning else {})}
        changes["put_inner_thoughts_in_kwargs"] = reasoning and inner_thoughts
    elif _is_switchable(config):
        changes["enable_reasoner"] = reasoning
    elif not inner_thoughts:
        changes |= {"enable_reasoner": False, "max_reasoning_tokens": 0}
    else:
        # The older loops make such a model write its thoughts into the tool's arguments.
        changes |= {"enable_reasoner": reasoning, "put_inner_thoughts_in_kwargs": reasoning}
    return config.model_copy(update=changes)


def is_reasoning_openai(model: str) -> bool:
    """Whether OpenAI's model reasons by itself, so that it cannot be switched off."""
    return model.startswith(("o1", "o3", "o4", "gpt-5"))


def _is_openai(config: LLMConfig) -> bool:
    return config.model_endpoint_type == "openai" and is_reasoning_openai(config.model)


def _is_claude(config: LLMConfig) -> bool:
    return config.model_endpoint_type in ("anthropic", "bedrock") and config.model.startswith(
        _CLAUDE
    )


def _is_gemini(config: LLMConfig) -> bool:
    return config.model_endpoint_type in (
        "google_ai",
        "google_vertex",
    ) and config.model.startswith("gemini-2.5-flash")


def _is_switchable(config: LLMConfig) -> bool:
    match config.model_endpoint_type:
        case "zai" | "zai_coding":
            return config.model.startswith(_GLM)
        case "openrouter":
            return any(part in config.model.lower() for part in _OPENROUTER)
        case "baseten":
            return True
        case _:
            return False


def _openai(config: LLMConfig, reasoning: bool) -> dict[str, object]:
    changes: dict[str, object] = {"enable_reasoner": True}
    can_be_none = config.model.startswith(_GPT_WITH_NONE)
    if can_be_none and not reasoning:
        changes["reasoning_effort"] = "none"
    elif config.reasoning_effort is None:
        changes["reasoning_effort"] = "none" if can_be_none else _lowest_effort(config.model)
    if config.model.startswith("gpt-5") and config.verbosity is None:
        changes["verbosity"] = "medium"
    return changes


def _lowest_effort(model: str) -> str:
    minimal = model.startswith("gpt-5") and "codex" not in model.lower()
    return "minimal" if minimal else "medium"


def _claude(config: LLMConfig) -> dict[str, object]:
    changes = {} if config.model.startswith(_CLAUDE_ADAPTIVE) else _budget(config)
    if config.model.startswith(_CLAUDE_WITH_EFFORT) and config.effort is None:
        changes["effort"] = "medium"
    return changes


def _budget(config: LLMConfig) -> dict[str, object]:
    return {"max_reasoning_tokens": config.max_reasoning_tokens or BUDGET_TOKENS_DEFAULT}


CONTEXT_WINDOW_TOKENS_DEFAULT_MAX = 128_000

# The cheaper model that writes summaries, by the provider of the agent's own model.
SUMMARY_MODELS = {
    "anthropic": "anthropic/claude-haiku-4-5",
    "openai": "openai/gpt-5-mini",
    "google_ai": "google_ai/gemini-2.5-flash",
}


def llm_config(
    handle: str,
    *,
    endpoint_type: str,
    endpoint: str | None,
    context_window: int,
    max_tokens: int | None = None,
    provider_category: Literal["base", "byok"] = "base",
) -> LLMConfig:
    """The catalogue's config of a model, before any request changed it."""
    provider, _, model = handle.partition("/")
    return LLMConfig(
        model=model,
        model_endpoint_type=endpoint_type,
        model_endpoint=endpoint,
        provider_name=provider,
        provider_category=provider_category,
        context_window=context_window,
        handle=handle,
        max_tokens=max_tokens,
        verbosity="medium" if model.startswith("gpt-5") else None,
    )


def embedding_config(
    handle: str, *, endpoint_type: str, endpoint: str | None, dimensions: int
) -> EmbeddingConfig:
    """The catalogue's config of an embedding model."""
    return EmbeddingConfig(
        embedding_endpoint_type=endpoint_type,
        embedding_endpoint=endpoint,
        embedding_model=handle.partition("/")[2],
        embedding_dim=dimensions,
        handle=handle,
    )


def created_config(request: CreateAgent, base: LLMConfig | None) -> LLMConfig:
    """The model config of a new agent; refuses a request that names no model."""
    config = request.llm_config or (base and _from_catalogue(request, base))
    if config is None:
        raise InvalidArgument("Must specify either model or llm_config in request")
    config = _with_overrides(config, request)
    default = config.enable_reasoner or bool(config.put_inner_thoughts_in_kwargs)
    reasoning = default if request.reasoning is None else request.reasoning
    config = with_reasoning(config, reasoning, request.agent_type)
    if not PROFILES[request.agent_type].inner_thoughts and request.include_base_tools:
        config = config.model_copy(update={"put_inner_thoughts_in_kwargs": False})
    return config


def updated_config(
    request: UpdateAgent, stored: LLMConfig, base: LLMConfig | None, agent_type: AgentType
) -> LLMConfig:
    """The model config of a changed agent; `base` is needed if the request names a model."""
    config = request.llm_config or stored
    if request.llm_config is None and request.model is not None:
        assert base is not None, "a request that names a model comes with its catalogue config"
        config = base.model_copy(update={"context_window": _window(request, base)})
        config = with_reasoning(config, config.enable_reasoner, agent_type)
        # As in V1: a model that writes its thoughts into arguments does so after a change of the
        # model only where `reasoning` asks for it.
        config = config.model_copy(update={"put_inner_thoughts_in_kwargs": False})
        if request.model_settings is not None and not _says_output_tokens(request.model_settings):
            config = config.model_copy(update={"max_tokens": stored.max_tokens})
    elif request.context_window_limit is not None:
        config = config.model_copy(update={"context_window": request.context_window_limit})
    if "max_tokens" in request.model_fields_set:
        config = config.model_copy(update={"max_tokens": request.max_tokens})
    config = _with_overrides(config, request)
    if request.reasoning is not None:
        config = with_reasoning(config, request.reasoning, agent_type)
    return config


def compaction_settings(config: LLMConfig, asked: CompactionSettings | None = None) -> JsonObject:
    """The compaction settings of a conversation, with model and prompt filled in."""
    settings = asked or CompactionSettings()
    provider = config.provider_name or config.model_endpoint_type
    return settings.model_copy(
        update={
            "model": settings.model or SUMMARY_MODELS.get(provider, config.handle),
            "prompt": settings.prompt or compaction_prompt(settings.mode),
        }
    ).model_dump(mode="json")


def summariser_config(config: LLMConfig, settings: CompactionSettings) -> LLMConfig:
    """The config of the model that summarises. It answers in plain words, and calls nothing."""
    update = _from_settings(settings.model_settings) if settings.model_settings else {}
    return config.model_copy(
        update={**update, "response_format": None, "put_inner_thoughts_in_kwargs": False}
    )


def _from_catalogue(request: CreateAgent, base: LLMConfig) -> LLMConfig:
    update: dict[str, object] = {"context_window": _window(request, base)}
    if request.max_tokens is not None:
        update["max_tokens"] = request.max_tokens
    if request.max_reasoning_tokens is not None:
        if not request.max_tokens or request.max_reasoning_tokens > request.max_tokens:
            raise InvalidArgument(
                f"max_reasoning_tokens is {request.max_reasoning_tokens}, but at most max_tokens, "
                f"which is {request.max_tokens}"
            )
        update["max_reasoning_tokens"] = request.max_reasoning_tokens
    if request.enable_reasoner is not None:
        update["enable_reasoner"] = request.enable_reasoner
    return base.model_copy(update=update)


def _window(request: CreateAgent | UpdateAgent, base: LLMConfig) -> int:
    if request.context_window_limit is not None:
        return request.context_window_limit
    return min(base.context_window, CONTEXT_WINDOW_TOKENS_DEFAULT_MAX)


def _with_overrides(config: LLMConfig, request: CreateAgent | UpdateAgent) -> LLMConfig:
    """Settings win over the config, and the request's own deprecated fields over both."""
    if request.model_settings:
        config = with_settings(config, request.model_settings)
    update: dict[str, object] = {}
    if request.parallel_tool_calls is not None:
        update["parallel_tool_calls"] = request.parallel_tool_calls
    if request.response_format is not None:
        update["response_format"] = request.response_format
    return config.model_copy(update=update)


def with_settings(config: LLMConfig, settings: AnyModelSettings) -> LLMConfig:
    """The config as model settings change it."""
    return config.model_copy(update=_from_settings(settings))


def _says_output_tokens(settings: AnyModelSettings) -> bool:
    return "max_output_tokens" in settings.model_fields_set


def _from_settings(settings: AnyModelSettings) -> dict[str, object]:
    update: dict[str, object] = {
        "temperature": settings.temperature,
        "parallel_tool_calls": settings.parallel_tool_calls,
    }
    if _says_output_tokens(settings):
        update["max_tokens"] = settings.max_output_tokens
    for field in ("response_format", "strict", "verbosity", "effort", "tool_call_parser"):
        if hasattr(settings, field):
            update[field] = getattr(settings, field)
    match settings:
        case OpenAIModelSettings() | SGLangModelSettings() | ChatGPTOAuthModelSettings():
            update["reasoning_effort"] = settings.reasoning.reasoning_effort
        case AnthropicModelSettings():
            update["enable_reasoner"] = settings.thinking.type == "enabled"
            update["max_reasoning_tokens"] = settings.thinking.budget_tokens
        case GoogleAIModelSettings():
            thinks = settings.thinking_config.include_thoughts
            budget = settings.thinking_config.thinking_budget
            update["max_reasoning_tokens"] = budget if thinks else 0
            update["response_format"] = settings.response_schema
        case ZAIModelSettings():
            update["enable_reasoner"] = settings.thinking.type == "enabled"
        case _:
            pass
    return update
