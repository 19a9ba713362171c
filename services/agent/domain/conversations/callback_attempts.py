"""Attempts to notify a client that its run has ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from libs.contracts.agent.runs import CallbackAttempted
from services.agent.domain.conversations.conversation import Conversation

# Before the second attempt, the third and so on; after the last there is none.
PAUSE_SECONDS = (5, 30, 120, 600)
ATTEMPTS_MAX = len(PAUSE_SECONDS) + 1
PASSING_STATUSES = (408, 425, 429)
ERROR_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class CallbackOutcome:
    """The outcome of an attempt: the status of the answer, or the reason why there was none. A
    `forbidden` attempt would be so again."""

    status: int | None = None
    error: str | None = None
    forbidden: bool = False

    @property
    def passing(self) -> bool:
        """Whether another attempt makes sense."""
        if self.status is None:
            return not self.forbidden
        return self.status in PASSING_STATUSES or self.status >= 500

    @property
    def error_shown(self) -> str | None:
        """Why there was no answer, as far as it is kept."""
        return self.error and self.error[:ERROR_CHARS_MAX]

    def next_at(self, attempts: int, at: datetime) -> datetime | None:
        """When to try again after so many attempts; None for never."""
        again = self.passing and attempts < ATTEMPTS_MAX
        return at + timedelta(seconds=PAUSE_SECONDS[attempts - 1]) if again else None


def record_attempt(
    conversation: Conversation,
    run_id: str,
    outcome: CallbackOutcome,
    *,
    attempts: int,
    sent_at: datetime,
    at: datetime,
) -> None:
    """Record what came of an attempt, the last of so many, and when the next is."""
    conversation.record(
        CallbackAttempted,
        at=at,
        run_id=run_id,
        attempts=attempts,
        sent_at=sent_at,
        status_code=outcome.status,
        error=outcome.error_shown,
        next_at=outcome.next_at(attempts, at),
    )
