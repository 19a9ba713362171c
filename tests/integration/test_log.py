"""The log under fire: whoever reads its tail sees every event once."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg

from libs.eventstore.ports import Commit, StoredEvent, StoreUnavailable
from libs.eventstore.postgres import PostgresEventStore
from tests.contract.ledger import opened
from tests.contract.worlds import PostgresWorld, postgres_world
from tests.servers import PostgresServer
from tests.waiting import wait_for

DOSE_SECONDS = float(os.environ.get("HEELER_DOSE_SECONDS", "10"))
WRITTEN_MIN = 200 * DOSE_SECONDS
WRITERS = 16
SLOW_WRITERS = 4
HELD_OPEN_SECONDS_MAX = 0.5
ROLLED_BACK = 0.2

SLOW_EVENT = """
insert into {schema}.events
    (aggregate_id, version, topic, schema_version, org, about, payload, metadata, occurred_at)
values (%s, %s, 'account.opened', 1, 'org-1', 'a', '{{}}', '{{}}', now())
"""

type Name = tuple[str, int]


class Fire:
    """Writers of both kinds and one reader, until the time is up."""

    def __init__(self, world: PostgresWorld) -> None:
        self.world = world
        self.written: list[Name] = []
        self.read: list[tuple[int, Name]] = []
        self.rng = random.Random(34)
        self.over = asyncio.Event()

    async def write(self, name: str) -> None:
        store = self.world.store(name)
        version = 0
        while not self.over.is_set():
            count = self.rng.choice((1, 1, 1, 3))
            events = [opened(name, version + ahead) for ahead in range(1, count + 1)]
            try:
                await store.commit(Commit(events))
            except StoreUnavailable:  # the machine is busy
                events = (await self.insisted(store, name))[version:]
            self.written += [(event.aggregate_id, event.version) for event in events]
            version += len(events)

    async def insisted(self, store: PostgresEventStore, name: str) -> Sequence[StoredEvent]:
        """What is stored of an aggregate, as soon as the store answers."""
        while True:
            with suppress(StoreUnavailable):
                return (await store.load(name)).events

    async def write_slowly(self, name: str) -> None:
        """Transactions that stay open with an event inserted; some are rolled back."""
        statement = SLOW_EVENT.format(schema=self.world.ledger).encode()
        version = 0
        async with await psycopg.AsyncConnection.connect(self.world.admin_url) as connection:
            while not self.over.is_set():
                await connection.execute(statement, [name, version + 1])
                await asyncio.sleep(self.rng.random() * HELD_OPEN_SECONDS_MAX)
                if self.rng.random() < ROLLED_BACK:
                    await connection.rollback()
                else:
                    await connection.commit()
                    version += 1
                    self.written.append((name, version))

    async def tail(self, store: PostgresEventStore) -> None:
        """What the relay does: number, then read on from the last position."""
        while True:
            numbered = 0
            with suppress(StoreUnavailable):
                numbered = await store.number_log()
                for event in await store.read_log(self.read[-1][0] if self.read else 0):
                    self.read.append((event.position, (event.aggregate_id, event.version)))
            if not numbered:
                await asyncio.sleep(0.001)

    async def burn(self) -> None:
        reader = asyncio.create_task(self.tail(self.world.store("reader")))
        writers = [self.write(f"fast{number}") for number in range(WRITERS)]
        writers += [self.write_slowly(f"slow{number}") for number in range(SLOW_WRITERS)]
        writing = asyncio.gather(*writers)
        try:
            done, _ = await asyncio.wait([writing], timeout=DOSE_SECONDS)
            while not done and len(self.written) <= WRITTEN_MIN:
                done, _ = await asyncio.wait([writing], timeout=1.0)
            assert not done, "the writers write until the time is up"
            self.over.set()
            await writing
            await wait_for("all is read", lambda: len(self.read) >= len(self.written))
        finally:
            reader.cancel()
            writing.cancel()
            await asyncio.gather(reader, writing, return_exceptions=True)


async def test_r34_a_tailing_reader_misses_nothing_and_sees_nothing_twice(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    async with postgres_world(postgres_server, tmp_path) as world:
        fire = Fire(world)
        await fire.burn()
    slow = [name for name in fire.written if name[0].startswith("slow")]
    assert len(slow) > DOSE_SECONDS
    assert len(fire.written) > WRITTEN_MIN
    assert [position for position, _ in fire.read] == list(range(1, len(fire.written) + 1))
    assert Counter(name for _, name in fire.read) == Counter(fire.written)
    versions: Counter[str] = Counter()
    for _, (aggregate_id, version) in fire.read:
        versions[aggregate_id] += 1
        assert version == versions[aggregate_id], "an aggregate's events keep their order"
