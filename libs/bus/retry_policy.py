"""Retries of a message: their number, the pauses, and the errors that do not count."""

from __future__ import annotations

from libs.bus.command_dispatcher import TooManyConflicts
from libs.bus.ports import BusUnavailable, Clock
from libs.eventstore.failed_messages.ports import DeadLetterStore
from libs.eventstore.ports import StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import LockTaken

ATTEMPTS_MAX = 4
PAUSE_SECONDS = (0.2, 1.0, 3.0)  # after the first, second, third attempt
UNCOUNT_RETRY_SECONDS = 1.0

# Errors that pass: an attempt that ends by one says nothing about its message.
TRANSIENT = (
    StoreUnavailable,
    BusUnavailable,
    TooManyConflicts,
    VersionConflict,
    LockTaken,
    StaleLease,
)


def pause_seconds(attempt: int) -> float:
    """Seconds between an attempt, counted from 1, and the next one."""
    return PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS)) - 1]


async def uncount(letters: DeadLetterStore, message_id: str, clock: Clock) -> None:
    """Take back that an attempt was begun; returns when the store has done it, however long it is
    unavailable."""
    while True:
        try:
            return await letters.uncount(message_id)
        except StoreUnavailable:
            await clock.sleep(UNCOUNT_RETRY_SECONDS)
