"""Erase what was deleted: after a while nothing that it said stands in the event log any more."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import takewhile

from libs.bus.leader_election import Leadership
from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import Event
from libs.eventstore.ports import (
    Commit,
    EventStore,
    Move,
    StaleLease,
    StoredEvent,
    UpstreamPage,
)

log = logging.getLogger(__name__)

ERASE_AFTER_HOURS = 72
LOOK_SECONDS = 10.0
POSITION = "erasure"  # how far it is in the log of its own service
PAGE_EVENTS_MAX = 100


type Forget = Callable[[Sequence[str]], Awaitable[None]]


class Erasure:
    """Follows the log of its own service at a distance: what was deleted `after_seconds` ago loses
    its payloads, but for the events that say that it was deleted.

    `ends` are the events that end an aggregate: from then on nothing reads its history. Safe to
    repeat: what was erased is left alone.
    """

    def __init__(
        self,
        service: str,
        store: EventStore,
        bus: Bus,
        clock: Clock,
        *,
        ends: Iterable[type[Event]],
        after_seconds: float,
        forgetters: Sequence[Forget] = (),
    ) -> None:
        """`forgetters` remove what else has the texts of erased aggregates."""
        self.service = service
        self.store = store
        self.bus = bus
        self.clock = clock
        self.topics = [kind.topic for kind in ends]
        self.after_seconds = after_seconds
        self.forgetters = forgetters
        self.leadership = Leadership(store, POSITION)
        self.looked_at: float | None = None
        # What was read behind a position, until all of it is erased: a deletion is kept for days,
        # and the log behind it is long.
        self.page = UpstreamPage([], 0)
        self.page_behind = -1

    async def sweep(self) -> None:
        """Erase what is due, if this process is the one that does it."""
        now = self.clock.monotonic()
        if self.looked_at is not None and now - self.looked_at < LOOK_SECONDS:
            return
        self.looked_at = now
        if await self.leadership.is_leader():
            while await self.erase_page():
                pass

    async def erase_page(self) -> bool:
        """Erase what the next page of the log says; returns whether more may be due."""
        position = await self.store.position(POSITION)
        page = await self.read_page(position)
        due = [*takewhile(self.is_due, page.events)]
        if due:
            ids = [event.aggregate_id for event in due]
            erased = await self.store.erase(ids, self.topics, self.clock.now())
            for forget in self.forgetters:
                await forget(ids)
            await self.bus.forget_events(self.service)
            log.info("%d events of %d deleted aggregates are erased", erased, len({*ids}))
        is_complete = len(due) == len(page.events)
        to = page.seen_up_to if is_complete else due[-1].position if due else position
        try:
            if to != position:
                await self.store.commit(Commit(move=Move(POSITION, position, to)))
                self.page = UpstreamPage(page.events[len(due) :], page.seen_up_to)
                self.page_behind = to
        except StaleLease:
            await self.leadership.give_back()
            return False
        return bool(due) and is_complete

    async def read_page(self, position: int) -> UpstreamPage:
        """The deletions behind a position. As long as some of them are kept, what was read once is
        not read again."""
        if self.page_behind != position or not self.page.events:
            self.page = await self.store.read_upstream(
                self.service, position, self.topics, PAGE_EVENTS_MAX
            )
            self.page_behind = position
        return self.page

    def is_due(self, event: StoredEvent) -> bool:
        """Whether a deletion is so long ago that nobody may want it back."""
        return (self.clock.now() - event.occurred_at).total_seconds() >= self.after_seconds
