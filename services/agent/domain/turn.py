"""One turn of a conversation: where it stands, and what has to be done next."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from libs.contracts.conversation import Message, ReasoningPart, ToolCall, Usage
from libs.contracts.ids import derived_id
from libs.contracts.letta.runs import RunConfig
from libs.contracts.told import OPENING_NUMBER, Piece

PAUSE_SECONDS_MAX = 600.0


class PendingCall(BaseModel):
    """A tool call that the model asked for in this step."""

    call: ToolCall
    state: Literal["waiting", "started", "finished"] = "waiting"


class QueuedRun(BaseModel):
    """A run that was accepted and waits for its turn."""

    run: RunConfig
    messages: list[Message]
    max_steps: int
    stream_tokens: bool = False

    @property
    def bytes(self) -> int:
        """About how much its messages take."""
        return sum(len(str(message.content)) for message in self.messages)


class RetriedRun(BaseModel):
    """A run that a retry started, because its first try had not come yet."""

    run_id: str
    request_hash: str
    asked_at: datetime


class Turn(BaseModel):
    """The run whose turn it is."""

    run: RunConfig
    max_steps: int
    stream_tokens: bool = False
    started_at: datetime
    steps: int = 0
    step_id: str = ""
    calls: list[PendingCall] = []
    usage: Usage = Field(default_factory=Usage)
    context_tokens: int = 0
    # How long the run took up to its last event, as far as clocks can be trusted that may be set
    # between two events, or belong to two machines: no pause counts as more than a limit.
    seconds: float = 0.0
    last_at: datetime | None = None
    # The last number under which clients were told something.
    told: int = OPENING_NUMBER

    def pass_until(self, at: datetime) -> None:
        """Let the time pass until something is recorded."""
        pause = (at - (self.last_at or self.started_at)).total_seconds()
        self.seconds += min(max(pause, 0.0), PAUSE_SECONDS_MAX)
        self.last_at = at

    @property
    def next_step_id(self) -> str:
        """The id of the step that the model is asked for next: the same however often asked."""
        return derived_id("step", self.run.id, str(self.steps + 1))

    @property
    def open_call(self) -> PendingCall | None:
        """The first tool call that has no result yet."""
        return next((call for call in self.calls if call.state != "finished"), None)


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model for the step `step_id`."""

    step_id: str


@dataclass(frozen=True, slots=True)
class StartTool:
    """Record that this call starts."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run this call, whose start is recorded."""

    step_id: str
    call: ToolCall


NextAction = AskModel | StartTool | RunTool


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model answered, the same for every provider. `reasoning_parts` is `reasoning` again,
    from a provider that wants it back."""

    text: str
    tool_calls: list[ToolCall]
    finish_reason: str
    usage: Usage
    reasoning: str | None = None
    reasoning_parts: list[ReasoningPart] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spoken:
    """The message of a step, and what clients have been told of it while the model answered:
    the number of the first piece, and all pieces. Without `pieces` it is told when recorded."""

    message_id: str
    since: datetime
    number: int | None = None
    pieces: list[Piece] | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back; `text` is what clients see."""

    status: Literal["success", "error"]
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run cannot go on. `error_type` is one of V1's, e.g. `llm_timeout`."""

    error_type: str
    message: str
    detail: str | None = None
    stop_reason: str = "llm_api_error"


def nanoseconds(since: datetime, until: datetime) -> int:
    """How long something took."""
    return round((until - since).total_seconds() * 1e9)


def mark(turn: Turn, old: str, new: str) -> None:
    """Move the first open call on; calls run in the order in which the model asked."""
    pending = turn.open_call
    assert pending is not None, "there is an open call"
    assert pending.state == old, f"only a {old} call becomes {new}"
    pending.state = new  # type: ignore[assignment]


def served_parts(message: Message) -> int:
    """How many V1 messages a client is served for one message of a step."""
    if message.role == "tool":
        return 1
    return len(message.thoughts) + sum([message.content is not None, bool(message.tool_calls)])
