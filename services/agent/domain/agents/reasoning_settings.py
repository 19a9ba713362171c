"""What switching reasoning on or off means for each family of models."""

from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.model_configs import LLMConfig
from services.agent.domain.agents.agent_types import PROFILES

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
    "/o1",
    "/o3",
    "/o4",
    "/gpt-5",
    "claude-3-7-sonnet",
    "claude-sonnet-4",
    "claude-opus-4",
    "claude-haiku-4",
    "gemini",
    *_GLM,
    "deepseek-r1",
    "deepseek-reasoner",
    "kimi",
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
