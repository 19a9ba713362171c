"""The real clock and real ids."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """Ids from the system's randomness."""

    def new(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4()}"
