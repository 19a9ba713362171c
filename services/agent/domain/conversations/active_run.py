"""The active run of a conversation, and those in line behind it: how far they are."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, Field

from libs.contracts.agent.conversations import Message, ToolCall, Usage
from libs.contracts.agent.runs import RunOptions
from libs.contracts.agent.steps import UnfinishedStep
from libs.contracts.agent.stream_chunks import OPENING_NUMBER
from libs.contracts.bus_messages import JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.runs import RunConfig
from libs.contracts.letta.tool_rules import ToolRule
from services.agent.domain.conversations.approval_state import CallState, Gate, PendingCall

PAUSE_SECONDS_MAX = 600.0
# How many calls of one step may run at once.
CONCURRENT_CALLS_MAX = 8
# What the model is shown as the result of a call that has none.
INTERRUPTED = (
    "The tool call was interrupted: the server stopped while the tool ran, and whether it took "
    "effect is not known. Check before you call it again."
)
CANCELLED = (
    "The tool call was interrupted: the user cancelled the run, and whether the tool took effect "
    "is not known."
)


class AcceptedRun(BaseModel):
    """The terms that a run was accepted with, which decide how it is answered."""

    run: RunConfig
    max_steps: int
    stream_tokens: bool = False
    agent_type: AgentType = AgentType.letta_v1_agent
    tool_rules: list[ToolRule] = []
    structured_summaries: bool = False
    # Of a run that is nothing but a compaction: what it does otherwise than the agent's settings.
    compaction: JsonObject | None = None
    options: RunOptions | None = None
    gate: Gate | None = None
    # Whether its end counts for the agent's sleeptime group.
    sleeptime: bool = False


class QueuedRun(AcceptedRun):
    """A run that was accepted and waits for those before it."""

    messages: list[Message]
    autoclear: bool = False
    answers: bool = False
    unless_said: bool = False

    @property
    def bytes(self) -> int:
        """About how much its messages take, and its own system message."""
        system = (self.options.system if self.options else None) or ""
        return len(system) + sum(len(str(message.content)) for message in self.messages)


class RetriedRun(BaseModel):
    """A run that a retry started, because its first try had not come yet."""

    run_id: str
    request_hash: str
    asked_at: datetime


class ActiveRun(AcceptedRun):
    """The run that is being answered."""

    # Whether it has no message and no answer of a client, or is the retry of a run that failed.
    brings_nothing: bool = False
    # How often the conversation was compacted since the model answered last.
    compactions: int = 0
    started_at: datetime
    steps: int = 0
    step_id: str = ""
    calls: list[PendingCall] = []
    # What the client said together with its answer: the model hears it after the results.
    follow_ups: list[Message] = []
    # What the last step was offered, where rules left it some tools only.
    offered: list[str] | None = None
    # The tools that were called in the steps before, and what the last call gave back, where a
    # rule wants to know.
    called: list[str] = []
    returned: str = ""
    # Whether the agent asked for a pause: the run ends behind its step.
    paused: bool = False
    finish_reason: str = ""
    usage: Usage = Field(default_factory=Usage)
    context_tokens: int = 0
    # How long the run took up to its last event, as far as clocks can be trusted that may be set
    # between two events, or belong to two machines: no pause counts as more than a limit, and time
    # goes on only where it is later than ever before, so that two clocks do not count by turns.
    seconds: float = 0.0
    last_at: datetime | None = None
    # The last number in the run stream.
    last_number: int = OPENING_NUMBER

    def pass_until(self, at: datetime) -> None:
        """Let the time pass until something is recorded."""
        latest = self.last_at or self.started_at
        pause = (at - latest).total_seconds()
        self.seconds += min(max(pause, 0.0), PAUSE_SECONDS_MAX)
        self.last_at = max(at, latest)

    @property
    def next_step_id(self) -> str:
        """The id of the step that the model is asked for next: the same however often asked."""
        return step_id_of(self.run.id, self.steps + 1)

    @property
    def history(self) -> list[str]:
        """The tools that were called, the newest last."""
        done = (
            pending for pending in self.calls if pending.state == "finished" and not pending.refused
        )
        return [*self.called, *(name for pending in done for name in pending.names)]

    @property
    def is_fresh(self) -> bool:
        """Whether nothing came of it yet that could end it: the model has to be asked first."""
        return not self.steps and not self.calls

    @property
    def says_nothing(self) -> bool:
        """Whether the model is shown nothing that it was not asked about before."""
        return self.brings_nothing and not self.steps

    @property
    def waits_for_client(self) -> bool:
        """Whether calls of the step need the client's answer."""
        return any(call.waits_for_client for call in self.calls)

    @property
    def unshown_answer(self) -> PendingCall | None:
        """The first call that is not carried out, because the client's answer is its result."""
        waiting = (
            pending
            for pending in self.calls
            if pending.state == "waiting" and pending.answer is not None
        )
        return next((pending for pending in waiting if not pending.approved), None)

    @property
    def open_call(self) -> PendingCall | None:
        """The first tool call that has no result yet."""
        return next((call for call in self.calls if call.state != "finished"), None)

    @property
    def started_calls(self) -> tuple[ToolCall, ...]:
        """The calls that have started and have no result yet."""
        return tuple(pending.call for pending in self.calls if pending.state == "started")

    @property
    def startable_calls(self) -> tuple[ToolCall, ...]:
        """The calls that may start now: first those that may run beside others, so many at once as
        may, then the rest one by one. What needs an approval has it."""
        waiting = [
            pending for pending in self.calls if pending.state == "waiting" and pending.approved
        ]
        concurrent = [pending.call for pending in waiting if pending.concurrent]
        started = len(self.started_calls)
        if concurrent:
            return tuple(concurrent[: CONCURRENT_CALLS_MAX - started])
        return () if started else tuple(pending.call for pending in waiting[:1])

    def pending(self, call_id: str) -> PendingCall:
        """The call of this id, where the step has it."""
        return next(pending for pending in self.calls if pending.call.id == call_id)

    def follows_unshown(self, call_id: str) -> bool:
        """Whether a call before this one has no result in the history yet."""
        return any(
            not pending.shown
            for pending in takewhile(lambda pending: pending.call.id != call_id, self.calls)
        )

    def show(self, call_id: str | None) -> None:
        """The result of a call is in the history."""
        for pending in self.calls:
            if pending.call.id == call_id:
                pending.held = None

    @property
    def next_held(self) -> Message | None:
        """The result that can be shown now, since all before it are."""
        unshown = next((pending for pending in self.calls if not pending.shown), None)
        return unshown.held if unshown else None


def step_id_of(run_id: str, number: int) -> str:
    """The id of a step of a run, which are numbered from 1."""
    return derived_id("step", run_id, str(number))


def nanoseconds(since: datetime, until: datetime) -> int:
    """The nanoseconds from `since` until `until`."""
    return round((until - since).total_seconds() * 1e9)


def end_fields(active: ActiveRun, at: datetime) -> dict[str, Any]:
    """The fields that every event has with which a run ends."""
    return {
        "usage": active.usage,
        "step_count": active.steps,
        "total_duration_ns": nanoseconds(active.run.created_at, at),
    }


def unfinished_step(active: ActiveRun, agent_id: str, model: str = "") -> UnfinishedStep:
    """The step that a run is in: the one whose calls are carried out, or the one that its model is
    asked for."""
    asked = active.open_call is None
    step_id = active.next_step_id if asked else active.step_id
    return UnfinishedStep(id=step_id, agent_id=agent_id, asked=asked, model=model if asked else "")


def mark(active: ActiveRun, call_id: str, old: CallState, new: CallState) -> PendingCall:
    """Move a call on; returns it."""
    pending = active.pending(call_id)
    assert pending.state == old, f"only a {old} call becomes {new}"
    pending.state = new
    return pending


def served_parts(message: Message) -> int:
    """The number of V1 messages that a client gets for one message of a step."""
    if message.hidden:
        return 0
    if message.summary is not None:
        return 2 if message.summary.structured else 1
    if message.role == "tool":
        return 1
    spoken = sum(bool(call.spoken_argument) for call in message.tool_calls)
    gated = sum(call.gated for call in message.tool_calls)
    shows_calls = spoken + gated < len(message.tool_calls)
    parts = [message.content is not None, shows_calls, gated > 0]
    return len(message.thoughts) + spoken + sum(parts)


def concurrent_calls(calls: list[ToolCall], concurrent: Container[str]) -> list[str]:
    """The ids of those calls that may run beside each other, if there are several."""
    several = [call.id for call in calls if call.name in concurrent]
    return several if len(several) > 1 else []
