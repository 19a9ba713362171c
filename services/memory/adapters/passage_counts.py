"""How many passages archives have, counted now and then: a bound need not be exact."""

from __future__ import annotations

from collections import OrderedDict

from libs.bus.ports import Clock
from services.memory.adapters.archive_queries import ArchiveQueries

COUNTED_AGAIN_SECONDS = 300.0
COUNTS_MAX = 10_000


class PassageCounts:
    """Counts of the archives that something was put into of late, by this process."""

    def __init__(self, archives: ArchiveQueries, clock: Clock) -> None:
        self.archives = archives
        self.clock = clock
        self.known: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def passages_of(self, org: str, archive_id: str) -> int:
        """About how many passages an archive has."""
        count, counted_at = self.known.get(archive_id, (0, None))
        now = self.clock.monotonic()
        if counted_at is None or now - counted_at > COUNTED_AGAIN_SECONDS:
            count, counted_at = await self.archives.passage_count(org, archive_id), now
            self.known[archive_id] = (count, counted_at)
            if len(self.known) > COUNTS_MAX:
                self.known.popitem(last=False)
        return count

    def inserted(self, archive_id: str, passages: int) -> None:
        """So many more are in an archive."""
        known = self.known.get(archive_id)
        if known:
            self.known[archive_id] = (known[0] + passages, known[1])
