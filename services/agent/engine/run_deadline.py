"""How long a run may take, over all attempts at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from libs.bus.ports import Clock
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.active_run import ActiveRun, Failure


class RunDeadline:
    """When the active run has to end, as one attempt sees that.

    Within an attempt a clock counts that nobody sets. What earlier ones took is in the events of
    the run, whose times come from clocks that may be wrong: see `ActiveRun.seconds`.
    """

    def __init__(self, clock: Clock, seconds_max: float) -> None:
        self.clock = clock
        self.seconds_max = seconds_max
        self.run_id = ""
        self.end = 0.0

    def seconds_left(self, active: ActiveRun) -> float:
        """How long the run may still take; not above 0 if it is late."""
        if active.run.id != self.run_id:
            self.run_id = active.run.id
            self.end = self.clock.monotonic() + self.seconds_max - active.seconds
        return self.end - self.clock.monotonic()

    async def hold[T](self, work: Awaitable[T], active: ActiveRun) -> T:
        """What comes of something that takes long. Raises ModelFailed when the run has to end."""
        try:
            async with asyncio.timeout(self.seconds_left(active)) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise ModelFailed(self.failure()) from None

    def failure(self) -> Failure:
        """Why the run ends, as its client is told."""
        return Failure(
            "llm_timeout",
            f"The run took longer than {self.seconds_max:g} seconds, which is the longest that this"
            " server lets one take (HEELER_RUN_SECONDS_MAX)",
        )
