"""Deliver messages to agents: each is a run, begun as soon as there is room for it, and followed.

Members of groups and the tools by which agents write to each other wait for answers; routed
messages wait for several at a time, and use what this has for each. Schedules, batches and reviews
do not wait: they start their runs by a single try (`agent_runs`), and a later sweep tries again.

    deliveries = Deliveries(runs, clock)
    answer = await deliveries.answer(wanted, context)
    if isinstance(answer, RunProgress) and answer.status == "completed":
        texts = answer_texts(await runs.messages(org, wanted.run_id))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

from libs.bus.ports import Clock
from libs.contracts.bus_messages import Context, Rejected
from libs.work.acceptance import NOT_WANTED, always, until_accepted
from libs.work.agent_runs import AgentRuns, RunProgress, WantedRun, go_on


class Deliveries:
    """The messages that a process delivers."""

    def __init__(self, runs: AgentRuns, clock: Clock) -> None:
        self.runs = runs
        self.clock = clock

    async def begin(
        self,
        wanted: WantedRun,
        context: Context,
        *,
        seconds_max: float = inf,
        is_wanted: Callable[[], Awaitable[bool]] = always,
    ) -> Rejected | None:
        """Have a run accepted, however busy its agent is, as `until_accepted`; returns why it is
        not. Safe to repeat. Raises what `is_wanted` raises."""
        return await until_accepted(
            self.clock,
            lambda: self.runs.start(wanted, context),
            seconds_max=seconds_max,
            is_wanted=is_wanted,
        )

    async def answer(
        self,
        wanted: WantedRun,
        context: Context,
        *,
        seconds_max: float = inf,
        goes_on: Callable[[RunProgress | None], Awaitable[bool]] = go_on,
    ) -> RunProgress | Rejected | None:
        """How the run ended that answers a message, or why it is not accepted; None if it is
        deleted. `goes_on` is asked while it is not accepted (of None) and after each look at it:
        once it says no, the run is withdrawn, and NOT_WANTED returned. Safe to repeat. Raises
        StoreUnavailable."""
        org, run_id = context.org, wanted.run_id
        async with self.runs.follow_run(org, run_id) as progress:
            ended: RunProgress | Rejected | None = await self.begin(
                wanted, context, seconds_max=seconds_max, is_wanted=lambda: goes_on(None)
            )
            if ended is None:
                ended = await self.runs.wait_for_end(org, run_id, progress, goes_on=goes_on)
        if ended is NOT_WANTED or (isinstance(ended, RunProgress) and ended.is_active):
            await self.withdraw(wanted.agent_id, run_id, context, wanted.conversation_id)
            return NOT_WANTED
        return ended

    async def withdraw(
        self, agent_id: str, run_id: str, context: Context, conversation_id: str | None = None
    ) -> None:
        """Cancel a run whose answer nobody wants, as soon as the agent service can be asked; one
        that is gone is left. Safe to repeat."""
        await until_accepted(
            self.clock, lambda: self.runs.cancel(agent_id, run_id, context, conversation_id)
        )
