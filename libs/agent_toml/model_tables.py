"""The tables of the form about the model: its settings, answers, and summaries."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from libs.agent_toml.tables import Handle, Metadata, Name, Table, Text
from libs.contracts.letta.request_size_limits import INTEGER_MAX, Integer

ResponseType = Literal["text", "json_object", "json_schema"]
CompactionMode = Literal["all", "sliding_window", "self_compact_all", "self_compact_sliding_window"]


class Reasoning(Table):
    """The reasoning effort of a model of OpenAI."""

    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] = Field(
        description="How much it thinks."
    )


class Thinking(Table):
    """Whether a model of Anthropic or Z.ai thinks first."""

    type: Literal["enabled", "disabled"] = Field(description="Whether it thinks.")
    budget_tokens: Integer | None = Field(None, description="Anthropic: how many tokens at most.")
    clear_thinking: bool | None = Field(
        None, description="Z.ai: whether earlier thoughts are left out."
    )


class ThinkingConfig(Table):
    """Whether a model of Google thinks first."""

    include_thoughts: bool = Field(True, description="Whether it thinks.")
    thinking_budget: Integer = Field(1024, description="How many tokens at most.")


class ResponseFormat(Table):
    """The form of the answers."""

    type: ResponseType = Field(description="Text, any JSON, or JSON of a schema.")
    json_schema: Metadata | None = Field(
        None, description="The JSON Schema of the answers; with `json_schema` alone."
    )


class ModelSettings(Table):
    """The settings of a model. Which of them it takes depends on its provider."""

    provider_type: Name | None = Field(
        None,
        description="Whose settings these are (`openai`, `anthropic`, ...); without it, what "
        "the handle of `model` begins with.",
    )
    temperature: float | None = Field(
        None, allow_inf_nan=False, description="How much answers vary."
    )
    max_output_tokens: Integer | None = Field(None, description="How long one answer may be.")
    parallel_tool_calls: bool | None = Field(
        None, description="Whether it may call several tools at once."
    )
    reasoning: Reasoning | None = Field(None, description="How much it thinks: `openai`, `sglang`.")
    thinking: Thinking | None = Field(None, description="Whether it thinks: `anthropic`, `zai`.")
    thinking_config: ThinkingConfig | None = Field(
        None, description="Whether it thinks: `google_ai`, `google_vertex`."
    )
    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="How much it writes."
    )
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="How hard it works: `anthropic`."
    )
    strict: bool | None = Field(None, description="Whether calls of tools must fit their schemas.")
    tool_call_parser: Name | None = Field(None, description="How tool calls are read: `sglang`.")
    response_format: ResponseFormat | None = Field(None, description="What form the answers have.")
    response_schema: ResponseFormat | None = Field(
        None, description="The same for `google_ai`, `google_vertex`."
    )


class Compaction(Table):
    """When and how a long conversation is summarised."""

    mode: CompactionMode | None = Field(
        None, description="What is summarised, and by which prompt."
    )
    model: Handle | None = Field(
        None, description="The model that summarises; without it the agent's."
    )
    prompt: Text | None = Field(None, description="The instructions of that model.")
    clip_chars: int | None = Field(
        None, ge=1, le=INTEGER_MAX, description="How long a summary may be."
    )
    sliding_window_percentage: float | None = Field(
        None, gt=0, lt=1, description="Which part of the conversation is summarised at once."
    )
