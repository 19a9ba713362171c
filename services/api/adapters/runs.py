"""Follow a run to its end: from the deltas as they come, from Postgres where they do not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from libs.bus.ports import Bus, Subscription
from libs.contracts.message import delta_subject
from libs.eventstore.ports import StoreUnavailable
from services.api.adapters.reads import Reads

LOOK_SECONDS = 1.0
TERMINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Served:
    """One V1 message of the run, numbered from 1."""

    number: int
    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended."""

    status: str
    stop_reason: str
    usage: dict[str, Any]
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing happened for a moment; a stream may send a ping."""


class RunFollower:
    """Everything that clients are told of one run, each message once and in order.

    A delta that continues the sequence is passed on. A gap, a second without news, or a bus that
    is away all have the same remedy: the run's rows in Postgres, which are the truth.
    """

    def __init__(self, reads: Reads, bus: Bus, org: str, run_id: str) -> None:
        self.reads = reads
        self.bus = bus
        self.org = org
        self.run_id = run_id
        self.arrived: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.subscription: Subscription | None = None
        self.told = 0

    async def __aenter__(self) -> RunFollower:
        """Begin to listen; do it before the run is started."""
        subject = delta_subject("agent", "run", self.org, self.run_id)
        self.subscription = await self.bus.subscribe_deltas(subject, self.deliver)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening; the run goes on."""
        assert self.subscription is not None
        await self.subscription.end()

    def deliver(self, payload: bytes) -> None:
        """A delta arrived."""
        self.arrived.put_nowait(json.loads(payload))

    async def events(self, *, look_first: bool = False) -> AsyncIterator[Served | Ended | Silence]:
        """Messages as they become known, and last the end. With `look_first` the run may be an
        older one, so the rows are read before anything is waited for."""
        look = look_first
        while True:
            if look:
                async for event in self.look():
                    yield event
                    if isinstance(event, Ended):
                        return
            look = False
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    delta = await self.arrived.get()
            except TimeoutError:
                yield Silence()
                look = True
                continue
            number = delta["seq"]
            if number > self.told + 1:
                look = True
            elif number == self.told + 1 and "message" in delta:
                self.told += 1
                yield Served(number, delta["message"])
            elif number == self.told + 1:
                end = delta["end"]
                yield Ended(end["status"], end["stop_reason"], end["usage"], end.get("error"))
                return

    async def look(self) -> AsyncIterator[Served | Ended]:
        """What Postgres knows and the client does not."""
        try:
            row = await self.reads.run_end(self.run_id)
            messages = await self.reads.run_messages(self.run_id)
        except StoreUnavailable:
            return
        for message in messages[self.told :]:
            self.told += 1
            yield Served(self.told, message)
        if row is None:
            yield Ended("failed", "error", {}, GONE)
        elif row.status in TERMINAL:
            yield Ended(row.status, row.stop_reason or "error", row.usage or {}, row.error)


GONE = {
    "error_type": "internal_error",
    "message": "The run is gone: its agent was deleted",
    "detail": None,
}
