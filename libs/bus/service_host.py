"""Shell of every service process: a store, a bus, a relay, and loops that keep leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache

from prometheus_client import Counter

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.background_loops import forever
from libs.bus.bounded_command_queue import CommandQueue
from libs.bus.command_dispatcher import CommandDispatcher, Handler
from libs.bus.command_retries import CommandRetries
from libs.bus.dead_letter_handlers import DeadLetterCommands
from libs.bus.erasure import Erasure, Forget
from libs.bus.event_consumer import EventConsumer, React
from libs.bus.leader_election import Leadership
from libs.bus.message_telemetry import observe
from libs.bus.ports import Bus, Clock, IncomingCommand
from libs.bus.relay import Relay
from libs.bus.suspect_quarantine import Quarantine
from libs.contracts.bus_messages import COMMANDS, Accepted, Command, Event, Rejected
from libs.contracts.per_service_commands import CHECK
from libs.contracts.version import HEELER_VERSION
from libs.eventstore.ports import (
    LEASE_RENEWAL_SECONDS,
    REPLIES_FORGOTTEN_AT_ONCE,
    REPLY_KEPT_SECONDS,
    EventStore,
)
from libs.eventstore.sql_view_cache import CachedView
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from libs.telemetry import metrics

SWEEP_SECONDS = 2.0
# How often it is looked for events of which nobody has told: those of other processes.
LOG_LOOK_SECONDS = 1.0
RELAY_LINGER_SECONDS = 0.1
REST_SHARE_MIN = 0.1
FORGET_EVERY_SECONDS = 600.0
ATTEMPTS_KEPT_SECONDS = 86_400.0


class Service:
    """The running parts of one service in one process; the adapters are handed in.

    The same object runs on Postgres and NATS, and on the in-memory store and bus.
    """

    def __init__(self, name: str, repository: Repository, bus: Bus, clock: Clock) -> None:
        self.name = name
        self.repository = repository
        self.store: EventStore = repository.store
        self.bus = bus
        self.clock = clock
        self.relay = Relay(self.store, bus, name)
        self.quarantine = Quarantine()
        self.locks = AggregateLocks()
        self.erasure: Erasure | None = None
        self.forgetters: list[Forget] = []  # of what was erased
        self.dead_letters = DeadLetterCommands(name, self.store.letters, bus)
        self.consumers: list[EventConsumer] = []
        self.sweepers: list[Callable[[], Awaitable[None]]] = []
        self.looks: list[Callable[[], Awaitable[None]]] = []
        self.lease_watchers: list[Callable[[set[str]], None]] = []
        self.loops: list[asyncio.Task[None]] = []
        self.began = clock.monotonic()
        self.follows_death = False  # of the process that was this instance before
        self.starting: list[Callable[[], None]] = []  # called when the loops begin
        repository.watchers.append(count_event)
        metrics.SERVICE_INFO.labels(name, HEELER_VERSION).set(1)

    async def handle(self, handlers: Mapping[type[Command], Handler]) -> None:
        """Answer these commands, and those about the service: its dead letters, its health."""
        own: dict[type[Command], Handler] = {**self.dead_letters.table()}
        about_health = f"{self.name}.{CHECK}"
        question = COMMANDS.get(about_health)
        if question is not None:
            own[question] = self.check_health
        shell = CommandDispatcher(self.repository, {**handlers, **own})
        retries = CommandRetries(self.name, self.store, shell.answer, self.clock, self.quarantine)
        if self.follows_death:
            retries.count_first_attempts()
            self.starting.append(retries.count_first_attempts)  # for as long from then on
        queue = CommandQueue(retries.answer, self.locks, self.clock)

        async def answer(incoming: IncomingCommand) -> Accepted | Rejected:
            reply = await queue.answer(incoming)
            if incoming.name != about_health:
                self.relay.notification.notify()
            return reply

        await self.bus.serve(self.name, observe(answer, self.clock))

    async def check_health(self, command: Command, work: UnitOfWork) -> Accepted | Rejected:
        """The progress of this service, to a request that came the way of every command."""
        progress = await self.store.progress([each.upstream for each in self.consumers])
        return Accepted(result={name: asdict(stage) for name, stage in progress.items()})

    async def follow(
        self,
        upstream: str,
        reactions: dict[type[Event], React],
        on_lead: Callable[[], None] | None = None,
    ) -> None:
        """React to events in the log of a service, of this one too. Called again for the same log,
        it adds to what is followed there: one consumer reads a log, once. `on_lead` is called when
        this process begins to react in the place of another one."""
        consumer = self.dead_letters.consumers.get(upstream)
        if consumer is None:
            consumer = EventConsumer(self.name, self.store, self.bus, upstream, {}, self.clock)
            self.consumers.append(consumer)
            self.dead_letters.consumers[upstream] = consumer
        for kind, react in reactions.items():
            if consumer.add(kind, react):
                await consumer.hear(kind.topic)
        if on_lead is not None:
            consumer.on_lead.append(on_lead)

    async def hear(self, event: type[Event], react: Callable[[], None]) -> None:
        """Call `react` soon after events of a kind, wherever they happen. Some may be missed, so a
        sweeper has to look as well."""
        await self.bus.hear_events(event.service, event.topic, react)

    async def keep_current[T](self, view: CachedView[T], changed: type[Event]) -> None:
        """Read a view now, and again whenever such an event says that it has changed."""
        await view.look()
        await self.hear(changed, view.look_again)
        self.sweepers.append(view.look)

    def erase(self, ends: Iterable[type[Event]], *, after_seconds: float) -> None:
        """Erase the aggregates that such events have ended, so long after."""
        self.erasure = Erasure(
            *(self.name, self.store, self.bus, self.clock),
            ends=ends,
            after_seconds=after_seconds,
            forgetters=self.forgetters,
        )
        self.sweepers.append(self.erasure.sweep)

    def start(self) -> None:
        """Begin the loops; the bus must be started."""
        for begin in self.starting:
            begin()
        turns: dict[str, Callable[[], Awaitable[None]]] = {
            "logs": self.look_at_logs,
            "relay": self.relay_turn,
            "leases": self.renew,
            "inbox": self.forget_replies,
            **{f"consumer of {each.upstream}": each.turn for each in self.consumers},
            **{f"sweeper {n}": self.sweep_with(sweep) for n, sweep in enumerate(self.sweepers)},
        }
        self.loops = [
            asyncio.create_task(forever(f"{self.name} {name}", turn, self.clock))
            for name, turn in turns.items()
        ]

    async def stop(self) -> None:
        """End the loops and give back the leases that they hold."""
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        self.loops = []
        for leadership in self.leaderships:
            await leadership.give_back()

    @property
    def leaderships(self) -> list[Leadership]:
        """The jobs that one process of this service does."""
        jobs = [self.relay.leadership, *(each.leadership for each in self.consumers)]
        return [*jobs, self.erasure.leadership] if self.erasure else jobs

    async def look_at_logs(self) -> None:
        """Wake the relay and the consumers that have something to do, by one statement for all of
        them; and those that lead nothing, to see whether they can."""
        await self.rest(LOG_LOOK_SECONDS)
        waiting = await self.store.waiting([each.upstream for each in self.consumers])
        if waiting.relay or self.relay.leadership.epoch is None:
            self.relay.look_again()
        for consumer in self.consumers:
            if consumer.upstream in waiting.upstreams or consumer.leadership.epoch is None:
                consumer.notification.notify()

    async def relay_turn(self) -> None:
        """Nobody waits for the event stream: let a few commits gather, then publish them."""
        await self.clock.sleep(RELAY_LINGER_SECONDS)
        await self.relay.turn()

    async def forget_replies(self) -> None:
        """Keep the inbox as long as a message may come again, and no longer."""
        while await self.store.forget_replies(REPLY_KEPT_SECONDS) == REPLIES_FORGOTTEN_AT_ONCE:
            pass
        await self.store.letters.forget_older(ATTEMPTS_KEPT_SECONDS)
        await self.clock.sleep(FORGET_EVERY_SECONDS)

    async def renew(self) -> None:
        """Prolong all leases of this process in one statement, and tell who lost theirs."""
        await self.rest(LEASE_RENEWAL_SECONDS)
        held = await self.store.renew_leases()
        for leadership in self.leaderships:
            leadership.keep(held)
        for watch in self.lease_watchers:
            watch(held)

    def sweep_with(self, sweep: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """One turn of a sweeper: sweep, then rest."""

        async def turn() -> None:
            await sweep()
            await self.rest(SWEEP_SECONDS)

        return turn

    async def rest(self, seconds: float) -> None:
        """Rest for so long, or somewhat shorter: all loops that rest as long wake together, so that
        a process wakes once for them, and what they ask goes in one statement."""
        left = seconds - (self.clock.monotonic() - self.began) % seconds
        await self.clock.sleep(left if left > REST_SHARE_MIN * seconds else left + seconds)


def count_event(event: Event) -> None:
    """Count an event that is committed."""
    counter_of(event.service, event.topic).inc()


@cache
def counter_of(service: str, topic: str) -> Counter:
    """The counter of a topic's events; looking it up costs more than counting."""
    return metrics.EVENTS.labels(f"{service}.{topic}")
