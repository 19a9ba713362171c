"""Follow another service's log: every event of some topics, in order, whatever the bus does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from libs.bus.background import Bell, Leadership
from libs.bus.observed import reacting
from libs.bus.ports import Bus
from libs.contracts.message import EVENTS, Context, Event
from libs.eventstore.ports import Commit, EventStore, Move, StaleLease, StoredEvent
from libs.eventstore.work import event_of

POLL_SECONDS = 2.0

React = Callable[[Event, Context], Awaitable[None]]


class LogConsumer:
    """Reacts to the events of another service, at least once and in order.

    The stream only rings the bell; the events are read from the view that their owner publishes,
    behind the position that is stored here. So a wiped stream, a lost or doubled message and a
    new consumer are all the same case. A reaction is a command with an id that follows from the
    event, so reacting twice is harmless; the position moves after the reactions.
    """

    def __init__(
        self, store: EventStore, bus: Bus, upstream: str, reactions: dict[type[Event], React]
    ) -> None:
        self.store = store
        self.bus = bus
        self.upstream = upstream
        self.reactions = {kind.topic: react for kind, react in reactions.items()}
        self.bell = Bell()
        self.leadership = Leadership(store, f"consumer.{upstream}")
        assert all(f"{upstream}.{topic}" in EVENTS for topic in self.reactions)

    async def start(self) -> None:
        """Hear the topics. Call it before the bus starts."""
        for topic in self.reactions:
            await self.bus.hear_events(self.upstream, topic, self.bell.ring)

    async def turn(self) -> None:
        """Wait for the bell, then react to everything that is new."""
        await self.bell.wait(POLL_SECONDS)
        if await self.leadership.held():
            while await self.react_to_page():
                pass

    async def react_to_page(self) -> bool:
        """React to one page of new events; returns whether there was any progress."""
        position = await self.store.position(self.upstream)
        page = await self.store.read_upstream(self.upstream, position, list(self.reactions))
        assert page.seen_up_to >= position, "a log only grows"
        if page.seen_up_to == position:
            return False
        for stored in page.events:
            assert stored.position > position, "what was seen is not seen again"
            await self.react(stored)
        try:
            await self.store.commit(Commit(move=Move(self.upstream, position, page.seen_up_to)))
        except StaleLease:
            self.leadership.epoch = None
            return False
        return bool(page.events)

    async def react(self, stored: StoredEvent) -> None:
        """React to one event, in the name of whoever caused it."""
        context = Context(
            message_id=f"{stored.aggregate_id}.{stored.version}",
            org=stored.org,
            actor=str(stored.metadata.get("actor", "")),
            correlation_id=str(stored.metadata.get("correlation_id", "")),
            traceparent=str(stored.metadata.get("traceparent", "")),
        )
        with reacting(self.upstream, stored, context):
            await self.reactions[stored.topic](event_of(self.upstream, stored), context)
