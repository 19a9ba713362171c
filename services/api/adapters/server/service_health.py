"""Whether clients get what they need: looked at again and again, answered at once.

A service is asked as a client asks it: by a command, which it answers after it has written to its
store. What it says of its relay and its consumers is compared with what it said before: somebody
who has work and does none is ill, however well it answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from libs.bus.nats_bus import NatsBus
from libs.bus.ports import BusUnavailable, Clock, Ids, IncomingCommand, outgoing
from libs.contracts.bus_messages import BUSY, Accepted, Context, Json
from libs.contracts.per_service_commands import health_command
from libs.contracts.service_registry import names
from libs.eventstore.connection_pool import Database
from libs.eventstore.ports import StoreUnavailable
from services.api.adapters.server.dead_letter_queries import OPEN_LETTERS

OWN_SERVICE = "api"
LOOK_EVERY_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.1  # while something is missing: whoever starts a server waits for it
ASK_EVERY_SECONDS = 3.0
ASKED_SECONDS_MAX = 3.0
ANSWER_SECONDS_MAX = 1.0
STALE_SECONDS = 5.0
# A command may have to wait, behind a restart or a lot of others, without anybody being ill.
UNANSWERED_SECONDS_MAX = 6.0
STANDSTILL_SECONDS_MAX = 10.0

OK = "ok"
DOWN = "down"
UNANSWERED = "commands are not answered"
UNSTORED = "commands are not stored"


@dataclass(slots=True)
class HealthReport:
    """The result of the last look, with its time."""

    parts: dict[str, str]
    at: float
    dead_letters: int | None = None


@dataclass(slots=True)
class LogProgress:
    """The progress of a reader of a log, and its time."""

    done: int
    at: float


@dataclass(slots=True)
class ServiceHealth:
    """The answers of a service about its health, over time."""

    answered_at: float
    heard_at: float = float("-inf")
    standing: dict[str, LogProgress] = field(default_factory=dict)
    behind: dict[str, int] = field(default_factory=dict)

    def note_answer(self, progress: dict[str, Json], now: float) -> None:
        """Note that the service answered `now`, and how far it is with each log."""
        self.answered_at = self.heard_at = now
        for name, reported in progress.items():
            assert isinstance(reported, dict), "a service says how far it is with each log"
            done, waiting = int(str(reported["done"])), int(str(reported["waiting"]))
            known = self.standing.get(name)
            if known is None or done != known.done or not waiting:
                self.standing[name] = LogProgress(done, now)
            self.behind[name] = waiting

    def silent(self, now: float, *, nobody: bool) -> str:
        """The same where it did not say in time that it is there: with nobody there it is down, and
        else only busy, as long as it answers commands."""
        if nobody or now - self.answered_at > UNANSWERED_SECONDS_MAX:
            return DOWN
        return self.problem(now)

    def problem(self, now: float) -> str:
        """The problem of the service, or the word that there is none."""
        if now - self.answered_at > UNANSWERED_SECONDS_MAX:
            return UNANSWERED
        for name, standing in self.standing.items():
            if now - standing.at > STANDSTILL_SECONDS_MAX:
                return f"the {name} stands still with {self.behind[name]} events waiting"
        return OK


class Health:
    """Looks at Postgres, NATS and the services, and remembers what it saw."""

    def __init__(self, database: Database, bus: NatsBus, clock: Clock, ids: Ids) -> None:
        self.database = database
        self.bus = bus
        self.clock = clock
        self.ids = ids
        self.asker = ids.new("health")
        self.seen = HealthReport({}, float("-inf"))
        self.parked: int | None = None
        # Nobody is ill before it was asked for the first time.
        began = self.stored_at = clock.monotonic()
        self.services = {name: ServiceHealth(began) for name in names()}

    async def turn(self) -> None:
        """Look at everything once, and rest."""
        parts = ["postgres", "nats", *names()]
        looks = [self.postgres(), self.nats(), *(self.service(name) for name in names())]
        found = dict(zip(parts, await asyncio.gather(*looks), strict=True))
        self.seen = HealthReport(found, self.clock.monotonic(), self.parked)
        well = all(part == OK for part in found.values())
        await self.clock.sleep(LOOK_EVERY_SECONDS if well else LOOK_AGAIN_SECONDS)

    async def postgres(self) -> str:
        """Whether Postgres answers a query; the query counts the dead letters."""
        self.parked = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                row = await self.database.fetch_one(OPEN_LETTERS)
        except (StoreUnavailable, TimeoutError):
            return DOWN
        assert row is not None
        self.parked = int(row[0])
        return OK

    async def nats(self) -> str:
        """Whether NATS brings back what is sent to it, and stored the last command in time."""
        if not await self.bus.answers(ANSWER_SECONDS_MAX):
            return DOWN
        stored = self.clock.monotonic() - self.stored_at <= UNANSWERED_SECONDS_MAX
        return OK if stored else UNSTORED

    async def ask_to_store(self) -> None:
        """Send a command that NATS has to store, and rest: shortly if it did not say so."""
        question = self.question(OWN_SERVICE)
        if await self.bus.stores(question, ANSWER_SECONDS_MAX):
            self.stored_at = self.clock.monotonic()
            await self.clock.sleep(ASK_EVERY_SECONDS)
        else:
            await self.clock.sleep(LOOK_EVERY_SECONDS)

    async def service(self, name: str) -> str:
        """Whether a process of a service is there, and what its answers say. Who has just answered
        a command is there, and so is this process itself."""
        known, now = self.services[name], self.clock.monotonic()
        if name == OWN_SERVICE or now - known.heard_at < LOOK_EVERY_SECONDS:
            return known.problem(now)
        try:
            await self.bus.client.request(f"$SRV.PING.{name}", b"", timeout=ANSWER_SECONDS_MAX)
        except (NatsError, TimeoutError) as silent:
            return known.silent(
                self.clock.monotonic(), nobody=isinstance(silent, NoRespondersError)
            )
        return known.problem(self.clock.monotonic())

    async def ask(self, name: str) -> None:
        """Ask a service how it is, and rest: shortly if it did not answer. That there is no room
        for the question now is an answer, too."""
        try:
            reply = await self.bus.resend(self.question(name), seconds_max=ASKED_SECONDS_MAX)
        except BusUnavailable:
            await self.clock.sleep(LOOK_EVERY_SECONDS)
            return
        if isinstance(reply, Accepted):
            self.services[name].note_answer(reply.result, self.clock.monotonic())
        elif reply.code == BUSY:
            self.services[name].note_answer({}, self.clock.monotonic())
        await self.clock.sleep(ASK_EVERY_SECONDS)

    def question(self, name: str) -> IncomingCommand:
        """The question to a service, as if for the first time."""
        return outgoing(health_command(name, self.asker), Context(self.ids.new("check")))

    @property
    def parts(self) -> dict[str, str]:
        """The last seen state of each part; nothing is known to be well if nobody looked lately."""
        return {"postgres": DOWN, "nats": DOWN} if self.stale else self.seen.parts

    @property
    def dead_letters(self) -> int | None:
        """The number of dead letters that were not replayed; None if that is not known."""
        return None if self.stale else self.seen.dead_letters

    @property
    def stale(self) -> bool:
        """Whether the last look is too long ago to count."""
        return self.clock.monotonic() - self.seen.at > STALE_SECONDS
