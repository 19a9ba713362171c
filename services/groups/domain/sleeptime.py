"""When the members of a sleeptime group review what its manager's runs said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from libs.contracts.bus_messages import INVALID, Rejected
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.groups.sleeptime import (
    SLEEPTIME_TYPES,
    Review,
    ReviewRequested,
    ReviewStarted,
    RunCounted,
    review_run,
)
from services.groups.domain.group import Group, missing

# Reviews of a group that wait until their runs can be accepted. While there are so many, no other
# is requested: the next one is of all that was said meanwhile.
REVIEWS_WAITING_MAX = 10


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message of the manager's conversations: its id, and whether a user said it."""

    id: str
    from_user: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What was said in a run that has ended, as far as a review depends on it: its last message,
    none if it said nothing that is not reviewed; and of a group for voice all messages that no
    review was shown."""

    last_message_id: str | None
    unreviewed: Sequence[SaidMessage] = ()


def count_run(
    group: Group, run_id: str, facts: RunFacts, *, at: datetime
) -> dict[str, str] | Rejected:
    """Count the end of a run, once; returns the runs of the review that it makes due, by their
    agents."""
    config = group.present
    if config is None:
        return missing(group.id)
    if config.manager_type not in SLEEPTIME_TYPES:
        reason = f"Group {group.id} is of type {config.manager_type}: only sleeptime groups count"
        return Rejected(code=INVALID, reason=reason)
    if run_id in group.state.counted_run_ids:
        return next((r.run_ids for r in group.state.reviews if r.run_id == run_id), {})
    group.record(RunCounted, at=at, run_id=run_id, turns_counter=next_counter(config))
    last_message_id = end_of_review(config, facts)
    has_room = len(group.state.reviews) < REVIEWS_WAITING_MAX
    if last_message_id is None or not config.agent_ids or not has_room:
        return {}
    review = Review(
        run_id=run_id,
        after_message_id=config.last_processed_message_id,
        last_message_id=last_message_id,
        after_at=group.state.reviewed_at,
        requested_at=at,
        run_ids={agent_id: review_run(group.id, run_id, agent_id) for agent_id in config.agent_ids},
    )
    group.record(ReviewRequested, at=at, review=review)
    return review.run_ids


def next_counter(config: GroupConfig) -> int | None:
    """What the counter of a group is after one more run: it begins again at the frequency."""
    frequency = config.sleeptime_agent_frequency
    if not frequency:
        return None
    before = -1 if config.turns_counter is None else config.turns_counter
    return (before + 1) % frequency


def end_of_review(config: GroupConfig, facts: RunFacts) -> str | None:
    """The last message that is to be reviewed now; None where it is not time."""
    if config.manager_type == "voice_sleeptime":
        return end_of_overflow(config, facts.unreviewed)
    return None if next_counter(config) else facts.last_message_id


def end_of_overflow(config: GroupConfig, unreviewed: Sequence[SaidMessage]) -> str | None:
    """The last message that leaves a full message buffer; what stays begins with what a user
    said."""
    most, least = config.max_message_buffer_length, config.min_message_buffer_length
    if most is None or least is None or len(unreviewed) <= most:
        return None
    kept_from = len(unreviewed) - least
    while kept_from < len(unreviewed) and not unreviewed[kept_from].from_user:
        kept_from += 1
    return unreviewed[kept_from - 1].id


def start_review(group: Group, run_id: str, refused: dict[str, str], *, at: datetime) -> None:
    """Note that the runs of a review were accepted, or why not; what is noted is no event."""
    if any(review.run_id == run_id for review in group.state.reviews):
        group.record(ReviewStarted, at=at, run_id=run_id, refused=refused)
