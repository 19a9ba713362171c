"""The tables of the form about the model: its settings, answers, and summaries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from libs.agent_toml.tables import Handle, Metadata, Name, Table, Text
from libs.contracts.letta.request_size_limits import (
    INTEGER_MAX,
    Integer,
)

ResponseType = Literal["text", "json_object", "json_schema"]
CompactionMode = Literal["all", "sliding_window", "self_compact_all", "self_compact_sliding_window"]


class Reasoning(Table):
    """The reasoning effort of a model of OpenAI."""

    reasoning_effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh"],
        Field(description="How much it thinks."),
    ]


class Thinking(Table):
    """Whether a model of Anthropic or Z.ai thinks first."""

    type: Annotated[Literal["enabled", "disabled"], Field(description="Whether it thinks.")]
    budget_tokens: Annotated[
        Integer | None, Field(description="Anthropic: how many tokens at most.")
    ] = None
    clear_thinking: Annotated[
        bool | None, Field(description="Z.ai: whether earlier thoughts are left out.")
    ] = None


class ThinkingConfig(Table):
    """Whether a model of Google thinks first."""

    include_thoughts: Annotated[bool, Field(description="Whether it thinks.")] = True
    thinking_budget: Annotated[Integer, Field(description="How many tokens at most.")] = 1024


class ResponseFormat(Table):
    """The form of the answers."""

    type: Annotated[ResponseType, Field(description="Text, any JSON, or JSON of a schema.")]
    json_schema: Annotated[
        Metadata | None,
        Field(description="The JSON Schema of the answers; with `json_schema` alone."),
    ] = None


class ModelSettings(Table):
    """The settings of a model. Which of them it takes depends on its provider."""

    provider_type: Annotated[
        Name | None,
        Field(
            description="Whose settings these are (`openai`, `anthropic`, ...); without it, what "
            "the handle of `model` begins with."
        ),
    ] = None
    temperature: Annotated[
        float | None, Field(allow_inf_nan=False, description="How much answers vary.")
    ] = None
    max_output_tokens: Annotated[
        Integer | None, Field(description="How long one answer may be.")
    ] = None
    parallel_tool_calls: Annotated[
        bool | None, Field(description="Whether it may call several tools at once.")
    ] = None
    reasoning: Annotated[
        Reasoning | None, Field(description="How much it thinks: `openai`, `sglang`.")
    ] = None
    thinking: Annotated[
        Thinking | None, Field(description="Whether it thinks: `anthropic`, `zai`.")
    ] = None
    thinking_config: Annotated[
        ThinkingConfig | None, Field(description="Whether it thinks: `google_ai`, `google_vertex`.")
    ] = None
    verbosity: Annotated[
        Literal["low", "medium", "high"] | None, Field(description="How much it writes.")
    ] = None
    effort: Annotated[
        Literal["low", "medium", "high", "xhigh", "max"] | None,
        Field(description="How hard it works: `anthropic`."),
    ] = None
    strict: Annotated[
        bool | None, Field(description="Whether calls of tools must fit their schemas.")
    ] = None
    tool_call_parser: Annotated[
        Name | None, Field(description="How tool calls are read: `sglang`.")
    ] = None
    response_format: Annotated[
        ResponseFormat | None, Field(description="What form the answers have.")
    ] = None
    response_schema: Annotated[
        ResponseFormat | None, Field(description="The same for `google_ai`, `google_vertex`.")
    ] = None


class Compaction(Table):
    """When and how a long conversation is summarised."""

    mode: Annotated[
        CompactionMode | None, Field(description="What is summarised, and by which prompt.")
    ] = None
    model: Annotated[
        Handle | None, Field(description="The model that summarises; without it the agent's.")
    ] = None
    prompt: Annotated[Text | None, Field(description="The instructions of that model.")] = None
    clip_chars: Annotated[
        int | None, Field(ge=1, le=INTEGER_MAX, description="How long a summary may be.")
    ] = None
    sliding_window_percentage: Annotated[
        float | None,
        Field(gt=0, lt=1, description="Which part of the conversation is summarised at once."),
    ] = None
