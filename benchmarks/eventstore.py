"""How fast one service's store takes decisions: `python -m benchmarks.eventstore`.

64 writers append one event per commit to a fresh Postgres as shipped (fsync on), while a reader
follows the tail of the log as the relay does and must miss nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
import psycopg
import uvloop

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.migrations import migrate
from libs.eventstore.ports import Commit, NewEvent
from libs.eventstore.postgres import PostgresEventStore
from tests.servers import PostgresServer
from tests.waiting import wait_for

SCHEMA = "measured"
PASSWORD = "measured"
AT = datetime(2026, 1, 1, tzinfo=UTC)
METADATA: JsonObject = {
    "actor": "user-1",
    "correlation_id": "correlation-1",
    "command_id": "command-1",
}
PAYLOAD = f'{{"text":"{"a word or two " * 10}"}}'
PAGE_EVENTS_MAX = 2_000
READER_PAUSE_SECONDS = 0.01
CATCH_UP_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """What one process is to write; `connections` are its share of the pool."""

    url: str
    name: str
    writers: int
    connections: int
    warm_up_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Written:
    """What one process wrote: per aggregate in all, and in the measured time."""

    versions: dict[str, int]
    commits: int
    seconds: float
    cpu_seconds: float


def append_benchmark(
    *,
    seconds: float = 10.0,
    writers: int = 64,
    processes: int = 2,
    connections: int = 32,
    fsync: bool = True,
) -> dict[str, float]:
    """Commits per second, microseconds of CPU per commit, and how many events the reader missed."""
    server = PostgresServer(fsync=fsync).start()
    try:
        admin_url = server.create_database(SCHEMA)
        with psycopg.connect(admin_url, autocommit=True) as connection:
            migrate(connection, SCHEMA, PASSWORD, [])
        url = server.server.url(SCHEMA, user=f"heeler_{SCHEMA}", password=PASSWORD)
        loads = [
            Load(url, f"p{n}", writers // processes, connections // processes, 1.0, seconds)
            for n in range(processes)
        ]
        return uvloop.run(measured(loads, server.pid))
    finally:
        server.close()


async def measured(loads: list[Load], postgres_pid: int) -> dict[str, float]:
    """Let the processes write, and follow them."""
    loop = asyncio.get_running_loop()
    pool = open_pool(loads[0].url)
    await pool.open(wait=True)
    store = PostgresEventStore(Database(pool), SCHEMA, "reader")
    read: Counter[str] = Counter()
    postgres = Meter(postgres_pid)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(loads), mp_context=spawn) as executor:
        writing = [loop.run_in_executor(executor, write, load) for load in loads]
        reading = asyncio.create_task(follow(store, read))
        metering = asyncio.create_task(postgres.measure(loads[0]))
        done = await asyncio.gather(*writing)
        await metering
    expected: Counter[str] = Counter()
    for each in done:
        expected.update(each.versions)
    with contextlib.suppress(AssertionError):  # what is missing then is counted below
        await wait_for(
            "the reader at the end",
            lambda: read.total() >= expected.total() or reading.done(),
            CATCH_UP_SECONDS_MAX,
        )
    reading.cancel()
    [problem] = await asyncio.gather(reading, return_exceptions=True)
    await pool.close()
    if problem is not None and not isinstance(problem, asyncio.CancelledError):
        raise problem
    commits = sum(each.commits for each in done)
    per_second = sum(each.commits / each.seconds for each in done)
    client = sum(each.cpu_seconds for each in done) / commits
    server = postgres.cpu_seconds / postgres.seconds / per_second
    return {
        "commits": commits,
        "commits_per_second": per_second,
        "client_cpu_us_per_commit": client * 1e6,
        "postgres_cpu_us_per_commit": server * 1e6,
        "cpu_us_per_commit": (client + server) * 1e6,
        "missed": (expected - read).total(),
        "doubled": (read - expected).total(),
    }


class Meter:
    """CPU of Postgres and of all its sessions, in the middle of the measured time."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu_seconds = 0.0
        self.seconds = 1.0

    async def measure(self, load: Load) -> None:
        """Look twice, after everybody has connected and before anybody disconnects."""
        await asyncio.sleep(load.warm_up_seconds + load.seconds * 0.3)
        began, before = time.monotonic(), self.used()
        await asyncio.sleep(load.seconds * 0.5)
        self.cpu_seconds = self.used() - before
        self.seconds = time.monotonic() - began

    def used(self) -> float:
        root = psutil.Process(self.pid)
        seconds = 0.0
        for each in (root, *root.children()):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                seconds += times.user + times.system
        return seconds


async def follow(store: PostgresEventStore, read: Counter[str]) -> None:
    """Count what the log shows, and insist that it shows it in order and without holes."""
    position = 0
    while True:
        numbered = await store.number_log(PAGE_EVENTS_MAX)
        for event in await store.read_log(position, PAGE_EVENTS_MAX):
            assert event.position == position + 1, f"a hole behind {position}"
            position += 1
            read[event.aggregate_id] += 1
            assert read[event.aggregate_id] == event.version, f"disorder at {position}"
        if numbered < PAGE_EVENTS_MAX:
            await asyncio.sleep(READER_PAUSE_SECONDS)


def write(load: Load) -> Written:
    """The whole life of one writing process."""
    return uvloop.run(write_all(load))


async def write_all(load: Load) -> Written:
    """All writers of a process, each with an aggregate of its own."""
    pool = open_pool(load.url, connections_max=load.connections)
    await pool.open()
    store = PostgresEventStore(Database(pool), SCHEMA, load.name)
    versions: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    end = loop.time() + load.warm_up_seconds + load.seconds

    async def write_one(aggregate_id: str) -> None:
        while loop.time() < end:
            await store.commit(Commit([event(aggregate_id, versions[aggregate_id] + 1)]))
            versions[aggregate_id] += 1

    writers = [asyncio.create_task(write_one(f"{load.name}.{n}")) for n in range(load.writers)]
    await asyncio.sleep(load.warm_up_seconds)
    began, cpu, before = loop.time(), time.process_time(), versions.total()
    await asyncio.gather(*writers)
    commits, seconds = versions.total() - before, loop.time() - began
    cpu_seconds = time.process_time() - cpu
    await pool.close()
    return Written(dict(versions), commits, seconds, cpu_seconds)


def event(aggregate_id: str, version: int) -> NewEvent:
    """An event of the usual size."""
    return NewEvent(
        aggregate_id, version, "thing.happened", 1, "org-1", aggregate_id, PAYLOAD, METADATA, AT
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eventstore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    for name, value in append_benchmark(**vars(options)).items():
        print(f"{name:28} {value:10,.0f}")


if __name__ == "__main__":
    main()
