"""Attempts at firings: the id of what each starts, and how long the next one waits."""

from __future__ import annotations

from libs.contracts.deterministic_ids import derived_id
from libs.contracts.scheduler.schedule_config import ScheduleConfig

RETRY_SECONDS, RETRY_SECONDS_MAX = 10.0, 600.0
# An attempt for which there is no room is made again so often, which takes about two days.
POSTPONEMENTS_MAX = 300

# What each action starts, as its ids begin.
STARTS = {"tool": "tool_run", "group_message": "group_run", "summarize": "summary"}


def run_of_attempt(config: ScheduleConfig, firing_id: str, attempt: int) -> str:
    """The id of what an attempt at a firing starts, counted from 1: the same each time."""
    return derived_id(STARTS.get(config.action.type, "run"), config.id, firing_id, str(attempt))


def retry_delay(failures: int) -> float:
    """The seconds to wait after a failure, when there were so many before it."""
    return min(RETRY_SECONDS * 2.0 ** min(failures, 16), RETRY_SECONDS_MAX)
