"""Whether everything that the api needs is there: looked at once a second, answered at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nats.errors import Error as NatsError

from libs.bus.nats import NatsBus
from libs.bus.ports import Clock
from libs.contracts.streams import SERVICES
from libs.eventstore.database import Database
from libs.eventstore.ports import StoreUnavailable
from services.api.adapters.letters import OPEN_LETTERS

LOOK_EVERY_SECONDS = 0.5
ANSWER_SECONDS_MAX = 1.0
STALE_SECONDS = 5.0

OK = "ok"
DOWN = "down"


@dataclass(slots=True)
class Seen:
    """What the last look found, and when."""

    parts: dict[str, str]
    at: float
    dead_letters: int | None = None


class Health:
    """Looks at Postgres, NATS and the services, and remembers what it saw."""

    def __init__(self, database: Database, bus: NatsBus, clock: Clock) -> None:
        self.database = database
        self.bus = bus
        self.clock = clock
        self.seen = Seen({}, float("-inf"))
        self.parked: int | None = None

    async def turn(self) -> None:
        """Look at everything once, and rest."""
        names = ["postgres", "nats", *SERVICES]
        looks = [self.postgres(), self.nats(), *(self.service(name) for name in SERVICES)]
        found = await asyncio.gather(*looks)
        parts = {name: OK if good else DOWN for name, good in zip(names, found, strict=True)}
        self.seen = Seen(parts, self.clock.monotonic(), self.parked)
        await self.clock.sleep(LOOK_EVERY_SECONDS)

    async def postgres(self) -> bool:
        """Whether Postgres answers a query; the query counts the dead letters."""
        self.parked = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                row = await self.database.fetch_one(OPEN_LETTERS)
        except (StoreUnavailable, TimeoutError):
            return False
        assert row is not None
        self.parked = int(row[0])
        return True

    async def nats(self) -> bool:
        """Whether NATS brings back what is sent to it."""
        return await self.bus.answers(ANSWER_SECONDS_MAX)

    async def service(self, name: str) -> bool:
        """Whether a process of a service answers the NATS micro protocol."""
        try:
            await self.bus.client.request(f"$SRV.PING.{name}", b"", timeout=ANSWER_SECONDS_MAX)
        except (NatsError, TimeoutError):
            return False
        return True

    @property
    def parts(self) -> dict[str, str]:
        """What was seen last; nothing is known to be well if nobody looked lately."""
        return {"postgres": DOWN, "nats": DOWN} if self.stale else self.seen.parts

    @property
    def dead_letters(self) -> int | None:
        """How many messages were given up and not replayed; None if that is not known."""
        return None if self.stale else self.seen.dead_letters

    @property
    def stale(self) -> bool:
        """Whether nobody looked lately."""
        return self.clock.monotonic() - self.seen.at > STALE_SECONDS
