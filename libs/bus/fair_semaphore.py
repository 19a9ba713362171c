"""Bounded work in a process, with a fair order of those that wait.

A place goes to the one who waits longest of the organisation that has the fewest; nobody holds more
than a share, so that whoever comes next finds a place although somebody else asks for all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

# Of one process.
PLACES = 16
ORGANISATION_PLACES_MAX = 12
AGENT_PLACES_MAX = 8
WAITING_MAX = 512
ORGANISATION_WAITING_MAX = 256
WAIT_SECONDS_MAX = 60.0


class NoPlace(Exception):
    """Nothing was begun; `reason` says why, for whoever asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class Waiting:
    """One who waits for a place."""

    org: str
    agent_id: str
    turn: asyncio.Future[None] = field(repr=False)


class FairSemaphore:
    """The places of one process. `users` and `thing` are how refusals call those who wait and what
    they wait for."""

    def __init__(
        self,
        places: int = PLACES,
        *,
        of_organisation_max: int = ORGANISATION_PLACES_MAX,
        of_agent_max: int = AGENT_PLACES_MAX,
        wait_seconds_max: float = WAIT_SECONDS_MAX,
        of_organisation_waiting_max: int = ORGANISATION_WAITING_MAX,
        users: str = "tools",
        thing: str = "sandbox",
    ) -> None:
        self.free = places
        self.places = places
        self.of_organisation_max = of_organisation_max
        self.of_agent_max = of_agent_max
        self.wait_seconds_max = wait_seconds_max
        self.of_organisation_waiting_max = of_organisation_waiting_max
        self.users = users
        self.thing = thing
        self.of_organisation: Counter[str] = Counter()
        self.of_agent: Counter[str] = Counter()
        self.waiting: list[Waiting] = []

    @asynccontextmanager
    async def hold(self, org: str, agent_id: str = "") -> AsyncIterator[None]:
        """A place, as soon as there is one; raises NoPlace."""
        await self.take(org, agent_id)
        try:
            yield
        finally:
            self.leave(org, agent_id)

    def has_place(self, org: str) -> bool:
        """Whether an organisation would have a place at once, and need not wait for one."""
        return self.free > 0 and self.of_organisation[org] < self.of_organisation_max

    async def take(self, org: str, agent_id: str) -> None:
        """Wait for a place, within bounds."""
        if len(self.waiting) >= WAITING_MAX:
            words = f"As many {self.users} wait for a {self.thing} as can: try again in a moment"
            raise NoPlace(words)
        of_org = sum(waiting.org == org for waiting in self.waiting)
        if of_org >= self.of_organisation_waiting_max:
            words = f"{of_org} {self.users} of this organisation wait: try again in a moment"
            raise NoPlace(words)
        mine = Waiting(org, agent_id, asyncio.get_running_loop().create_future())
        self.waiting.append(mine)
        self.hand_out()
        try:
            async with asyncio.timeout(self.wait_seconds_max):
                await mine.turn
        except TimeoutError:
            self.give_up(mine)
            seconds = self.wait_seconds_max
            words = f"No {self.thing} was free for {seconds:g} seconds: try again"
            raise NoPlace(words) from None
        except asyncio.CancelledError:
            self.give_up(mine)
            raise

    def give_up(self, mine: Waiting) -> None:
        """Wait no longer; a place that came in the same moment goes on to the next."""
        if mine in self.waiting:
            self.waiting.remove(mine)
        else:
            self.leave(mine.org, mine.agent_id)

    def leave(self, org: str, agent_id: str) -> None:
        """A place is free again."""
        self.free += 1
        for counter, name in ((self.of_organisation, org), (self.of_agent, agent_id)):
            counter[name] -= 1
            if counter[name] <= 0:
                del counter[name]
        self.hand_out()

    def hand_out(self) -> None:
        """Give the free places to those whose turn it is."""
        while self.free > 0:
            may = [waiting for waiting in self.waiting if self.has_share(waiting)]
            if not may:
                return
            following = min(may, key=lambda waiting: self.of_organisation[waiting.org])
            self.waiting.remove(following)
            self.free -= 1
            self.of_organisation[following.org] += 1
            self.of_agent[following.agent_id] += 1
            if not following.turn.done():
                following.turn.set_result(None)

    def has_share(self, waiting: Waiting) -> bool:
        """Whether somebody holds less than may be held."""
        few = self.of_organisation[waiting.org] < self.of_organisation_max
        of_agent = self.of_agent[waiting.agent_id] if waiting.agent_id else 0
        return few and of_agent < self.of_agent_max
