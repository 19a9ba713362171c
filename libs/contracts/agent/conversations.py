"""The language of the agent service, second half: a conversation, its messages and its runs.

Everything that the lease of a conversation guards is in one stream: who was heard, what the model
said, which tools ran. Events about a run carry its id last in their subject.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from operator import not_
from typing import ClassVar, Literal

from pydantic import Field

from libs.contracts.agent.run_options import RunOptions
from libs.contracts.agent.stream_chunks import Chunk
from libs.contracts.bus_messages import Command, Event, Json, JsonObject, Value, is_none
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.runs import RunConfig
from libs.contracts.letta.tool_rules import ToolRule

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
    `inner_thoughts` where a model wrote them into the arguments of a call. What is `hidden` only
    the model sees. The content of an `approval` is the answers to the message `request_id`.
    """

    id: str
    role: Role
    content: Json = None
    created_at: datetime
    otid: str | None = None
    name: str | None = None
    sender_id: str | None = None
    reasoning: str | None = None
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
        """The sum of two."""
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


class RunCommand(Command):
    """A command about the runs of one conversation of an agent; without `conversation_id`, as an
    older api sends it, the agent's own."""

    service: ClassVar[str] = SERVICE
    agent_id: str
    conversation_id: str | None = None

    @property
    def conversation(self) -> str:
        """The id of the conversation."""
        return self.conversation_id or main_conversation(self.agent_id)

    @property
    def target(self) -> str:
        return self.conversation


class StartRun(RunCommand):
    """Answer these messages.

    `retry` says that the client sent the same request before and lost the answer: then the latest
    run with the same `request_hash` is meant, but none of `earlier_runs`: those began before the
    first try came. If there is none, the first try got stuck on its way;
    when it comes after all, the retry's run is meant.

    `unless_busy` says that it is refused where another run has not ended, instead of waiting.
    """

    topic: ClassVar[str] = "run.start"
    run: RunConfig
    messages: list[Message]
    max_steps: int
    request_hash: str
    retry: bool = False
    earlier_runs: list[str] = Field(default_factory=list, exclude_if=not_)
    stream_tokens: bool = False
    unless_busy: bool = Field(default=False, exclude_if=not_)
    # Older processes ignore them, so a command with options is one that those do not know.
    options: RunOptions | None = Field(default=None, exclude_if=is_none)
    structured_summaries: bool = Field(default=False, exclude_if=not_)


class CancelRuns(RunCommand):
    """Stop answering: these runs, or without a list every run of the conversation that has not
    ended."""

    topic: ClassVar[str] = "run.cancel"
    run_ids: list[str] | None = None


class ConversationEvent(Event):
    """A fact about one conversation."""

    service: ClassVar[str] = SERVICE


class RunEvent(ConversationEvent):
    """A fact about one run of a conversation."""

    run_id: str

    @property
    def about(self) -> str:
        return self.run_id


class MessageAppended(ConversationEvent):
    """A message is part of the history, and of what the model sees."""

    topic: ClassVar[str] = "message.appended"
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
    pieces: list[Chunk] | None = None
    # When the one before was listed, where the clock has gone back since: none overtakes another.
    listed_at: datetime | None = Field(default=None, exclude_if=not_)


class SystemPromptRebuilt(ConversationEvent):
    """The system message was rebuilt, because something that it shows has changed."""

    topic: ClassVar[str] = "system_prompt.rebuilt"
    agent_id: str
    message: Message
    shows: dict[str, int]


class ConversationDeleted(ConversationEvent):
    """A conversation is gone; the blocks that were made with it may go too, if no agent has
    them."""

    topic: ClassVar[str] = "conversation.deleted"
    own_block_ids: list[str] = Field(default_factory=list, exclude_if=not_)


class RunAccepted(RunEvent):
    """These messages will be answered, as agents of `agent_type` with these rules do."""

    topic: ClassVar[str] = "run.accepted"
    agent_type: AgentType = Field(
        default=AgentType.letta_v1_agent, exclude_if=AgentType.letta_v1_agent.__eq__
    )
    tool_rules: list[ToolRule] = Field(default_factory=list, exclude_if=not_)
    run: RunConfig
    messages: list[Message]
    max_steps: int
    request_hash: str
    retry: bool = False
    stream_tokens: bool = False
    asked_at: datetime | None = None
    # Whether the client wants summaries told apart from what users say, and whether models are
    # shown nothing of what was said before.
    structured_summaries: bool = Field(default=False, exclude_if=not_)
    autoclear: bool = Field(default=False, exclude_if=not_)
    # Whether it brings the answer that the conversation waits for: then it goes before all others.
    answers: bool = Field(default=False, exclude_if=not_)
    # The cancelled run behind whose results it goes on, since its client answered again.
    goes_on_from: str = Field(default="", exclude_if=not_)


class RunStarted(RunEvent):
    """It is this run's turn."""

    topic: ClassVar[str] = "run.started"
    agent_id: str


class UnfinishedStep(Value):
    """The step that was under way when its run ended. `asked` says that its model had not answered
    yet: then no other event tells of it. `model` is empty where nobody can tell any more."""

    id: str
    agent_id: str
    asked: bool
    model: str = ""


class ModelReplied(RunEvent):
    """The model answered a step, `model_ns` after it was asked; where rules left it some tools
    only, `offered` names them, and `concurrent` are the ids of the calls that may run beside each
    other."""

    topic: ClassVar[str] = "model.replied"
    step_id: str
    agent_id: str = Field(default="", exclude_if=not_)
    model_ns: int = Field(default=0, exclude_if=not_)
    # How likely the tokens of the answer were, and which they are, where the run wants to know.
    logprobs: JsonObject | None = Field(default=None, exclude_if=is_none)
    token_ids: list[int] | None = Field(default=None, exclude_if=is_none)
    model: str
    usage: Usage
    finish_reason: str
    tool_calls: list[ToolCall] = Field(default_factory=list)
    offered: list[str] | None = Field(default=None, exclude_if=is_none)
    concurrent: list[str] = Field(default_factory=list, exclude_if=not_)
    # Tools that rules required, and that the agent had no more: nothing waits for them.
    gone: list[str] = Field(default_factory=list, exclude_if=not_)
    # What the model was asked weighed so much by our own estimate, see `token_estimates`.
    prompt_bytes: int = Field(default=0, exclude_if=not_)


class ToolCallStarted(RunEvent):
    """A tool is about to run."""

    topic: ClassVar[str] = "tool_call.started"
    step_id: str
    tool_call_id: str
    tool: str


class StartedCall(Value):
    """A tool call, and the tool that it is of."""

    tool_call_id: str
    tool: str


class ToolCallsStarted(RunEvent):
    """Several tools are about to run beside each other."""

    topic: ClassVar[str] = "tool_calls.started"
    step_id: str
    calls: list[StartedCall]


class ToolCallRefused(RunEvent):
    """The agent's rules or the user did not allow a call, so it was not carried out; what the model
    is told of it may be `held` as a result is."""

    topic: ClassVar[str] = "tool_call.refused"
    step_id: str
    tool_call_id: str
    tool: str
    held: Message | None = Field(default=None, exclude_if=is_none)


class ToolCallForbidden(RunEvent):
    """A tool was not called, because the agent may not call it.

    `reason` says which list does not have it; the model is told that as the result of its call."""

    topic: ClassVar[str] = "tool_call.forbidden"
    additive: ClassVar[bool] = True
    step_id: str
    tool_call_id: str
    tool: str
    reason: str


class ToolCallFinished(RunEvent):
    """A tool gave its result, which is `held` where a call before has none yet, and becomes part of
    the history after that one's.

    A program has `called` these tools."""

    topic: ClassVar[str] = "tool_call.finished"
    step_id: str
    tool_call_id: str
    status: ToolStatus
    held: Message | None = Field(default=None, exclude_if=is_none)
    called: list[str] = Field(default_factory=list, exclude_if=not_)


class ToolCallInterrupted(RunEvent):
    """Nobody knows what the tool did: its process died and it may not run twice, or its run was
    cancelled meanwhile; what the model is told of it may be `held` as a result is."""

    topic: ClassVar[str] = "tool_call.interrupted"
    step_id: str
    tool_call_id: str
    held: Message | None = Field(default=None, exclude_if=is_none)


class RunCompleted(RunEvent):
    """A run ended as it should."""

    topic: ClassVar[str] = "run.completed"
    stop_reason: str
    usage: Usage
    step_count: int
    context_tokens: int
    total_duration_ns: int


class RunFailed(RunEvent):
    """A run ended with an error, which is never empty."""

    topic: ClassVar[str] = "run.failed"
    stop_reason: str
    error_type: str
    message: str
    detail: str | None = None
    usage: Usage
    step_count: int
    total_duration_ns: int
    step: UnfinishedStep | None = Field(default=None, exclude_if=is_none)


class QueuedRunsCancelled(ConversationEvent):
    """These runs were cancelled before it was their turn."""

    topic: ClassVar[str] = "queued_runs.cancelled"
    first_snapshot: ClassVar[bool] = True
    run_ids: list[str]


class RunCancelled(RunEvent):
    """A run that had the turn was cancelled before it ended."""

    topic: ClassVar[str] = "run.cancelled"
    usage: Usage
    step_count: int
    total_duration_ns: int
    step: UnfinishedStep | None = Field(default=None, exclude_if=is_none)
