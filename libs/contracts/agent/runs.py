"""The language of the agent service: runs, from the request to their end."""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import ClassVar

from pydantic import Field

from libs.contracts.agent.conversations import (
    ConversationEvent,
    Message,
    RunCommand,
    RunEvent,
    Usage,
)
from libs.contracts.agent.steps import UnfinishedStep
from libs.contracts.bus_messages import JsonObject, Value, is_none
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.model_configs import LLMConfig
from libs.contracts.letta.runs import RunConfig
from libs.contracts.letta.tool_rules import ToolRule


class RunOptions(Value):
    """Another model by its handle, and as it was configured when the run was accepted; another
    system message, shown as it is; and what of its answers the model is to say more about."""

    model: str | None = None
    llm_config: LLMConfig | None = None
    system: str | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    token_ids: bool = False


class ClientTool(Value):
    """A tool that the client carries out; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict)


class ClientSkill(Value):
    """A skill that the client's environment has, and where."""

    name: str
    description: str
    location: str


# The `run_type` of a run in which a sleeptime agent reviews what another agent's runs said.
SLEEPTIME_RUN = "sleeptime"
# How many calls may lead to a run, one out of another, whether they wait or not.
HOPS_MAX = 8


class CallingRun(Value):
    """A run whose agent called another one; whether it `waits` for the answer."""

    agent_id: str
    conversation_id: str
    run_id: str
    waits: bool


class RequestRun(RunCommand):
    """A request that a run serves.

    `retry` says that the client sent the same request before and lost the answer: then the latest
    run with the same `request_hash` is meant, but none of `earlier_runs`: those began before the
    first try came. If there is none, the first try got stuck on its way;
    when it comes after all, the retry's run is meant.

    `unless_busy` says that it is refused where another run has not ended, instead of waiting.
    """

    run: RunConfig
    request_hash: str
    retry: bool = False
    earlier_runs: list[str] = Field(default_factory=list, exclude_if=not_)
    unless_busy: bool = Field(default=False, exclude_if=not_)


class RequestAnswer(RequestRun):
    """A request with messages to answer, by its `options`, and with tools and skills that the
    client has."""

    messages: list[Message]
    max_steps: int
    stream_tokens: bool = False
    options: RunOptions | None = Field(default=None, exclude_if=is_none)
    structured_summaries: bool = Field(default=False, exclude_if=not_)
    client_tools: list[ClientTool] = Field(default_factory=list, exclude_if=not_)
    client_skills: list[ClientSkill] = Field(default_factory=list, exclude_if=not_)


class StartRun(RequestAnswer, topic="run.start"):
    """Answer these messages.

    Where another agent sends them, `callers` are the runs that led to it: a client asked for the
    first of them, and the last one is the run of that agent. One that `ends_pause` cancels the
    pause that the agent has asked for, if there is one. `unless_said` says that an earlier run was
    started for the same: a message that the model saw last, with the same otid and content, is not
    said again.
    """

    callers: list[CallingRun] = Field(default_factory=list, exclude_if=not_)
    ends_pause: bool = Field(default=False, exclude_if=not_)
    unless_said: bool = Field(default=False, exclude_if=not_)


class CancelRuns(RunCommand, topic="run.cancel"):
    """Stop answering: these runs, or without a list every run of the conversation that has not
    ended."""

    run_ids: list[str] | None = None


class DeleteRun(RunCommand, topic="run.delete"):
    """Forget a run that has ended, with its steps; its messages stay in the history."""

    run_id: str


class PreviewModelRequest(RunCommand, topic="model_request.preview"):
    """Say what the model would be asked for these messages; nothing changes."""

    keeps_reply: ClassVar[bool] = False
    run: RunConfig
    messages: list[Message]


class RunAccepted(RunEvent, topic="run.accepted"):
    """These messages will be answered, as agents of `agent_type` with these rules do."""

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
    # What the request brings: see `StartRun`.
    options: RunOptions | None = Field(default=None, exclude_if=is_none)
    client_tools: list[ClientTool] = Field(default_factory=list, exclude_if=not_)
    client_skills: list[ClientSkill] = Field(default_factory=list, exclude_if=not_)
    callers: list[CallingRun] = Field(default_factory=list, exclude_if=not_)
    unless_said: bool = Field(default=False, exclude_if=not_)
    # Whether a sleeptime agent reviews what the agent's runs said, so that its end is counted.
    sleeptime: bool = Field(default=False, exclude_if=not_)
    # Of a run that compacts the conversation and answers nothing: what it does otherwise than the
    # agent's settings say.
    compaction: JsonObject | None = Field(default=None, exclude_if=is_none)


class RunStarted(RunEvent, topic="run.started"):
    """It is this run's turn."""

    agent_id: str


class RunCompleted(RunEvent, topic="run.completed"):
    """A run ended as it should."""

    stop_reason: str
    usage: Usage
    step_count: int
    context_tokens: int
    total_duration_ns: int


class ReviewableRunEnded(RunEvent, topic="reviewable_run.ended"):
    """A run ended as it should, of an agent whose runs a sleeptime agent reviews."""

    additive: ClassVar[bool] = True
    agent_id: str


class RunFailed(RunEvent, topic="run.failed"):
    """A run ended with an error, which is never empty."""

    stop_reason: str
    error_type: str
    message: str
    detail: str | None = None
    usage: Usage
    step_count: int
    total_duration_ns: int
    step: UnfinishedStep | None = Field(default=None, exclude_if=is_none)


class QueuedRunsCancelled(ConversationEvent, topic="queued_runs.cancelled"):
    """These runs were cancelled before it was their turn."""

    run_ids: list[str]


class RunCancelled(RunEvent, topic="run.cancelled"):
    """A run that had the turn was cancelled before it ended."""

    usage: Usage
    step_count: int
    total_duration_ns: int
    step: UnfinishedStep | None = Field(default=None, exclude_if=is_none)


class RunDeleted(RunEvent, topic="run.deleted"):
    """A run is not to be found any more, nor are its steps."""

    additive: ClassVar[bool] = True


class CallbackAttempted(RunEvent, topic="callback.attempted"):
    """A client was told that its run has ended, or could not be.

    `status_code` is what it answered, `error` why it did not; it is told again at `next_at`, if
    that is not null.
    """

    additive: ClassVar[bool] = True
    attempts: int
    sent_at: datetime
    status_code: int | None = None
    error: str | None = None
    next_at: datetime | None = None


class HeartbeatsPaused(RunEvent, topic="heartbeats.paused"):
    """The agent asked for a pause, which ends its run at once; unless somebody cancels, a run of
    its own begins when the pause is over."""

    agent_id: str
    tool_call_id: str
    minutes: int
    until: datetime


class HeartbeatsResumed(RunEvent, topic="heartbeats.resumed"):
    """The pause is over, and this run begins."""


class HeartbeatPauseCancelled(ConversationEvent, topic="heartbeat_pause.cancelled"):
    """The pause was cancelled: no run follows it."""
