"""The language of the agent service: the steps of a run, each with the model's answer and the tools
that it called."""

from __future__ import annotations

from operator import not_
from typing import ClassVar

from pydantic import Field

from libs.contracts.agent.conversations import (
    Message,
    RunCommand,
    RunEvent,
    ToolCall,
    ToolStatus,
    Usage,
)
from libs.contracts.bus_messages import JsonObject, Value, is_none


class UnfinishedStep(Value):
    """The step that was under way when its run ended. `asked` says that its model had not answered
    yet: then no other event tells of it. `model` is empty where nobody can tell any more."""

    id: str
    agent_id: str
    asked: bool
    model: str = ""


class ModelReplied(RunEvent, topic="model.replied"):
    """The model answered a step, `model_ns` after it was asked; where rules left it some tools
    only, `offered` names them, and `concurrent` are the ids of the calls that may run beside each
    other."""

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
    # What models are not shown since a provider refused it is tried again after this.
    tries_again: bool = Field(default=False, exclude_if=not_)


class ToolCallStarted(RunEvent, topic="tool_call.started"):
    """A tool is about to run."""

    step_id: str
    tool_call_id: str
    tool: str


class StartedCall(Value):
    """A tool call, and the tool that it is of."""

    tool_call_id: str
    tool: str


class ToolCallsStarted(RunEvent, topic="tool_calls.started"):
    """Several tools are about to run beside each other."""

    step_id: str
    calls: list[StartedCall]


class ToolCallRefused(RunEvent, topic="tool_call.refused"):
    """The agent's rules or the user did not allow a call, so it was not carried out; what the model
    is told of it may be `held` as a result is."""

    step_id: str
    tool_call_id: str
    tool: str
    held: Message | None = Field(default=None, exclude_if=is_none)


class ToolCallForbidden(RunEvent, topic="tool_call.forbidden"):
    """A tool was not called, because the agent may not call it.

    `reason` says which list does not have it; the model is told that as the result of its call."""

    additive: ClassVar[bool] = True
    step_id: str
    tool_call_id: str
    tool: str
    reason: str


class ToolCallFinished(RunEvent, topic="tool_call.finished"):
    """A tool gave its result, which is `held` where a call before has none yet, and becomes part of
    the history after that one's.

    A program has `called` these tools."""

    step_id: str
    tool_call_id: str
    status: ToolStatus
    held: Message | None = Field(default=None, exclude_if=is_none)
    called: list[str] = Field(default_factory=list, exclude_if=not_)


class ToolCallInterrupted(RunEvent, topic="tool_call.interrupted"):
    """Nobody knows what the tool did: its process died and it may not run twice, or its run was
    cancelled meanwhile; what the model is told of it may be `held` as a result is."""

    step_id: str
    tool_call_id: str
    held: Message | None = Field(default=None, exclude_if=is_none)


class AnnotateStep(RunCommand, topic="step.annotate"):
    """Keep what a client says of a step: `feedback`, `tags` or `tid`, those that `changes` has."""

    step_id: str
    changes: JsonObject


class StepAnnotated(RunEvent, topic="step.annotated"):
    """A client has said something of a step."""

    additive: ClassVar[bool] = True
    step_id: str
    changes: JsonObject
