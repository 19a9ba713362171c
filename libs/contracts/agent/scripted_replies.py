"""Replies of the model `scripted/replies`, which stand in the metadata of its agent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

HANDLE = "scripted/replies"
# The member of an agent's metadata that has its replies.
METADATA_KEY = "scripted_replies"

REPLIES_MAX = 1_000
CALLS_OF_A_REPLY_MAX = 128
TEXT_CHARACTERS_MAX = 100_000

type Text = Annotated[str, Field(max_length=TEXT_CHARACTERS_MAX)]
type Tokens = Annotated[int, Field(ge=0, le=100_000_000)]
type ScriptedError = Literal[
    "llm_error",
    "llm_timeout",
    "llm_rate_limit",
    "llm_connection_error",
    "llm_provider_overloaded",
]


class ScriptedCall(BaseModel):
    """A tool that the model calls."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=256)]
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ScriptedReply(BaseModel):
    """One reply of the model. A reply with `match` answers whatever contains that text, as often as
    it comes; the others are given in their order, each once. With an `error` the model fails."""

    model_config = ConfigDict(extra="forbid")

    match: Text | None = None
    text: Text = ""
    reasoning: Text | None = None
    tool_calls: Annotated[list[ScriptedCall], Field(max_length=CALLS_OF_A_REPLY_MAX)] = Field(
        default_factory=list
    )
    error: ScriptedError | None = None
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class ScriptedReplies(BaseModel):
    """The replies of an agent's model."""

    replies: Annotated[list[ScriptedReply], Field(max_length=REPLIES_MAX)]
