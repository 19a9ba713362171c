"""Turns in the middle of a model call, whose process is about to be lost to the others."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from libs.contracts.agent.conversations import main_conversation
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Request, Workload
from tests.waiting import wait_for

SLOW_MS = 3_000
TURNS = 4
LEFT_SECONDS_MAX = 60.0
TAKE_OVER_SECONDS_MAX = 15.0


@dataclass(slots=True)
class SlowTurns:
    """The turns, and what their requests will be answered."""

    world: NetworkWorld
    requests: list[Request] = field(default_factory=list)
    sending: list[asyncio.Task[Request]] = field(default_factory=list)

    async def begin(self, workload: Workload) -> SlowTurns:
        """Begin some, on agents that nobody else talks to; return when the model was asked."""
        first = len(workload.agents)
        await workload.create_agents(TURNS)
        for agent in workload.agents[first:]:
            request = workload.request(agent, tool=True, script=f"SLOW:{SLOW_MS} ")
            self.requests.append(request)
            self.sending.append(asyncio.create_task(workload.send(request)))
        await asyncio.gather(
            *(self.world.model.wait_for_asked(request.text) for request in self.requests)
        )
        return self

    async def holders(self) -> dict[str, str]:
        """Who drives which of these conversations."""
        keys = ",".join(f"'{main_conversation(request.agent)}'" for request in self.requests)
        return dict(
            await self.world.sql(f"select key, holder from agent.leases where key in ({keys})")
        )

    async def leave(self, pid: int, verdict: Verdict) -> None:
        """Wait until no turn is with this process any more: another one drives it, or it ended."""
        began = time.monotonic()
        names = {name for name, holder in self.world.holders().items() if holder == pid}
        mine = {key for key, holder in (await self.holders()).items() if holder in names}

        async def gone() -> bool:
            now = await self.holders()
            return all(now.get(key) not in names for key in mine)

        await wait_for(f"the turns of {pid} are taken over", gone, LEFT_SECONDS_MAX)
        if mine:
            took, figures = time.monotonic() - began, verdict.figures
            slowest = max(figures.get("take_over_seconds_max", 0.0), took)
            figures["take_over_seconds_max"] = slowest
            verdict.in_time(slowest, TAKE_OVER_SECONDS_MAX, "to take over")

    async def end(self, verdict: Verdict) -> None:
        """Wait for the answers, and count the turns that two processes drove."""
        await asyncio.gather(*self.sending)
        for request in self.requests:
            asked = await self.world.model.asked(request.text)
            twice = max(asked.values(), default=0) > 1
            figures = verdict.figures
            figures["turns_taken_over"] = figures.get("turns_taken_over", 0) + twice
