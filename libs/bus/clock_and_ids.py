"""The real clock and real ids."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time now, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        await asyncio.sleep(seconds)


class RandomIds:
    """Ids from the system's randomness."""

    def new(self, prefix: str) -> str:
        """Return `<prefix>-<uuid4>`, never returned before."""
        return f"{prefix}-{uuid.uuid4()}"
