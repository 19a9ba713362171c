"""The relay: gives committed events their dense positions and publishes them in that order."""

from __future__ import annotations

import logging

from libs.bus.background_loops import Notification
from libs.bus.leader_election import Leadership
from libs.bus.ports import Bus, BusUnavailable
from libs.eventstore.ports import LOG_PAGE_EVENTS_MAX, EventStore, StoredEvent, is_cut
from libs.telemetry import metrics

log = logging.getLogger(__name__)

# Its service tells it what is new (`libs/bus/service_host.py`), so it seldom looks by itself.
POLL_SECONDS = 10.0


class Relay:
    """Publishes the event stream of one service; of several processes one does it.

    What is published twice (a crash between publishing and remembering) carries the same
    `Nats-Msg-Id` and the same position. What is lost on the way, consumers read from the log: so
    an event that the bus cannot take is left out, once and loudly, and the others go on.
    """

    def __init__(self, store: EventStore, bus: Bus, service: str) -> None:
        self.store = store
        self.bus = bus
        self.service = service
        self.notification = Notification()
        self.leadership = Leadership(store, "relay")
        self.published = 0
        self.published_as: int | None = None
        self.caught_up = False

    def look_again(self) -> None:
        """Have a turn read the log, whatever was numbered in it: a relay that was frozen may have
        numbered events after this one took its place, and died before it published them."""
        self.caught_up = False
        self.notification.notify()

    async def turn(self) -> None:
        """Wait for a commit, then publish everything that is not published yet."""
        await self.notification.wait(POLL_SECONDS)
        if not await self.leadership.is_leader():
            return
        if self.published_as != self.leadership.epoch:
            self.published = await self.store.published_position()
            self.published_as = self.leadership.epoch
            self.caught_up = False
        while await self.publish_page():
            pass

    async def publish_page(self) -> bool:
        """Number and publish one page; returns whether there may be more."""
        caught_up, self.caught_up = self.caught_up, False  # until it is known again
        numbered = await self.store.number_log()
        events = [] if caught_up and not numbered else await self.store.read_log(self.published)
        if not events:
            self.caught_up = True
            return False
        positions = [event.position for event in events]
        expected = list(range(self.published + 1, self.published + 1 + len(events)))
        assert positions == expected, f"the log of {self.service} has a hole: {positions}"
        await self.publish(events)
        await self.store.mark_published(events[-1].position)
        self.published = events[-1].position
        more = is_cut(events) or numbered == LOG_PAGE_EVENTS_MAX
        self.caught_up = not more
        return more

    async def publish(self, events: list[StoredEvent]) -> None:
        """Publish events in order; where one of them is at fault, each by itself."""
        try:
            await self.bus.publish_events(self.service, events)
        except BusUnavailable:
            raise
        except Exception as refused:
            if len(events) == 1:
                self.leave_out(events[0], refused)
                return
            for event in events:
                await self.publish([event])

    def leave_out(self, event: StoredEvent, refused: Exception) -> None:
        """An event is not published. A process edge: the reason is logged here, once."""
        metrics.EVENTS_LEFT_OUT.labels(f"{self.service}.{event.topic}").inc()
        log.error(
            "event %d of %s (%s %s) cannot be published and is left out; it is in the log",
            *(event.position, self.service, event.topic, event.about),
            exc_info=refused,
        )
