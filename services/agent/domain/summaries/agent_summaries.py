"""The summaries of one agent: one under way at most, and so many a minute and an hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.summaries import (
    PER_HOUR_MAX,
    SummariesDeleted,
    SummarisedMessages,
    SummarizeMessages,
    SummaryArchived,
    SummaryEvent,
    SummaryFailed,
    SummaryLength,
    SummaryLimits,
    SummaryNotArchived,
    SummaryPartWritten,
    SummaryRequested,
    SummaryWritten,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import RATE_LIMITED, Event, Rejected
from services.agent.domain.runs.step_results import Failure, error_fields

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
# A repeated request means the summary of the first only for so long.
RETRIED = timedelta(minutes=10)
# A client that is refused because a summary is under way may come again after so many seconds.
UNDER_WAY_SECONDS = 5
REASON_CHARS_MAX = 500


class ActiveSummary(BaseModel):
    """A summary that is under way: what it is about, the parts that are written of it, level by
    level, how far each level covers the one below, and the `text` once that is there."""

    id: str
    requested_at: datetime
    messages: SummarisedMessages
    summary_length: SummaryLength
    save_to_archival: bool
    levels: list[list[str]] = []
    covered: list[int] = []
    usage: Usage = Usage()
    text: str | None = None

    def parts(self, level: int) -> list[str]:
        """The parts of a level that are written."""
        return self.levels[level] if level < len(self.levels) else []

    def covered_at(self, level: int) -> int:
        """Up to where a level covers what is below it."""
        return self.covered[level] if level < len(self.covered) else 0


class SummariesState(BaseModel):
    """The summary under way, the newest one, and when those of the last hour were requested."""

    agent_id: str = ""
    active: ActiveSummary | None = None
    last_id: str = ""
    last_hash: str = ""
    requested: list[datetime] = []
    deleted: bool = False


class AgentSummaries(Aggregate[SummariesState]):
    """The summaries of one agent."""

    State = SummariesState

    @property
    def deleted(self) -> bool:
        """Whether its agent is gone."""
        return self.state.deleted

    def active(self, summary_id: str) -> ActiveSummary | None:
        """The summary of this id, if it is under way."""
        active = self.state.active
        return active if active and active.id == summary_id else None

    def repeated_id(self, command: SummarizeMessages, at: datetime) -> str | None:
        """The newest summary, where a client asks for it once more with the same request."""
        same = command.request_hash and command.request_hash == self.state.last_hash
        recent = bool(self.state.requested) and self.state.requested[-1] > at - RETRIED
        return self.state.last_id if command.retry and same and recent else None

    def request(
        self,
        command: SummarizeMessages,
        messages: SummarisedMessages,
        limits: SummaryLimits,
        *,
        at: datetime,
    ) -> Rejected | None:
        """Begin a summary, unless another is under way or there were too many lately."""
        refused = self.refusal(command.agent_id, limits, at)
        if refused is None:
            self.record(
                SummaryRequested,
                at=at,
                agent_id=command.agent_id,
                summary_id=command.summary_id,
                messages=messages,
                summary_length=command.summary_length,
                save_to_archival=command.save_to_archival,
                request_hash=command.request_hash,
            )
        return refused

    def refusal(self, agent_id: str, limits: SummaryLimits, at: datetime) -> Rejected | None:
        """Why no summary can begin now, with the seconds after which it can."""
        if self.state.active is not None:
            reason = f"A summary of {agent_id} is under way: wait for it"
            return rate_limited(reason, UNDER_WAY_SECONDS)
        waits = [
            (wait_seconds(self.state.requested, most, period, at), most, name)
            for most, period, name in (
                (limits.per_minute, MINUTE, "minute"),
                (limits.per_hour, HOUR, "hour"),
            )
        ]
        seconds, most, name = max(waits)
        if not seconds:
            return None
        reason = f"{agent_id} may have {most} in one {name}: try again in {seconds} seconds"
        return rate_limited(f"Too many summaries: {reason}", seconds)

    def write_part(self, summary_id: str, part: SummaryPart, *, at: datetime) -> None:
        """Keep the text of a part, unless it or the whole is there already."""
        active = self.active(summary_id)
        if active and active.text is None and part.covered > active.covered_at(part.level):
            self.note(
                SummaryPartWritten,
                summary_id,
                at=at,
                level=part.level,
                covered=part.covered,
                text=part.text,
                usage=part.usage,
            )

    def write(
        self, summary_id: str, text: str, model: str | None, usage: Usage, *, at: datetime
    ) -> None:
        """Have a text, unless there is one."""
        active = self.active(summary_id)
        if active and active.text is None:
            self.note(SummaryWritten, summary_id, at=at, text=text, model=model, usage=usage)

    def fail(self, summary_id: str, failure: Failure, *, at: datetime) -> None:
        """End without a text; nothing happens where there is one."""
        active = self.active(summary_id)
        if active and active.text is None:
            self.note(
                SummaryFailed,
                summary_id,
                at=at,
                **error_fields(failure),
            )

    def archive(self, summary_id: str, passage_id: str, *, at: datetime) -> None:
        """Be saved as a passage."""
        if self.active(summary_id):
            self.note(SummaryArchived, summary_id, at=at, passage_id=passage_id)

    def leave_unarchived(self, summary_id: str, reason: str, *, at: datetime) -> None:
        """End without a passage, for this reason."""
        if self.active(summary_id):
            self.note(SummaryNotArchived, summary_id, at=at, reason=reason[:REASON_CHARS_MAX])

    def note(
        self, event: type[SummaryEvent], summary_id: str, *, at: datetime, **fields: Any
    ) -> None:
        """Record an event about one summary."""
        agent_id = self.state.agent_id
        self.record(event, at=at, agent_id=agent_id, summary_id=summary_id, **fields)

    def delete(self, *, at: datetime) -> None:
        """Go with the agent; safe to repeat."""
        if self.exists and not self.state.deleted:
            self.record(SummariesDeleted, at=at, agent_id=self.state.agent_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case SummaryRequested():
                recent = [moment for moment in state.requested if moment > event.timestamp - HOUR]
                state.requested = [*recent, event.timestamp][-PER_HOUR_MAX:]
                state.agent_id = event.agent_id
                state.last_id, state.last_hash = event.summary_id, event.request_hash
                state.active = ActiveSummary(
                    id=event.summary_id,
                    requested_at=event.timestamp,
                    messages=event.messages,
                    summary_length=event.summary_length,
                    save_to_archival=event.save_to_archival,
                )
            case SummaryPartWritten():
                assert state.active is not None, "a part is of the summary under way"
                add_part(state.active, event)
            case SummaryWritten():
                assert state.active is not None, "a text is of the summary under way"
                state.active.text = event.text
                state.active.levels, state.active.covered = [], []
                if not state.active.save_to_archival:
                    state.active = None
            case SummaryFailed():
                assert state.active is not None, "a failure is of the summary under way"
                counted = state.active.requested_at
                state.requested = [moment for moment in state.requested if moment != counted]
                state.active, state.last_hash = None, ""
            case SummaryArchived() | SummaryNotArchived():
                state.active = None
            case SummariesDeleted():
                self.state = SummariesState(agent_id=event.agent_id, deleted=True)


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """A model's notes on a part, and the place up to which they reach: see `SummaryPartWritten`."""

    level: int
    covered: int
    text: str
    usage: Usage


def add_part(active: ActiveSummary, event: SummaryPartWritten) -> None:
    """Note a part that is written. A level that is begun needs the one below no more when it
    covers all of it; it is kept until then."""
    while len(active.levels) <= event.level:
        active.levels.append([])
        active.covered.append(0)
    active.levels[event.level].append(event.text)
    active.covered[event.level] = event.covered
    active.usage = active.usage.plus(event.usage)


def wait_seconds(requested: Sequence[datetime], most: int, period: timedelta, at: datetime) -> int:
    """The seconds until fewer than `most` were requested in the last period: 0 where that is so
    now. Dates in the future, by a clock that was wrong, count as now."""
    recent = [min(moment, at) for moment in requested if min(moment, at) > at - period]
    if len(recent) < most:
        return 0
    return max(1, math.ceil((recent[-most] + period - at).total_seconds()))


def rate_limited(reason: str, seconds: int) -> Rejected:
    """The refusal of a request that may come again after so many seconds."""
    return Rejected(code=RATE_LIMITED, reason=reason, details={"retry_after_seconds": seconds})
