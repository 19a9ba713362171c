"""Which settings the models of a provider take."""

from __future__ import annotations

from pydantic import BaseModel

from libs.agent_toml.definition import AgentDefinition
from libs.contracts.letta.model_configs import (
    AnthropicModelSettings,
    BasetenModelSettings,
    ChatGPTOAuthModelSettings,
    CompatibleModelSettings,
    GoogleAIModelSettings,
    OpenAIModelSettings,
    SGLangModelSettings,
    ZAIModelSettings,
)

COMPATIBLE = ("azure", "xai", "groq", "deepseek", "together", "bedrock", "openrouter", "moonshot")
SETTINGS_OF: dict[str, type[BaseModel]] = {
    "openai": OpenAIModelSettings,
    "sglang": SGLangModelSettings,
    "anthropic": AnthropicModelSettings,
    "moonshot_coding": AnthropicModelSettings,
    "google_ai": GoogleAIModelSettings,
    "google_vertex": GoogleAIModelSettings,
    "zai": ZAIModelSettings,
    "chatgpt_oauth": ChatGPTOAuthModelSettings,
    "baseten": BasetenModelSettings,
    **dict.fromkeys(COMPATIBLE, CompatibleModelSettings),
}


def provider_of(definition: AgentDefinition) -> str:
    """The provider whose settings the model takes: by the file, or by the beginning of its handle.
    Any other provider speaks the protocol of OpenAI; empty where the file names no model."""
    settings = definition.model_settings
    if settings is not None and settings.provider_type is not None:
        return settings.provider_type
    if definition.model is None:
        return ""
    provider = definition.model.partition("/")[0]
    return provider if provider in SETTINGS_OF else "openai"
