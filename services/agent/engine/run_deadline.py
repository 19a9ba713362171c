"""How long a run may take, over all attempts at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from libs.bus.ports import Clock
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.runs.step_results import Failure
from services.agent.settings import Deadlines


class RunDeadline:
    """When the active run has to end, as one attempt sees that.

    Within an attempt a clock counts that nobody sets. What earlier ones took is in the events of
    the run, whose times come from clocks that may be wrong: see `ActiveRun.seconds`.
    """

    def __init__(self, clock: Clock, deadlines: Deadlines) -> None:
        self.clock = clock
        self.deadlines = deadlines
        self.run_id = ""
        self.end = 0.0

    def seconds_left(self, active: ActiveRun) -> float:
        """How long the run may still take; not above 0 if it is late."""
        if active.run.id != self.run_id:
            self.run_id = active.run.id
            self.end = self.clock.monotonic() + self.deadlines.run_seconds_max - active.seconds
        return self.end - self.clock.monotonic()

    async def hold[T](self, step: Awaitable[T], active: ActiveRun) -> T:
        """What comes of a step of the model. Raises ModelFailed when it, or the run, takes too
        long."""
        left, step_max = self.seconds_left(active), self.deadlines.step_seconds_max
        try:
            async with asyncio.timeout(min(left, step_max)) as limit:
                return await step
        except TimeoutError:
            if not limit.expired():
                raise
            late = self.failure() if left <= step_max else self.step_failure()
            raise ModelFailed(late) from None

    def failure(self) -> Failure:
        """Why the run ends, as its client is told."""
        return Failure(
            "llm_timeout",
            f"The run took longer than {self.deadlines.run_seconds_max:g} seconds, which is the"
            " longest that this server lets one take (HEELER_RUN_SECONDS_MAX)",
        )

    def step_failure(self) -> Failure:
        """The same, where one answer of the model took too long."""
        return Failure(
            "llm_timeout",
            f"The model took longer than {self.deadlines.step_seconds_max:g} seconds to answer,"
            " which is the longest that this server lets one step take (HEELER_STEP_SECONDS_MAX)",
        )
