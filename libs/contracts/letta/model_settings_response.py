"""The settings of an agent's model as clients read them."""

from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.model_configs import LLMConfig

OUTPUT_TOKENS_DEFAULT = 4096
GEMINI_OUTPUT_TOKENS_DEFAULT = 65536
THINKING_TOKENS_DEFAULT = 1024


def model_settings(config: LLMConfig, *, parallel_tool_calls: bool = True) -> JsonObject:
    """The provider's settings as clients read them, from the stored config.

    `parallel_tool_calls` is what the client asked for: the recorded default is on, although
    the stored config says off.
    """
    common: JsonObject = {
        "max_output_tokens": config.max_tokens or _output_tokens_default(config),
        "parallel_tool_calls": parallel_tool_calls,
        "provider_type": _provider_type(config),
        "temperature": config.temperature,
    }
    return {**common, **_own_settings(config)}


def _provider_type(config: LLMConfig) -> str:
    if config.model_endpoint_type == "openai" and (config.handle or "").startswith("sglang/"):
        return "sglang"
    kin = {"minimax": "anthropic", "zai_coding": "zai"}
    return kin.get(config.model_endpoint_type, config.model_endpoint_type)


def _output_tokens_default(config: LLMConfig) -> int:
    gemini = config.model_endpoint_type in ("google_ai", "google_vertex")
    return GEMINI_OUTPUT_TOKENS_DEFAULT if gemini else OUTPUT_TOKENS_DEFAULT


def _own_settings(config: LLMConfig) -> JsonObject:
    """The settings that only this kind of provider has, in the recorded order."""
    answer = config.response_format
    response_format: JsonValue = None if answer is None else answer.model_dump(mode="json")
    switch = "enabled" if config.enable_reasoner else "disabled"
    budget = config.max_reasoning_tokens or THINKING_TOKENS_DEFAULT
    match _provider_type(config):
        case "openai" | "sglang" as kind:
            own: JsonObject = {
                "reasoning": {"reasoning_effort": config.reasoning_effort or "minimal"},
                "response_format": response_format,
                "strict": config.strict,
            }
            parser: JsonObject = {"tool_call_parser": config.tool_call_parser}
            return {**own, **parser} if kind == "sglang" else own
        case "anthropic":
            return {
                "thinking": {"type": switch, "budget_tokens": budget},
                "response_format": response_format,
                "verbosity": config.verbosity,
                "effort": config.effort,
                "strict": config.strict,
            }
        case "google_ai" | "google_vertex":
            thinks = config.max_reasoning_tokens > 0
            return {
                "thinking_config": {"include_thoughts": thinks, "thinking_budget": budget},
                "response_schema": response_format,
            }
        case "zai":
            thinking: JsonObject = {"type": switch, "clear_thinking": False}
            return {"response_format": response_format, "thinking": thinking}
        case "chatgpt_oauth":
            return {"reasoning": {"reasoning_effort": config.reasoning_effort or "medium"}}
        case "baseten":
            return {}
        case _:
            return {"response_format": response_format}
