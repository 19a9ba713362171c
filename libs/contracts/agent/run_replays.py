"""The language of the agent service: replays of runs.

A replay asks a model once more what it was asked in a run that has ended, on the context as it was,
and compares what comes of it with what was recorded. It changes nothing of the agent: what it
records is its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from libs.contracts.agent.conversations import SERVICE, Usage
from libs.contracts.bus_messages import Command, Event, JsonObject, Value, delta_subject, is_none
from libs.contracts.letta.model_configs import LLMConfig

# Replays of one organisation that have not ended.
ORGANISATION_OPEN_REPLAYS_MAX = 20

ReplayMode = Literal["recorded", "live"]
# Where the answer to a call came from: from the log, because the call is not in the log (or not so
# often), or from the tool itself.
AnswerSource = Literal["recorded", "not_recorded", "live"]


def replay_deltas(org: str, replay_id: str) -> str:
    """The subject of a replay's progress: `{}` while it goes on, then `{"end": true}`; the row in
    `agent.run_replay_view` says what came of it."""
    return delta_subject(SERVICE, "run_replay", "progress", org, replay_id)


class ReplayRun(Command, service=SERVICE, topic="run.replay"):
    """Run the steps of a run again from the step `from_step` on, with the model of the handle
    `model` or that of then.

    It is answered with `replay_id` once that is durable.
    """

    replay_id: str
    run_id: str
    model: str | None = None
    from_step: int = 1
    mode: ReplayMode = "recorded"

    @property
    def target(self) -> str:
        return self.replay_id


class ShowModelRequest(Command, service=SERVICE, topic="model_request.show"):
    """Say what the model was asked in a step of a run, in its provider's words; nothing changes.

    Answered with `{"payload", "notes"}`, where the notes say what of it is not as it was; refused
    as too large if it does not fit a reply, or if the history before it takes long to read.
    """

    keeps_reply: ClassVar[bool] = False
    run_id: str
    step_id: str

    @property
    def target(self) -> str:
        return self.step_id


class DeleteRunReplay(Command, service=SERVICE, topic="run_replay.delete"):
    """Forget a replay, with all that was said in it."""

    replay_id: str

    @property
    def target(self) -> str:
        return self.replay_id


class ReplayedRun(Value):
    """The run that is replayed, and at which version of its conversation it was accepted."""

    run_id: str
    agent_id: str
    conversation_id: str
    accepted_version: int


class ReplayedFact(Value):
    """An event as the conversation would have recorded it, had the replay been a run."""

    topic: str
    schema_version: int
    at: datetime
    payload: JsonObject


class ReplayedAnswer(Value):
    """Where the answer to a call of a step came from, and why it is not what its mode promises, if
    so."""

    step: int
    tool_call_id: str
    tool: str
    source: AnswerSource
    note: str = ""


class RunReplayEvent(Event, service=SERVICE):
    """A fact about one replay of a run."""

    agent_id: str


class RunReplayRequested(RunReplayEvent, topic="run_replay.requested"):
    """A run is to be replayed, by another model if one is named."""

    run: ReplayedRun
    mode: ReplayMode
    from_step: int
    model: str | None = Field(default=None, exclude_if=is_none)
    llm_config: LLMConfig | None = Field(default=None, exclude_if=is_none)


class RunReplayAdvanced(RunReplayEvent, topic="run_replay.advanced"):
    """A replay has come further: a model has answered, or tools have."""

    facts: list[ReplayedFact]
    answers: list[ReplayedAnswer] = Field(default_factory=list)


class ReplayedStep(Value):
    """One step as it was recorded, or as it was replayed; `messages` are those of V1."""

    model: str
    finish_reason: str
    usage: Usage
    at: datetime
    model_ns: int = 0
    tool_ns: int = 0
    messages: list[JsonObject] = Field(default_factory=list)


class RunReplayStepCompared(RunReplayEvent, topic="run_replay_step.compared"):
    """A step of the replay stands beside the recorded one; either may be missing."""

    number: int
    recorded: ReplayedStep | None = Field(default=None, exclude_if=is_none)
    replayed: ReplayedStep | None = Field(default=None, exclude_if=is_none)
    answers: list[ReplayedAnswer] = Field(default_factory=list)
    differences: list[JsonObject] = Field(default_factory=list)


class ReplayedEnd(Value):
    """The end of a transcript: its stop reason, and its usage."""

    stop_reason: str | None = None
    error: JsonObject | None = None
    steps: int = 0
    usage: Usage = Usage()
    duration_ns: int = 0


class RunReplayCompleted(RunReplayEvent, topic="run_replay.completed"):
    """Both transcripts are there; `same` says that they are equal, `notes` what of them is not as
    it was then."""

    same: bool
    first_difference: int | None = None
    recorded: ReplayedEnd
    replayed: ReplayedEnd
    notes: list[str] = Field(default_factory=list)


class RunReplayFailed(RunReplayEvent, topic="run_replay.failed"):
    """There is no replay, and why."""

    error_type: str
    message: str
    detail: str | None = None


class RunReplayDeleted(RunReplayEvent, topic="run_replay.deleted"):
    """A replay is gone, with its run or its agent."""
