"""The language of the groups service: sleeptime agents, which review in the background what other
agents' runs said, and rewrite the memory that they share.

A sleeptime group has the reviewed agent as its manager and the sleeptime agents as its members. Its
id and theirs follow from the manager's, so that each part may be asked for twice.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import SERVICE, GroupCommand
from libs.contracts.letta.request_size_limits import NAME_CHARS_MAX

# What V1 makes: how often a sleeptime agent reviews, and how long the messages of an agent for
# voice are kept from its review.
FREQUENCY_DEFAULT = 5
MESSAGE_BUFFER_MAX, MESSAGE_BUFFER_MIN = 30, 15
VOICE_DESCRIPTION = "Low latency voice chat with async memory management."
# The label of the block that says how a sleeptime agent goes about its work.
PERSONA_LABEL = "memory_persona"
NAME_SUFFIX = "-sleeptime"
# An agent whose sleeptime group was deleted may get another one, so often.
GENERATIONS_MAX = 1_000
SLEEPTIME_TYPES = ("sleeptime", "voice_sleeptime")


def sleeptime_group(agent_id: str, generation: int = 0) -> str:
    """The id of the sleeptime group of an agent; of a deleted one, that of the next generation."""
    return derived_id("group", agent_id, "sleeptime", str(generation))


def sleeptime_agent(group_id: str) -> str:
    """The id of the sleeptime agent that is made for a group."""
    return derived_id("agent", group_id, "sleeptime")


def sleeptime_agent_name(name: str) -> str:
    """The name of the sleeptime agent of an agent; a long name is cut."""
    return name[: NAME_CHARS_MAX - len(NAME_SUFFIX)] + NAME_SUFFIX


def review_run(group_id: str, run_id: str, agent_id: str) -> str:
    """The id of the run in which a sleeptime agent reviews what was said up to a run's end."""
    return derived_id("run", group_id, run_id, agent_id)


def count_id(group_id: str, run_id: str) -> str:
    """The id of the command that counts the end of a run, whoever sends it."""
    return derived_id("cmd", group_id, "count", run_id)


class SleeptimeCommand(Command, service=SERVICE):
    """A command about the sleeptime group of an agent."""

    agent_id: str

    @property
    def target(self) -> str:
        return self.agent_id


class EnableSleeptime(SleeptimeCommand, topic="sleeptime.enable"):
    """Make the sleeptime agent of an agent and their group, where it has none.

    Answered with `group_id`."""


class EndSleeptime(SleeptimeCommand, topic="sleeptime.end"):
    """Delete the sleeptime groups of an agent with their sleeptime agents."""


class CountRun(GroupCommand, topic="group.count_run"):
    """Count the end of a run of a sleeptime group's manager, once however often it is said.

    Answered with `run_ids`: the runs in which the members review what was said, if it is time."""

    run_id: str


class RunCounted(Event, service=SERVICE, topic="group.run_counted"):
    """A run of the manager has ended.

    `turns_counter` goes from 0 to one below the frequency."""

    run_id: str
    turns_counter: int | None = None


class Review(Value):
    """A review that is due: the messages after one up to another. It is called by the run whose end
    made it due; `run_ids` are the runs that do it, by their agents. The times stand for messages
    that are deleted meanwhile: when it was requested, and when the one before it was."""

    run_id: str
    after_message_id: str | None = None
    last_message_id: str
    after_at: datetime | None = None
    requested_at: datetime | None = None
    run_ids: dict[str, str] = Field(default_factory=dict)


class ReviewRequested(Event, service=SERVICE, topic="group.review_requested"):
    """The members of a sleeptime group are to review what was said since the review before."""

    review: Review


class ReviewStarted(Event, service=SERVICE, topic="group.review_started"):
    """The runs of a review are accepted, but for those that were `refused`, and why."""

    run_id: str
    refused: dict[str, str] = Field(default_factory=dict)
