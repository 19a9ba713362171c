"""The language of the agent service: summaries of what an agent and its users said.

A summary reads the history of an agent's own conversation and changes nothing in it. An agent has
at most one under way, and so many a minute and an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.agent.conversations import SERVICE, Usage
from libs.contracts.bus_messages import Command, Event, Value, delta_subject
from libs.contracts.deterministic_ids import derived_id

# The newest of so many messages are summarised, whatever is asked for.
MESSAGES_SUMMARISED_MAX = 100_000
# The tag of the passages that summaries are saved as.
SUMMARY_TAG = "summary"

# How many summaries an agent may have, unless the settings say otherwise, and what these may say.
PER_MINUTE, PER_HOUR = 1, 10
PER_MINUTE_MAX, PER_HOUR_MAX = 100, 1_000

SummaryLength = Literal["short", "medium", "long"]


def summaries_id(agent_id: str) -> str:
    """The aggregate that decides about the summaries of an agent."""
    return derived_id("summaries", agent_id)


def summary_passage_id(summary_id: str) -> str:
    """The passage that a summary is saved as: the same each time, so that it is saved once."""
    return derived_id("passage", summary_id)


def summary_deltas(org: str, summary_id: str) -> str:
    """The subject of a summary's progress: `{}` while it is written, then `{"end": true}`; the
    row in `agent.summary_view` says what came of it."""
    return delta_subject(SERVICE, "summary", "progress", org, summary_id)


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """The number of summaries that an agent may request in a minute, and in an hour."""

    per_minute: int = PER_MINUTE
    per_hour: int = PER_HOUR


class SummarizeMessages(Command, service=SERVICE, topic="messages.summarize"):
    """Summarise messages of an agent's own conversation: the newest `message_count` of those from
    `start_date` to `end_date`, both included; without bounds all.

    It is answered with `summary_id` once that is durable. Where no message is meant nothing is
    begun, and `message_count` is 0 in the result. With `retry` a summary that the same request
    (`request_hash`) asked for lately is meant, if there is one. Over the limits it is refused with
    RATE_LIMITED, whose details have `retry_after_seconds`.
    """

    summary_id: str
    agent_id: str
    message_count: int | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    summary_length: SummaryLength = "medium"
    save_to_archival: bool = True
    request_hash: str = Field(default="", exclude_if=not_)
    retry: bool = Field(default=False, exclude_if=not_)

    @property
    def target(self) -> str:
        """The aggregate that decides about the agent's summaries."""
        return summaries_id(self.agent_id)


class SummarisedMessages(Value):
    """The messages that a summary is about: of the positions `first` to `last` of a conversation
    those of users, the assistant and tools, dated between `start` and `end`."""

    conversation_id: str
    first: int
    last: int
    count: int
    bytes: int
    start: datetime
    end: datetime


class SummaryEvent(Event, service=SERVICE):
    """A fact about one summary of an agent."""

    agent_id: str
    summary_id: str

    @property
    def about(self) -> str:
        """The summary stands in the subject."""
        return self.summary_id


class SummaryRequested(SummaryEvent, topic="summary.requested"):
    """An agent's messages are to be summarised."""

    messages: SummarisedMessages
    summary_length: SummaryLength
    save_to_archival: bool
    request_hash: str = Field(default="", exclude_if=not_)


class SummaryPartWritten(SummaryEvent, topic="summary_part.written"):
    """A model has summarised a part: at `level` 0 messages up to the position `covered`, at a
    higher level the parts of the level below, up to the number `covered`."""

    level: int
    covered: int
    text: str
    usage: Usage = Field(default_factory=Usage)


class SummaryWritten(SummaryEvent, topic="summary.written"):
    """A summary is there; a single short message is its own, and needs no model."""

    text: str
    model: str | None = None
    usage: Usage = Field(default_factory=Usage)


class SummaryFailed(SummaryEvent, topic="summary.failed"):
    """There is no summary, and why; it does not count towards the limits."""

    error_type: str
    message: str
    detail: str | None = None


class SummaryArchived(SummaryEvent, topic="summary.archived"):
    """A summary is a passage of the agent's archive."""

    passage_id: str


class SummaryNotArchived(SummaryEvent, topic="summary.not_archived"):
    """A summary could not be saved in the agent's archive; it stays readable."""

    reason: str


class SummariesDeleted(Event, service=SERVICE, topic="summaries.deleted"):
    """The summaries of an agent are gone with it."""

    agent_id: str
