"""Port to the event store, and the values that travel through it.

Two adapters keep this contract: `postgres.PostgresEventStore` and `in_memory.InMemoryEventStore`.
The contract suite in `tests/contract/test_eventstore.py` runs over both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.failed_messages.ports import DeadLetterStore
from libs.eventstore.read_model_rows import RowWrites, Table

LEASE_SECONDS = 10.0
LEASE_RENEWAL_SECONDS = 3.0
LOG_PAGE_EVENTS_MAX = 500
# A commit of more events is made alone: others that are made in one statement with it would wait
# for all of them.
EVENTS_TOGETHER_MAX = 20
LOG_PAGE_BYTES_MAX = 4 << 20  # of payloads; the event that reaches it is the last of its page
REPLY_KEPT_SECONDS = 7 * 86_400.0
REPLIES_FORGOTTEN_AT_ONCE = 1_000
# Processes of two releases each keep a snapshot of their own. One that so many events have
# happened since belongs to a release that nobody runs any more.
SNAPSHOT_KEPT_EVENTS = 1_000


# In the metadata of an event that happened elsewhere: the import that brought it, and whether its
# aggregate begins with it, for the first time or again after it had been deleted.
IMPORT = "import"
BEGINS = "begins"
# In the metadata of an event whose payload was erased: it says when, and nothing else.
ERASED = "erased"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be appended at exactly `version` of its aggregate."""

    aggregate_id: str
    version: int
    topic: str
    schema_version: int
    org: str
    about: str
    payload_json: str
    metadata: JsonObject
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as read back. `position` is its dense place in the log, once it has one, and
    `commit_order` orders it among the events of all services: see the column.

    The payload stays text, since whoever publishes it does not look into it.
    """

    aggregate_id: str
    version: int
    topic: str
    schema_version: int
    org: str
    about: str
    payload_json: str
    metadata: JsonObject
    occurred_at: datetime
    position: int = 0
    commit_order: int = 0

    @property
    def payload_bytes(self) -> int:
        """The bytes of the payload."""
        text = self.payload_json
        return len(text) if text.isascii() else len(text.encode())

    @property
    def payload(self) -> JsonObject:
        """The payload, parsed anew each time."""
        parsed: JsonObject = json.loads(self.payload_json)
        return parsed


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an aggregate at a version, for those whose state has this form."""

    aggregate_id: str
    version: int
    state: JsonObject
    state_version: str
    org: str


@dataclass(frozen=True, slots=True)
class History:
    """The data that brings an aggregate up to date: maybe a snapshot, and the events after it."""

    snapshot: Snapshot | None
    events: list[StoredEvent]


@dataclass(frozen=True, slots=True)
class Beginning:
    """The import that an aggregate began by, and the version of the first event of it."""

    import_id: str
    version: int


@dataclass(frozen=True, slots=True)
class UpstreamPage:
    """Events of a foreign log, and the position up to which there are no others to be seen."""

    events: list[StoredEvent]
    seen_up_to: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The position of a reader of a log, and the number of events that are still waiting."""

    done: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Whether the relay has something to do, and which upstreams have events not handled yet."""

    relay: bool
    upstreams: frozenset[str]


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """The message that this commit answers, and the reply, for whoever asks again."""

    message_id: str
    reply_json: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Commit only while this epoch of the lease is the newest."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class TakenLease:
    """A lease that was just taken; `taken_over` says that the attempt under the lease before did
    not end: its process died, or it failed."""

    epoch: int
    taken_over: bool


@dataclass(frozen=True, slots=True)
class Move:
    """Commit only if the consumer of `upstream` still stands at `expected`; then stand at `to`.

    Ask for the `position` first: a consumer that never did stands nowhere.
    """

    upstream: str
    expected: int
    to: int


@dataclass(slots=True)
class Commit:
    """One decision: everything in it becomes durable together, or nothing does.

    `unchanged` are the aggregates that it relied on as they were at a version, and that nothing
    happens to in it: one that has gone on since is a conflict. A commit has one condition
    at most: `unchanged`, a `fence` or a `move`.
    """

    events: list[NewEvent] = field(default_factory=list)
    rows: RowWrites = field(default_factory=RowWrites)
    inbox: InboxEntry | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    unchanged: dict[str, int] = field(default_factory=dict)
    fence: Fence | None = None
    move: Move | None = None
    take_lease: str | None = None
    release_lease: bool = False

    @property
    def conditions(self) -> int:
        """The number of kinds of conditions it has."""
        return sum(1 for condition in (self.unchanged, self.fence, self.move) if condition)

    @property
    def alone(self) -> bool:
        """Whether it is made alone, because what it writes to is not known by key, or is much."""
        is_much = len(self.events) > EVENTS_TOGETHER_MAX
        return bool(self.move or self.rows.deletions or self.rows.patches_alike or is_much)

    def bytes(self) -> int:
        """About how much is written."""
        return sum(len(event.payload_json) for event in self.events)

    def touches(self) -> set[str]:
        """The keys that two commits made together must not share."""
        written = [*self.rows.upserts.items(), *self.rows.patches.items()]
        keys = {f"{table.name}/{key}" for table, rows in written for key in rows}
        named = [self.take_lease, self.fence and self.fence.key]
        keys |= {f"lease/{name}" for name in named if name}
        if self.inbox:
            keys.add(f"inbox/{self.inbox.message_id}")
        return keys | {event.aggregate_id for event in self.events}


def is_cut(events: list[StoredEvent], limit: int = LOG_PAGE_EVENTS_MAX) -> bool:
    """Whether a page of the log is as large as it may be, so that more may follow it."""
    return (
        len(events) == limit or sum(event.payload_bytes for event in events) >= LOG_PAGE_BYTES_MAX
    )


class VersionConflict(Exception):
    """Somebody else appended to an aggregate first: load it again and decide again."""


class DuplicateMessage(Exception):
    """The message was handled before; `reply_json` is what it was answered."""

    def __init__(self, reply_json: str) -> None:
        super().__init__("message was handled before")
        self.reply_json = reply_json


class StaleLease(Exception):
    """The lease was taken over (or the consumer moved on elsewhere): stop, silently."""


class StoreUnavailable(Exception):
    """Postgres cannot be reached, or a commit's outcome is unknown: try again."""


class StoreRefused(Exception):
    """Postgres cannot do what it was asked, now or ever. `by_data` says that what was to be stored
    is at fault: too long for an index, say."""

    def __init__(self, why: str, *, by_data: bool) -> None:
        super().__init__(why)
        self.by_data = by_data


class EventStore(Protocol):
    """The door. One store serves one process of one service (one schema); `holder` names that: by
    an id of its own, or by `<instance>/<id>` where at most one process at a time is the instance.
    """

    holder: str

    @property
    def letters(self) -> DeadLetterStore:
        """The store of failed attempts and of dead letters."""

    async def load(self, aggregate_id: str, after: int = 0, *, state_version: str = "") -> History:
        """Everything about an aggregate that is newer than `after`: from its snapshot of this
        `state_version` on, if there is one, else all events."""

    async def commit(self, commit: Commit) -> int | None:
        """Make a decision durable. Returns the epoch of `take_lease`, or None when it was not free.

        Raises VersionConflict, DuplicateMessage, StaleLease, StoreRefused or StoreUnavailable;
        after all but the last nothing of the commit exists.
        """

    async def stored_reply(self, message_id: str) -> str | None:
        """The reply that a message was answered with, if it was handled."""

    async def forget_replies(self, older_than_seconds: float) -> int:
        """Forget some of the replies that nobody can be waiting for any more; returns how many.

        A message that comes again after that is handled as a new one.
        """

    async def take_lease(self, key: str) -> int | None:
        """The new epoch if nobody holds the lease, else None."""

    async def take_over(self, key: str) -> TakenLease | None:
        """Take a lease as `take_lease` does, and learn what became of the attempt before."""

    async def succeed(self) -> int:
        """The processes that were this instance before are dead: whatever they held is free now,
        and does not have to run out first. Returns how many leases that were."""

    async def renew_leases(self) -> set[str]:
        """Prolong every lease that this process knows it took; returns those that it holds.

        A lease that was taken by a commit with an unknown outcome is not known, and runs out.
        """

    async def release_lease(self, fence: Fence, *, failed: bool = False) -> None:
        """Give a lease up, if it is still ours: whoever comes first may take it, at once. The next
        holder takes over from an attempt that `failed`; otherwise it begins anew."""

    async def erase(self, aggregate_ids: list[str], kept_topics: list[str], at: datetime) -> int:
        """Replace the payloads of all events of aggregates, but those of these topics, by
        tombstones; forget their snapshots, and the replies to the commands that recorded them.
        Returns how many events were erased now."""

    async def import_of(self, aggregate_id: str) -> Beginning | None:
        """The import that began an aggregate, the last one if several did; None if none did."""

    async def rows_of_others(
        self, table: Table, column: str, values: Sequence[str], aggregate_id: str
    ) -> list[str]:
        """Which of these values rows have in a column that other aggregates have written."""

    async def begun_by_import(
        self, import_id: str, after: str, limit: int
    ) -> list[tuple[str, str]]:
        """The aggregates that an import began, by id, behind `after`; and the topic of the event
        that each began with."""

    async def number_log(self, limit: int = LOG_PAGE_EVENTS_MAX) -> int:
        """Give committed events their dense positions, in commit-safe order; returns how many."""

    async def read_log(self, after: int, limit: int = LOG_PAGE_EVENTS_MAX) -> list[StoredEvent]:
        """The service's own log behind a position, in order, without holes: a page of at most
        `limit` events, and of about `LOG_PAGE_BYTES_MAX`."""

    async def waiting(self, upstreams: list[str]) -> Waiting:
        """In which logs something is new: whether the relay has events to number or to publish, and
        which of these services have events that this one has not handled. It writes nothing."""

    async def progress(self, upstreams: list[str]) -> dict[str, Progress]:
        """The positions of the `relay` and of the `consumer of <upstream>` of each of these; and a
        proof that the store can be written to: raises StoreUnavailable if it cannot, as when its
        disk is full."""

    async def published_position(self) -> int:
        """The position up to which the relay has published."""

    async def mark_published(self, position: int) -> None:
        """Remember how far the relay has published."""

    async def position(self, upstream: str) -> int:
        """Where the consumer of another service's log stands (0 before the first event)."""

    async def read_upstream(
        self, upstream: str, after: int, topics: list[str], limit: int = LOG_PAGE_EVENTS_MAX
    ) -> UpstreamPage:
        """The events of some topics in another service's log, from the view that it publishes."""


def instance_of(holder: str) -> str:
    """The instance that a holder is; empty if it is none."""
    return holder.rpartition("/")[0]
