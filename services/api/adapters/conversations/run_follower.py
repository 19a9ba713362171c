"""Follow a run to its end: from the deltas as they come, from Postgres where they do not."""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from libs.bus.ports import Bus, Ids, Subscription
from libs.contracts.agent.stream_chunks import NUMBER_MAX, OPENING_NUMBER, streamed_messages
from libs.contracts.bus_messages import MARK_LENGTH, JsonObject, delta_subject, marked_deltas
from libs.eventstore.ports import StoreUnavailable
from services.api.adapters.conversations.run_follower_queries import RunQueries

LOOK_SECONDS = 1.0
LOOK_SECONDS_MAX = 15.0
# How many deltas wait for a client that reads slowly; what is more is read again, from the rows.
DELTAS_MAX = 1_000
DELTA_BYTES_MAX = 256 * 1024
MISSED = json.dumps({"look": NUMBER_MAX}).encode()
TERMINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class StreamedChunk:
    """One V1 message of the run, or a chunk of one, under its number."""

    number: int
    message: JsonObject
    is_chunk: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended."""

    status: str
    stop_reason: str
    usage: dict[str, Any]
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class IdleTimeout:
    """Nothing happened for a moment; a stream may send a ping."""


Event = StreamedChunk | Ended | IdleTimeout
CompleteUsage = Callable[[JsonObject], Awaitable[JsonObject]]


class RunInbox:
    """The deltas of the runs that this process begins under ids of its own, heard by one
    subscription: a subscription for each run costs a message at one a time 0.3 ms."""

    def __init__(self, bus: Bus, ids: Ids) -> None:
        self.bus = bus
        self.ids = ids
        self.mark = ids.new("inbox")[-MARK_LENGTH:]
        # Weakly: a stream whose client leaves before its first event is dropped, not ended.
        self.followers: WeakValueDictionary[str, RunFollower] = WeakValueDictionary()

    async def open(self) -> None:
        """Begin to listen. Call it once, before the first run is begun."""
        await self.bus.subscribe_deltas(marked_deltas("agent", "run", self.mark), self.deliver)

    def new_run(self) -> str:
        """A fresh id that bears the mark."""
        return self.ids.new("run")[:-MARK_LENGTH] + self.mark

    def deliver(self, subject: str, payload: bytes) -> None:
        """Pass a delta to whoever follows its run."""
        follower = self.followers.get(subject.rpartition(".")[2])
        if follower is not None:
            follower.deliver(subject, payload)

    def follow(self, follower: RunFollower) -> InboxEntry:
        """Let it hear of its run; that is begun after this, so there is one follower."""
        run_id = follower.run_id
        assert run_id.endswith(self.mark), "other runs have a subscription of their own"
        self.followers[run_id] = follower
        return InboxEntry(self, run_id)


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A run that is followed through the inbox."""

    inbox: RunInbox
    run_id: str

    async def end(self) -> None:
        """Hear of it no more."""
        self.inbox.followers.pop(self.run_id, None)


class RunFollower:
    """Everything that clients are told of one run after the number `last_sent`, once and in order.

    A delta that continues what is known is passed on. A gap, a silence, a bus that is or was away,
    and more deltas than a client reads all have the same remedy: the run's rows in Postgres, which
    are the truth, and of the step that is no row yet the tokens that the bus has kept. A silence
    that goes on is looked into after 1, 2, 4 ... seconds: the end may have been lost.

    The deltas of a run that is begun under an id of the `inbox` come through that.
    """

    def __init__(
        self,
        queries: RunQueries,
        bus: Bus,
        org: str,
        run_id: str,
        *,
        last_sent: int = OPENING_NUMBER,
        inbox: RunInbox | None = None,
    ) -> None:
        self.queries = queries
        self.bus = bus
        self.org = org
        self.run_id = run_id
        self.last_sent = last_sent
        self.inbox = inbox
        # What the usage of the run is told with, where that takes a look elsewhere.
        self.complete_usage: CompleteUsage | None = None
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self.arrived_bytes = 0
        self.subscription: Subscription | None = None
        self.looked_at = float("-inf")
        self.look_seconds = LOOK_SECONDS
        self.reconnects = bus.reconnects

    async def __aenter__(self) -> RunFollower:
        """Begin to listen; do it before the run is started."""
        if self.inbox is not None:
            self.subscription = self.inbox.follow(self)
        else:
            subject = delta_subject("agent", "run", "*", self.org, self.run_id)
            self.subscription = await self.bus.subscribe_deltas(subject, self.deliver)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening; the run goes on. May be done twice."""
        subscription, self.subscription = self.subscription, None
        if subscription is not None:
            await subscription.end()

    def deliver(self, _subject: str, payload: bytes) -> None:
        """A delta arrived. Those that are too many are dropped, and looked for later."""
        full = self.arrived_bytes + len(payload) > DELTA_BYTES_MAX and not self.arrived.empty()
        if full or self.arrived.qsize() >= DELTAS_MAX:
            self.arrived = asyncio.Queue()
            self.arrived_bytes = 0
            self.arrived.put_nowait(MISSED)
        self.arrived.put_nowait(payload)
        self.arrived_bytes += len(payload)

    async def complete(self, end: Ended) -> Ended:
        """The end of the run with all that its usage says."""
        if self.complete_usage is None or end.status != "completed":
            return end
        return replace(end, usage=await self.complete_usage(end.usage))

    async def events(self, *, look_first: bool = False) -> AsyncIterator[Event]:
        """The events of the run, the end last. With `look_first` the run may be an older one, so
        the rows are read before anything is waited for."""
        look = look_first
        while True:
            if look:
                async for known in self.look():
                    yield known
                    if isinstance(known, Ended):
                        return
            try:
                delta = await self.next_delta()
            except TimeoutError:
                yield IdleTimeout()
                look = self.may_have_missed()
                continue
            if self.misses(delta):
                async for known in self.look():
                    yield known
                    if isinstance(known, Ended):
                        return
            event = self.next(delta)
            if event is not None:
                yield event
            if isinstance(event, Ended):
                return
            look = False

    async def next_delta(self) -> dict[str, Any]:
        """The next delta. Raises TimeoutError when nothing comes."""
        if self.arrived.empty():
            async with asyncio.timeout(LOOK_SECONDS):
                payload = await self.arrived.get()
        else:
            payload = self.arrived.get_nowait()
        self.arrived_bytes = max(0, self.arrived_bytes - len(payload))
        self.look_seconds = LOOK_SECONDS
        delta: dict[str, Any] = json.loads(payload)
        return delta

    def may_have_missed(self) -> bool:
        """Whether something may have been missed, now that nothing comes."""
        known, self.reconnects = self.reconnects, self.bus.reconnects
        if known != self.reconnects or not self.bus.connected:
            return True
        if asyncio.get_running_loop().time() - self.looked_at < self.look_seconds:
            return False
        self.look_seconds = min(2 * self.look_seconds, LOOK_SECONDS_MAX)
        return True

    def misses(self, delta: dict[str, Any]) -> bool:
        """Whether something is known that was not told. A gap among tokens may stay until their
        step is a row: then one look a second is enough."""
        if "look" in delta:
            return bool(delta["look"] > self.last_sent)
        if "end" in delta:
            return bool(delta["after"] != self.last_sent)
        recently = asyncio.get_running_loop().time() - self.looked_at < LOOK_SECONDS
        return delta["after"] > self.last_sent and not ("chunk" in delta and recently)

    def next(self, delta: dict[str, Any]) -> Event | None:
        """The event of a delta that continues the ones before."""
        if "look" in delta or not delta["after"] <= self.last_sent < delta["number"]:
            return None
        if "end" in delta:
            end = delta["end"]
            return Ended(end["status"], end["stop_reason"], end["usage"], end.get("error"))
        self.last_sent = delta["number"]
        is_chunk = "chunk" in delta
        return StreamedChunk(self.last_sent, delta["chunk" if is_chunk else "message"], is_chunk)

    async def look(self) -> AsyncIterator[Event]:
        """The stored events that the client lacks, and then those that the bus has kept."""
        self.looked_at = asyncio.get_running_loop().time()
        try:
            row = await self.queries.run_end(self.org, self.run_id)
            answer = await self.queries.run_answer(self.org, self.run_id)
            if not answer and row is not None and row.status in TERMINAL:
                # If it was deleted between the two, what was told of it is not the whole.
                row = await self.queries.run_end(self.org, self.run_id)
        except StoreUnavailable:
            return
        number = OPENING_NUMBER
        for part in answer:
            number = number if part.number is None else part.number - 1
            for document in streamed_messages(part.v1_messages, part.chunks):
                number += 1
                if number > self.last_sent:
                    self.last_sent = number
                    yield StreamedChunk(number, document, part.chunks is not None)
        if row is None:
            yield Ended("failed", "error", {}, GONE)
        elif row.status in TERMINAL:
            yield Ended(row.status, row.stop_reason or "error", row.usage or {}, row.error)
        elif row.stream_tokens:
            for payload in await self.kept_deltas():
                event = self.next(json.loads(payload))
                if event is not None:
                    yield event

    async def kept_deltas(self) -> list[bytes]:
        """The next tokens that the bus has kept, no more than a slow client may keep waiting."""
        subject = delta_subject("agent", "run", "token", self.org, self.run_id)
        kept = await self.bus.kept_deltas(subject)
        first = bisect_right(kept, self.last_sent, key=last_number)
        return kept[first : first + DELTAS_MAX]

    async def messages(self) -> list[JsonObject]:
        """All messages of the run's answer, whole."""
        answer = await self.queries.run_answer(self.org, self.run_id)
        return [document for part in answer for document in part.v1_messages]


def last_number(token: bytes) -> int:
    """The number of a chunk, or of the last one that is in the rows."""
    delta = json.loads(token)
    return int(delta["look" if "look" in delta else "number"])


GONE = {
    "error_type": "run_not_found",
    "message": "The run is gone: its agent was deleted",
    "detail": None,
}
