"""The language of the agent service: conversations, as they come, change, are forked and go, and
the messages in them.

Everything that the lease of a conversation guards is in one stream, also what `runs` and `steps`
have. Events about a run carry its id last in their subject.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from operator import not_
from typing import ClassVar, Literal

from pydantic import Field

from libs.contracts.agent.stream_chunks import Chunk
from libs.contracts.bus_messages import Command, Event, Json, JsonObject, Value, is_none
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.conversations import ConversationConfig

SERVICE = "agent"

CONVERSATIONS_REMEMBERED_MAX = 4_096

# What a client said about calls that waited for it is an `approval`: models are not shown it.
Role = Literal["system", "user", "assistant", "tool", "approval"]
ToolStatus = Literal["success", "error"]


class BoundTool(Value):
    """A tool as it was when it was called: its `revision` grows with each change of it."""

    id: str
    revision: int = Field(default=0, exclude_if=not_)


class ToolCall(Value):
    """A tool call as the model asked for it; `arguments` is JSON text, maybe malformed. Where one
    of them is what the assistant says to the user, clients are shown that instead of the call,
    before the text of its message where it was `said_first`. One that is `gated` waits for the
    client before it is carried out, and means this `bound` tool and no other."""

    id: str
    name: str
    arguments: str
    spoken_argument: str = Field(default="", exclude_if=not_)
    said_first: bool = Field(default=False, exclude_if=not_)
    gated: bool = Field(default=False, exclude_if=not_)
    bound: BoundTool | None = Field(default=None, exclude_if=is_none)
    # What the provider wants back with the call, such as the signature of the thoughts before it.
    extra: JsonObject | None = Field(default=None, exclude_if=is_none)


# The names under which servers that speak OpenAI's wire send the thoughts of a model.
ReasoningField = Literal["reasoning_content", "reasoning"]


class ReasoningPart(Value):
    """A stretch of a model's reasoning that its provider wants back as it was: words with a
    signature, or something that only the provider can read."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None


class Summary(Value):
    """A summary that stands for older messages: its text, and what V1 tells of how it came to be.
    It is `structured` where the client wants summaries told apart from what users say."""

    text: str
    stats: JsonObject
    structured: bool = False


class Message(Value):
    """One message, the same for every provider. `content` is text or V1 content parts.

    Reasoning is in `reasoning_parts` if its provider wants it back, else in `reasoning`: those are
    `inner_thoughts` where a model wrote them into the arguments of a call, and came in the
    `reasoning_field` of an answer, in which some providers want them back with the calls. What is
    `hidden` only the model sees. The content of an `approval` is the answers to the message
    `request_id`.
    """

    id: str
    role: Role
    content: Json = None
    created_at: datetime
    otid: str | None = None
    name: str | None = None
    sender_id: str | None = None
    group_id: str | None = Field(default=None, exclude_if=is_none)
    reasoning: str | None = None
    reasoning_field: ReasoningField | None = Field(default=None, exclude_if=is_none)
    inner_thoughts: bool = Field(default=False, exclude_if=not_)
    hidden: bool = Field(default=False, exclude_if=not_)
    reasoning_parts: list[ReasoningPart] = Field(default_factory=list)
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_call_id: str | None = None
    tool_status: ToolStatus | None = None
    summary: Summary | None = Field(default=None, exclude_if=is_none)
    stdout: list[str] | None = Field(default=None, exclude_if=is_none)
    stderr: list[str] | None = Field(default=None, exclude_if=is_none)
    request_id: str | None = Field(default=None, exclude_if=is_none)

    @property
    def thoughts(self) -> list[ReasoningPart]:
        """The reasoning, whoever it is from."""
        if self.reasoning:
            return [ReasoningPart(text=self.reasoning)]
        return self.reasoning_parts


class Usage(Value):
    """Tokens, as the provider counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """The tokens of both, added up by kind."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@lru_cache(CONVERSATIONS_REMEMBERED_MAX)
def main_conversation(agent_id: str) -> str:
    """The id of the conversation that an agent always has; clients know it by the agent's id."""
    return derived_id("conv", agent_id)


class RunCommand(Command, service=SERVICE):
    """A command about the runs of one conversation of an agent: without `conversation_id`, of the
    conversation that the agent always has."""

    agent_id: str
    conversation_id: str | None = None

    @property
    def conversation(self) -> str:
        """The id of the conversation."""
        return self.conversation_id or main_conversation(self.agent_id)

    @property
    def target(self) -> str:
        return self.conversation


class ConversationEvent(Event, service=SERVICE):
    """A fact about one conversation."""


class RunEvent(ConversationEvent):
    """A fact about one run of a conversation."""

    run_id: str

    @property
    def about(self) -> str:
        return self.run_id


class MessageAppended(ConversationEvent, topic="message.appended"):
    """A message is part of the history, and of what models see unless it is not `in_context`."""

    agent_id: str
    message: Message
    run_id: str | None = None
    step_id: str | None = None
    # Whether the client sent it; the rest of a run's messages are its answer.
    sent: bool = False
    # Of a system message: what it was made from.
    shows: dict[str, int] | None = None
    # Of a message of a run's answer: the number under which clients receive it, or its first
    # chunk, and, where tokens stream, its chunks.
    number: int | None = None
    chunks: list[Chunk] | None = None
    # When the one before was listed, where the clock has gone back since: none overtakes another.
    listed_at: datetime | None = Field(default=None, exclude_if=not_)
    # Whether models are shown it: one of a history from outside may have left the context there.
    in_context: bool = Field(default=True, exclude_if=bool)


class SystemPromptRebuilt(ConversationEvent, topic="system_prompt.rebuilt"):
    """The system message was rebuilt, because something that it shows has changed."""

    agent_id: str
    message: Message
    shows: dict[str, int]


class ConversationDeleted(ConversationEvent, topic="conversation.deleted"):
    """A conversation is gone; the blocks that were made with it may go too, if no agent has
    them."""

    own_block_ids: list[str] = Field(default_factory=list, exclude_if=not_)


class ConversationCommand(Command, service=SERVICE):
    """A command about one conversation beside an agent's own."""

    conversation_id: str

    @property
    def target(self) -> str:
        return self.conversation_id


class CreateConversation(ConversationCommand, topic="conversation.create"):
    """Make a conversation of an agent, with its own copies of some blocks, as a V1 request
    describes it."""

    agent_id: str
    request: JsonObject


class ForkConversation(ConversationCommand, topic="conversation.fork"):
    """Make a conversation that goes on from what another one of the agent has in its context: all
    of it, or up to a message."""

    agent_id: str
    source_id: str
    message_id: str | None = None
    hidden: bool = False


class UpdateConversation(ConversationCommand, topic="conversation.update"):
    """Change the fields that a V1 request sets."""

    request: JsonObject


class DeleteConversation(ConversationCommand, topic="conversation.delete"):
    """Remove a conversation with its messages, its runs and its own blocks."""


class RecompileConversation(RunCommand, topic="conversation.recompile"):
    """Compile the system message again, from the present blocks and settings."""


class PreviewSystemPrompt(RunCommand, topic="conversation.preview_system_prompt"):
    """Compile the system message as it would be now, and change nothing.

    Answered with `{"content"}`; refused as too large if it does not fit a reply.
    """

    keeps_reply: ClassVar[bool] = False


class ConversationCreated(ConversationEvent, topic="conversation.created"):
    """A conversation exists beside the agent's own."""

    config: ConversationConfig


class ConversationUpdated(ConversationEvent, topic="conversation.updated"):
    """Fields of a conversation have new values: those that `changed` names."""

    changed: list[str] = Field(default_factory=list)
    config: ConversationConfig
