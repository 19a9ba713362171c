"""Collections whose vectors are in a graph, and how they get there: in the background, a few rows
at a time, so that who writes a passage never waits for it."""

from __future__ import annotations

from psycopg.errors import DeadlockDetected

from libs.bus.ports import Clock
from libs.eventstore.connection_pool import Database

# Up to so many vectors are compared one by one, in about 5 ms.
SMALL_PASSAGES_MAX = 10_000
# Rows that are put into the graph at once, each for about a millisecond; with a pause after.
MARKED_AT_ONCE = 200
PAUSE_SECONDS = 0.05
TURN_SECONDS = 5.0
COLLECTIONS_MAX = 1_000
SUSPECTS_MAX = 1_000

KNOWN = """
select collection_id from memory.large_collections
where org is not null order by found_at limit %(most)s"""

# More than so many: the rest is not counted.
IS_LARGE = """
insert into memory.large_collections (collection_id, org)
select %(collection)s, %(org)s where (
    select count(*) from (
        select from memory.passages
        where collection_id = %(collection)s and org = %(org)s limit %(many)s) few
) = %(many)s
on conflict (collection_id) do nothing"""

MARK = """
update memory.passages p set large = true
from (select id from memory.passages
      where collection_id = %(collection)s and not large and embedding is not null
      limit %(rows)s for update skip locked) few
where p.id = few.id and p.org is not null returning p.id"""


class LargeCollections:
    """Which collections are large. What a search finds to have many vectors is looked at in the
    next turn, by each process for itself; to mark a row twice does nothing."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.known: frozenset[str] = frozenset()
        self.suspects: dict[str, str] = {}

    def suspect(self, org: str, collection_ids: list[str]) -> None:
        """A search took long among these."""
        for collection_id in collection_ids:
            if collection_id not in self.known and len(self.suspects) < SUSPECTS_MAX:
                self.suspects[collection_id] = org

    async def turn(self) -> None:
        """Learn which are large, and mark the rows of those that are not in a graph yet."""
        suspects, self.suspects = self.suspects, {}
        for collection_id, org in suspects.items():
            values = {"collection": collection_id, "org": org, "many": SMALL_PASSAGES_MAX + 1}
            await self.database.fetch(IS_LARGE, values)
        rows = await self.database.fetch(KNOWN, {"most": COLLECTIONS_MAX})
        self.known = frozenset(collection_id for (collection_id,) in rows)
        for collection_id in sorted(self.known):
            while await self.mark_for_graph(collection_id) == MARKED_AT_ONCE:
                await self.clock.sleep(PAUSE_SECONDS)
        await self.clock.sleep(TURN_SECONDS)

    async def mark_for_graph(self, collection_id: str) -> int:
        """Put up to `MARKED_AT_ONCE` rows into the graph; returns how many."""
        try:
            values = {"collection": collection_id, "rows": MARKED_AT_ONCE}
            return len(await self.database.fetch(MARK, values))
        except DeadlockDetected:
            return 0  # another process writes to these rows: they follow in the next turn
