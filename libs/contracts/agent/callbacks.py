"""The language of the agent service about callbacks: a client is told that its run has ended."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from libs.contracts.agent.conversations import RunEvent


class CallbackAttempted(RunEvent):
    """A client was told that its run has ended, or could not be.

    `status_code` is what it answered, `error` why it did not; it is told again at `next_at`, if
    that is not null.
    """

    topic: ClassVar[str] = "callback.attempted"
    additive: ClassVar[bool] = True
    attempts: int
    sent_at: datetime
    status_code: int | None = None
    error: str | None = None
    next_at: datetime | None = None
