"""The language of the agent service: calls that wait for the client, and its answers.

A call waits where the agent's rules want an approval, and where the client carries the tool out
itself. The run that asks ends; a run that brings the answer goes on in the same step.
"""

from __future__ import annotations

from hashlib import sha256
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.agent.conversations import (
    SERVICE,
    ConversationEvent,
    Message,
    RunEvent,
    ToolCall,
    ToolStatus,
)
from libs.contracts.agent.runs import RequestAnswer
from libs.contracts.bus_messages import Command, Json, Value, is_none

AnswerKind = Literal["approved", "denied", "returned"]


class CallAnswer(Value):
    """A client's answer to one call: yes, no and why, or the tool's result."""

    tool_call_id: str
    kind: AnswerKind
    reason: str | None = Field(default=None, exclude_if=is_none)
    content: Json = Field(default=None, exclude_if=is_none)
    status: ToolStatus = Field(default="success", exclude_if="success".__eq__)
    stdout: list[str] | None = Field(default=None, exclude_if=is_none)
    stderr: list[str] | None = Field(default=None, exclude_if=is_none)


class RecordedAnswer(CallAnswer):
    """An answer as it is recorded: an approval holds for these very arguments and no others."""

    arguments_hash: str


class WaitingCall(Value):
    """A call that waits for the client; `by_client` if the client is to carry it out."""

    tool_call_id: str
    tool: str
    arguments_hash: str
    by_client: bool = Field(default=False, exclude_if=not_)


def arguments_hash(call: ToolCall) -> str:
    """A digest of the approved tool, as it was then, and its arguments, to the letter."""
    bound = f"\x00{call.bound.id}\x00{call.bound.revision}" if call.bound else ""
    return sha256(f"{call.name}\x00{call.arguments}{bound}".encode()).hexdigest()


def changed_since_approval(tool: str) -> str:
    """The text to a model about an approved call whose tool is another one by now."""
    return (
        f"'{tool}' was not called: it has changed since this call was approved. Call it again to"
        " have it approved as it is now."
    )


class AnswerApproval(RequestAnswer, topic="approval.answer"):
    """Go on where calls wait for the client: these are its answers, the messages follow them."""

    answers: list[CallAnswer]
    otid: str | None = None


class SetToolApproval(Command, service=SERVICE, topic="agent.set_tool_approval"):
    """From the next run on, calls of this tool wait for an approval, or do not any more."""

    agent_id: str
    tool: str
    requires_approval: bool

    @property
    def target(self) -> str:
        return self.agent_id


class ApprovalRequested(RunEvent, topic="approval.requested"):
    """Calls of a step wait for the client; until it answers, nothing of the step is carried out."""

    agent_id: str
    step_id: str
    message_id: str
    calls: list[WaitingCall]


class ApprovalAnswered(RunEvent, topic="approval.answered"):
    """The client answered calls that the message `request_id` asked about.

    The run is the one that brings the answer; `waiting` are the calls that still wait.
    """

    step_id: str
    request_id: str
    answers: list[RecordedAnswer]
    waiting: list[str] = Field(default_factory=list)


class ToolCallReturned(RunEvent, topic="tool_call.returned"):
    """The client carried a call out, and said what it gave, which may be `held` as a result is."""

    step_id: str
    tool_call_id: str
    tool: str
    status: ToolStatus
    held: Message | None = Field(default=None, exclude_if=is_none)


class ApprovalEnded(ConversationEvent):
    """Nobody can answer any more: the calls get results that say why."""

    run_id: str
    step_id: str
    request_id: str
    tool_call_ids: list[str]


class ApprovalExpired(ApprovalEnded, topic="approval.expired"):
    """The deadline of an approval passed: its calls are not carried out."""


class ApprovalCancelled(ApprovalEnded, topic="approval.cancelled"):
    """An approval was cancelled: its calls are not carried out."""
