"""The recorder interface of the package `eventsourcing` over an event store, for its test cases.

The package's recorders are synchronous, the store is not: each call runs on the store's event
loop, and the test case in a thread of its own. What the store is asked, and what the adapter adds:

* Versions here begin with 1 (0: it does not exist yet), there with 0: one is added.
* The state there is bytes, a payload here is JSON: the bytes stand in it as text, a character each.
* `gt` is the store's `after`. `lte`, `desc` and `limit` the adapter applies to what it read: the
  store reads an aggregate to its end, since the newest state comes from a snapshot, not from the
  last row of a descending query.
* A commit does not return positions: the relay gives them afterwards (`number_log`). So does the
  adapter, and waits for those of its events.
* Notifications are read as consumers read them, from the published view of the log, by topics if
  topics are named; `stop` the adapter applies.
* A tracking record is a consumer's `Move`, which is refused unless the consumer stands where it
  believes. Who handles notification n believes to stand before n.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, Never
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    IntegrityError,
    Notification,
    ProcessRecorder,
    StoredEvent,
    Tracking,
)

from libs.eventstore.ports import (
    LOG_PAGE_EVENTS_MAX,
    Commit,
    Move,
    NewEvent,
    StaleLease,
    VersionConflict,
    is_cut,
)
from libs.eventstore.ports import StoredEvent as Stored
from tests.contract.ledger import AT
from tests.contract.worlds import World
from tests.waiting import wait_for

STATE_ENCODING = "latin-1"


class StoreAggregateRecorder(AggregateRecorder):
    """Aggregates of the ledger's store. Called from other threads than that of the loop."""

    def __init__(self, world: World, loop: asyncio.AbstractEventLoop) -> None:
        self.store = world.store()
        self.follower = world.follower()
        self.upstream = world.ledger
        self.loop = loop

    def wait_for[T](self, asked: Coroutine[Any, Any, T]) -> T:
        """The answer of the store. A conflict is the package's IntegrityError."""
        try:
            return asyncio.run_coroutine_threadsafe(asked, self.loop).result()
        except (VersionConflict, StaleLease) as refused:
            raise IntegrityError(str(refused)) from refused

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        """Commit events together, or none of them."""
        self.wait_for(self.store.commit(Commit([*map(new_event, stored_events)])))
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """The events of an aggregate between two versions."""
        after = 0 if gt is None else gt + 1
        history = self.wait_for(self.store.load(str(originator_id), after))
        found = [
            StoredEvent(originator_id, event.version - 1, event.topic, state_of(event))
            for event in history.events
            if lte is None or event.version - 1 <= lte
        ]
        return found[:: -1 if desc else 1][:limit]


class StoreProcessRecorder(StoreAggregateRecorder, ProcessRecorder):
    """The log of the ledger, too, and how far it is with the logs of others."""

    def __init__(self, world: World, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(world, loop)
        self.positions: dict[tuple[str, int], int] = {}
        self.seen_up_to = 0

    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, tracking: Tracking | None = None, **_: Any
    ) -> Sequence[int]:
        """Commit events, and that a notification is handled; returns their places in the log."""
        return self.wait_for(self.commit([*map(new_event, stored_events)], tracking))

    async def commit(self, events: list[NewEvent], tracking: Tracking | None) -> list[int]:
        """The positions of the events, once they are committed and have them."""
        move = await self.move_to(tracking) if tracking else None
        await self.store.commit(Commit(events, move=move))
        wanted = [(event.aggregate_id, event.version) for event in events]

        async def numbered() -> bool:
            await self.read_on()
            return self.positions.keys() >= set(wanted)

        await wait_for("no older transaction is open", numbered)
        return [self.positions.pop(key) for key in wanted]

    async def read_on(self) -> None:
        """Number the log and read what is new in it."""
        while await self.store.number_log():
            pass
        while page := await self.store.read_log(self.seen_up_to):
            # Meanwhile another call may have read the same.
            for event in page:
                if event.position > self.seen_up_to:
                    assert event.position == self.seen_up_to + 1, "positions have no gaps"
                    self.seen_up_to = event.position
                    self.positions[event.aggregate_id, event.version] = event.position

    async def move_to(self, tracking: Tracking) -> Move:
        """The move of a consumer that handles this notification now, and any later one never."""
        upstream, handled = tracking.application_name, tracking.notification_id
        stands_at = await self.store.position(upstream)
        return Move(upstream, expected=min(stands_at, handled - 1), to=handled)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """What a consumer reads of the log from a position on, page by page."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        found = self.wait_for(self.read(after, limit, list(topics)))
        return [notification(event) for event in found if stop is None or event.position <= stop]

    async def read(self, after: int, limit: int, topics: list[str]) -> list[Stored]:
        """At most `limit` events of the log; of some topics, as a consumer asks for them."""
        found: list[Stored] = []
        while len(found) < limit:
            size = min(limit - len(found), LOG_PAGE_EVENTS_MAX)
            if topics:
                page = await self.follower.read_upstream(self.upstream, after, topics, size)
                events = page.events
            else:
                events = await self.store.read_log(after, size)
            found += events
            if not is_cut(events, size):
                break
            after = events[-1].position
        return found

    def max_notification_id(self) -> int | None:
        """Where the log ends, as a consumer is told that wants none of its events."""
        page = self.wait_for(self.follower.read_upstream(self.upstream, 0, []))
        return page.seen_up_to or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Never:
        """A store has no subscriptions: the relay publishes, and consumers are told by NATS."""
        raise NotImplementedError("a store has no subscriptions")

    def insert_tracking(self, tracking: Tracking) -> None:
        """Remember that a notification is handled."""
        self.wait_for(self.commit([], tracking))

    def max_tracking_id(self, application_name: str) -> int | None:
        """The last notification that was handled."""
        return self.wait_for(self.store.position(application_name)) or None


def new_event(event: StoredEvent) -> NewEvent:
    """An event of the package's as one of the ledger's."""
    originator_id = str(event.originator_id)
    payload = json.dumps({"state": event.state.decode(STATE_ENCODING)})
    version = event.originator_version + 1
    return NewEvent(originator_id, version, event.topic, 1, "org-1", originator_id, payload, {}, AT)


def state_of(event: Stored) -> bytes:
    """The package's bytes in a payload."""
    return str(event.payload["state"]).encode(STATE_ENCODING)


def notification(event: Stored) -> Notification:
    """An event of the log as the package's notification; its cases name aggregates by UUIDs."""
    return Notification(
        UUID(event.aggregate_id), event.version - 1, event.topic, state_of(event), event.position
    )
