"""Follow another service's log: every event of some topics, in order, whatever the bus does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from libs.bus.background_loops import Notification
from libs.bus.dead_letter_records import DIED, FailedMessage, Problem, letter_of_event, problem_of
from libs.bus.leader_election import Leadership
from libs.bus.message_telemetry import reacting
from libs.bus.ports import Bus, Clock
from libs.bus.retry_policy import ATTEMPTS_MAX, TRANSIENT, pause_seconds, uncount
from libs.bus.unknown_version_delays import LEFT_ALONE_SECONDS, log_once
from libs.contracts.bus_messages import EVENTS, Context, Event, NewerVersion
from libs.eventstore.event_decoding import UnknownEvent, event_of
from libs.eventstore.failed_messages.ports import Attempt, DeadLetter, park
from libs.eventstore.ports import ERASED, IMPORT, Commit, EventStore, Move, StaleLease, StoredEvent

log = logging.getLogger(__name__)

# Its service tells it what is new (`libs/bus/service_host.py`), so it seldom looks by itself.
POLL_SECONDS = 10.0

React = Callable[[Event, Context], Awaitable[None]]


class NotYet(Exception):
    """An event could not be digested; it is tried again after a rest."""


class EventConsumer:
    """Reacts to the events of another service, at least once and in order.

    The stream only notifies; the events are read from the view that their owner publishes,
    behind the position that is stored here. So a wiped stream, a lost or doubled message and a
    new consumer are all the same case. A reaction is a command with an id that follows from the
    event, so reacting twice is harmless; the position moves after the reactions.

    An event that cannot be digested is tried a few times and then parked as a dead letter, in the
    commit that moves the position past it. Attempts are written down from the first trouble on, and
    by whoever has just become the leader: the one before may have died of an event. One that only
    newer processes can read is left to them, and the leadership with it.
    """

    def __init__(
        self,
        service: str,
        store: EventStore,
        bus: Bus,
        upstream: str,
        reactions: dict[type[Event], React],
        clock: Clock,
    ) -> None:
        self.service = service
        self.store = store
        self.bus = bus
        self.upstream = upstream
        self.reactions: dict[str, React] = {}
        for kind, react in reactions.items():
            self.add(kind, react)
        self.clock = clock
        self.notification = Notification()
        self.leadership = Leadership(store, f"consumer.{upstream}")
        self.trusted_as: int | None = None
        self.led_as: int | None = None
        self.on_lead: list[Callable[[], None]] = []
        self.left_until = 0.0

    def add(self, kind: type[Event], react: React) -> bool:
        """React to an event, after what else reacts to it: if one fails, all are repeated. Returns
        whether its topic is a new one."""
        assert f"{self.upstream}.{kind.topic}" in EVENTS, "an event of that service"
        known = self.reactions.get(kind.topic)
        self.reactions[kind.topic] = in_turn(known, react) if known else react
        return known is None

    async def start(self) -> None:
        """Hear the topics. Call it before the bus starts."""
        for topic in self.reactions:
            await self.hear(topic)

    async def hear(self, topic: str) -> None:
        """Be notified of events of a topic."""
        await self.bus.hear_events(self.upstream, topic, self.notification.notify)

    async def turn(self) -> None:
        """Wait for the notification, then react to everything that is new."""
        await self.notification.wait(POLL_SECONDS)
        if self.clock.monotonic() < self.left_until:
            return
        if await self.leadership.is_leader():
            self.note_leadership()
            while await self.react_to_page():
                pass

    def note_leadership(self) -> None:
        """Tell those who keep in memory what they are told here that it is this process now: the
        one before may have died with it."""
        if self.led_as != self.leadership.epoch:
            self.led_as = self.leadership.epoch
            for callback in self.on_lead:
                callback()

    async def react_to_page(self) -> bool:
        """React to one page of new events; returns whether there was any progress."""
        position = await self.store.position(self.upstream)
        page = await self.store.read_upstream(self.upstream, position, list(self.reactions))
        assert page.seen_up_to >= position, "a log only grows"
        if page.seen_up_to == position:
            return False
        try:
            for stored in page.events:
                assert stored.position > position, "what was seen is not seen again"
                letter = await self.digest(stored, position)
                if letter is not None:
                    await self.move(position, stored.position, letter)
                    position = stored.position
            await self.move(position, page.seen_up_to)
        except StaleLease:
            # Somebody moved it: another leader, or a move of ours that counted as lost. Whoever
            # comes first goes on from there; a lease that is only forgotten is renewed for ever.
            await self.leadership.give_back()
            return False
        except NotYet:
            return False
        except NewerVersion as unknown:
            log_once(unknown)
            self.left_until = self.clock.monotonic() + LEFT_ALONE_SECONDS
            await self.leadership.give_back()
            return False
        self.trusted_as = self.leadership.epoch
        return bool(page.events)

    async def move(self, position: int, to: int, letter: DeadLetter | None = None) -> None:
        """Stand at a new position; with a letter, it is parked in the same commit."""
        if to == position:
            return
        commit = Commit(move=Move(self.upstream, position, to))
        if letter is not None:
            park(letter, commit.rows)
        await self.store.commit(commit)
        if letter is not None:
            log.error("event %s is parked as %s", letter.name, letter.id)

    async def digest(self, stored: StoredEvent, position: int) -> DeadLetter | None:
        """React to one event; its letter if that is given up. Raises NotYet after having moved
        right before the event, where the next attempt begins."""
        letters = self.store.letters
        key = f"{self.upstream}.{context_of(stored).message_id}"
        begun: Attempt | None = None
        if self.trusted_as is None or self.trusted_as != self.leadership.epoch:
            begun = await letters.begin(key, known=0, hold_seconds=0.0)
            if not begun.number:
                raise NotYet
            if begun.number > ATTEMPTS_MAX:
                return self.letter(stored, DIED, replace(begun, number=ATTEMPTS_MAX))
        try:
            await self.react(stored)
        except TRANSIENT:
            if begun:
                await uncount(letters, key, self.clock)
            raise
        except NewerVersion:
            if begun:
                await uncount(letters, key, self.clock)
            await self.move(position, stored.position - 1)
            raise
        except Exception as bug:
            return await self.handle_failure(stored, key, bug, begun, position)
        if begun:
            await letters.forget(key)
        return None

    async def handle_failure(
        self,
        stored: StoredEvent,
        key: str,
        bug: Exception,
        begun: Attempt | None,
        position: int,
    ) -> DeadLetter:
        """A reaction failed by a bug. A process edge: it is logged here, once."""
        self.trusted_as = None
        number = begun.number if begun else 1
        failure = await self.store.letters.record_failure(key, number, pause_seconds(number))
        log.error("reacting to %s failed, attempt %d", key, failure.number, exc_info=bug)
        if failure.number >= ATTEMPTS_MAX:
            return self.letter(stored, problem_of(bug), failure)
        await self.move(position, stored.position - 1)
        raise NotYet from bug

    def letter(self, stored: StoredEvent, problem: Problem, failure: Attempt) -> DeadLetter:
        """The letter of an event."""
        now = self.clock.now()
        failed = FailedMessage(self.service, problem, failure.number, failure.first_at, now)
        return letter_of_event(self.upstream, stored, context_of(stored), failed)

    async def react(self, stored: StoredEvent) -> None:
        """React to one event, in the name of whoever caused it. One that an import has brought did
        not happen here: whatever had to follow it, happened there. One that was erased is of
        something that is gone."""
        if IMPORT in stored.metadata or ERASED in stored.metadata:
            return
        context = context_of(stored)
        with reacting(self.upstream, stored, context):
            await self.reactions[stored.topic](event_of(self.upstream, stored), context)

    async def react_again(self, letter: DeadLetter) -> Problem | None:
        """React to the event of a letter; what is wrong with it if that fails again."""
        position = int(str(letter.context["position"]))
        topic = letter.name.removeprefix(f"{self.upstream}.")
        if topic not in self.reactions:
            raise UnknownEvent(letter.name)
        page = await self.store.read_upstream(self.upstream, position - 1, [topic], 1)
        [stored] = page.events
        assert stored.position == position, "a log does not change"
        try:
            await self.react(stored)
        except (*TRANSIENT, NewerVersion):
            raise
        except Exception as bug:
            log.exception("reacting to the event of %s failed again", letter.id)
            return problem_of(bug)
        return None


def in_turn(first: React, second: React) -> React:
    """Have two reactions to an event, one after the other."""

    async def react(event: Event, context: Context) -> None:
        await first(event, context)
        await second(event, context)

    return react


def context_of(stored: StoredEvent) -> Context:
    """In whose name the reaction to an event is sent."""
    return Context(
        message_id=f"{stored.aggregate_id}.{stored.version}",
        org=stored.org,
        actor=str(stored.metadata.get("actor", "")),
        correlation_id=str(stored.metadata.get("correlation_id", "")),
        traceparent=str(stored.metadata.get("traceparent", "")),
    )
