"""Look again at what may still refer to something that was deleted, and put it right.

Services refer to each other's things, so a delete races with whatever takes up the deleted thing: a
block is deleted in the moment in which an agent gets it, and the agent keeps it. Events that are
missed and processes that die leave the same. So a policy looks again: at those that took something
up lately, or lost something (its suspects, by a key such as the agent's id), and at everybody when
its process starts. It has no timer, but for what becomes due by the clock (`every_seconds`): what
runs when nobody asks would read all that is stored.

    class DetachDeletedBlocks(Reconciliation[LostBlock]):
        '''When a block is gone, no agent has it.'''

        name = "blocks of agents"
        batch_max = 64

        async def find(self, keys: list[str] | None) -> Sequence[LostBlock]:
            return await self.queries.lost_blocks(keys, limit=self.batch_max)

        async def mend(self, lost: LostBlock) -> bool:
            command = DetachBlock(agent_id=lost.agent_id, block_id=lost.block_id)
            return await send_correction(self.bus, self.ids, command, lost.org)

The wiring adds `detach.sweep` to the service's sweepers. A commit that gives an agent a block calls
`detach.suspect(agent_id)`. Events of other services, and of other processes, come by a consumer:
`detach.follow(service, BlockDeleted)`. The consumer's position is stored, so none is missed; and
the suspects of a process that dies are in everybody, at whom the next one that reads the log looks.
Whatever is mended twice, here or by another process, does no harm.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, request_as_service
from libs.bus.service_host import Service
from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import (
    NOT_FOUND,
    Command,
    Context,
    Event,
    NewerVersion,
    Rejected,
)
from libs.eventstore.ports import StoreUnavailable, VersionConflict

log = logging.getLogger(__name__)

# So many suspects are remembered by their keys; if there are more, everybody is looked at.
SUSPECTS_MAX = 10_000
# In one sweep; what is left is for the next one.
BATCHES_MAX = 16
# After a failure, and then twice as long each time.
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.5, 10.0
# A commit of which nobody knows what became may still be made: a connection is given up after 10 s
# of silence, and a statement ends after 30.
LATE_SECONDS = 45.0


class NotMended(Exception):
    """Something is still wrong, and may be mended later."""


OUTAGES = (BusUnavailable, StoreUnavailable)


class Reconciliation[Item](ABC):
    """One kind of thing that may be left behind. Everybody is looked at when the process starts, or
    takes over from another; then suspects are. Only what becomes due by the clock looks
    `every_seconds`, and may read what is due alone where the look is `by_clock`. `find` returns
    `batch_max` items at most, for suspects or, where it takes no keys, for all.
    """

    name = "reconciliation"
    batch_max: float = math.inf
    every_seconds = math.inf

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.suspects: set[str] = set()
        self.suspects_later: dict[str, float] = {}  # since when; the oldest is the first
        self.look_at_all_at = -math.inf
        self.look_at_all_later_at = math.inf
        self.all_are_wanted = True
        self.by_clock = False
        self.retry_at = -math.inf
        self.retry_seconds = RETRY_SECONDS

    @abstractmethod
    async def find(self, keys: list[str] | None) -> Sequence[Item]:
        """Return what is wrong now with those of these keys, or with everybody."""

    @abstractmethod
    async def mend(self, item: Item) -> bool:
        """Put one item right; returns whether that was done. It may be done already."""

    def suspect(self, key: str) -> None:
        """Look at one in the next sweep."""
        self.suspects.add(key)
        if len(self.suspects) > SUSPECTS_MAX:
            self.suspects.clear()
            self.look_at_all()

    def suspect_later(self, key: str) -> None:
        """Look at one when a commit that is begun now can no longer be made."""
        self.suspects_later.pop(key, None)  # it becomes the last one
        self.suspects_later[key] = self.clock.monotonic() + LATE_SECONDS
        if len(self.suspects_later) > SUSPECTS_MAX:
            self.suspect_first_of_later()

    async def follow(self, service: Service, *kinds: type[Event]) -> None:
        """Look at what events of these kinds, of one service, are about."""
        [upstream] = {kind.service for kind in kinds}
        reactions = dict.fromkeys(kinds, self.look_at)
        await service.follow(upstream, {**reactions}, self.look_at_all_twice)

    async def look_at(self, event: Event, _context: Context) -> None:
        """React to an event that may leave something behind: look at what it is about, and once
        more when a commit that began before the event can no longer be made."""
        self.suspect(event.originator_id)
        self.suspect_later(event.originator_id)

    def suspect_first_of_later(self) -> None:
        """Look in the next sweep at the one that would be next in time."""
        key = next(iter(self.suspects_later))
        del self.suspects_later[key]
        self.suspect(key)

    def look_at_all(self) -> None:
        """Look at everybody in the next sweep, also if one is under way."""
        self.look_at_all_at = -math.inf
        self.all_are_wanted = True

    def look_at_all_twice(self) -> None:
        """Look at everybody, and once more when a commit that is begun now can no longer be made:
        whoever was to look at some of them may have died."""
        self.look_at_all()
        self.look_at_all_later_at = self.clock.monotonic() + LATE_SECONDS

    async def sweep(self) -> None:
        """Look at suspects, or at everybody if it is time, and mend what is wrong. What fails is
        logged and tried again, after a pause."""
        now = self.clock.monotonic()
        while self.suspects_later and next(iter(self.suspects_later.values())) <= now:
            self.suspect_first_of_later()
        if now >= self.look_at_all_later_at:
            self.look_at_all_later_at = math.inf
            self.look_at_all()
        everybody = now >= self.look_at_all_at
        if now < self.retry_at or not (everybody or self.suspects):
            return
        suspects = self.take_up(everybody, now)
        done = False
        try:
            done = await self.mend_batches(None if everybody else sorted(suspects))
            self.retry_seconds = RETRY_SECONDS
        except (*OUTAGES, NotMended) as problem:
            log.warning("%s: tried again in %g s: %s", self.name, self.retry_seconds, problem)
            self.pause()
        except Exception:
            self.pause()
            raise
        finally:
            if not done:
                self.look_again(None if everybody else suspects)

    def take_up(self, everybody: bool, now: float) -> set[str]:
        """Begin a look at suspects, which are returned, or at everybody. One that the clock has
        begun may not see them all: suspects are left to the next one."""
        if everybody:
            self.look_at_all_at = now + self.every_seconds
            self.by_clock, self.all_are_wanted = not self.all_are_wanted, False
            if self.by_clock:
                return set()
        suspects, self.suspects = self.suspects, set()
        return suspects

    async def mend_batches(self, keys: list[str] | None) -> bool:
        """Mend a bounded number of batches; returns whether nothing is left. Raises NotMended after
        a batch of which some items are left."""
        for _ in range(BATCHES_MAX):
            items = await self.find(keys)
            left = [item for item in items if not await self.try_to_mend(item)]
            if left:
                raise NotMended(f"{len(left)} of {len(items)} are left, first {left[0]}")
            if len(items) < self.batch_max:
                return True
        return False

    async def try_to_mend(self, item: Item) -> bool:
        """Put one item right; returns whether that was done. One that fails keeps no other waiting,
        an outage does: it is raised."""
        try:
            return await self.mend(item)
        except OUTAGES:
            raise
        except NewerVersion as unknown:
            log_once(unknown)
        except VersionConflict:
            log.info("%s: %s has changed meanwhile", self.name, item)
        except Exception:
            log.exception("%s: %s is not mended", self.name, item)
        return False

    def pause(self) -> None:
        """Let some time pass before the next try, more after each failure."""
        self.retry_at = self.clock.monotonic() + self.retry_seconds
        self.retry_seconds = min(2 * self.retry_seconds, RETRY_SECONDS_MAX)

    def look_again(self, suspects: set[str] | None) -> None:
        """Look in the next sweep at these suspects, or at everybody."""
        if suspects is None:
            self.look_at_all()
            return
        for key in suspects:
            self.suspect(key)


class Correction[Item, Queries](Reconciliation[Item]):
    """A reconciliation that finds by `queries` what is wrong, and puts it right by commands."""

    def __init__(self, bus: Bus, queries: Queries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    async def send(self, command: Command, org: str) -> bool:
        """Send a command that no event causes: see `send_correction`."""
        return await send_correction(self.bus, self.ids, command, org)


async def send_correction(bus: Bus, ids: Ids, command: Command, org: str) -> bool:
    """Send a command that no event causes; returns whether there is nothing left to correct, which
    is so where its target is gone. Raises BusUnavailable."""
    reply = await request_as_service(bus, command, Context(ids.new("sweep"), org=org))
    if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
        log.warning("%s is refused: %s", command, reply.reason)
        return False
    return True
