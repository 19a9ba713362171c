"""Run a service on Postgres and NATS: open the adapters, start, wait for a signal, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvloop

from libs.bus.background import forever
from libs.bus.garbage_collection import freeze_what_is_loaded
from libs.bus.logs import configure_logs
from libs.bus.micro import register
from libs.bus.nats import NatsBus
from libs.bus.reports import Reporter
from libs.bus.service import Service
from libs.bus.settings import ServiceSettings
from libs.bus.system import RandomIds, SystemClock
from libs.bus.vitals import Vitals
from libs.eventstore.database import Database, open_pool
from libs.eventstore.ports import EventStore, StoreUnavailable
from libs.eventstore.postgres import PostgresEventStore
from libs.eventstore.work import Projection, Repository
from libs.telemetry.settings import traced

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Runtime:
    """The adapters of one service process."""

    service: Service
    database: Database
    bus: NatsBus
    clock: SystemClock
    ids: RandomIds


Wire = Callable[[Runtime], Awaitable[Callable[[], Awaitable[None]] | None]]


@asynccontextmanager
async def running(
    name: str, settings: ServiceSettings, project: Projection, wire: Wire
) -> AsyncIterator[Runtime]:
    """A started service. `wire` registers what it does, and may return what drains it."""
    with traced(name):
        async with started(name, settings, project, wire) as runtime:
            yield runtime


@asynccontextmanager
async def started(
    name: str, settings: ServiceSettings, project: Projection, wire: Wire
) -> AsyncIterator[Runtime]:
    """The same, with nobody watching."""
    ids, clock = RandomIds(), SystemClock()
    holder = holder_of(settings.instance, ids.new(name))
    pool = open_pool(settings.database_url, connections_max=settings.connections_max)
    await pool.open()
    try:
        database = Database(pool)
        store = PostgresEventStore(database, name, holder)
        bus = NatsBus(settings.nats_url, holder)
        repository = Repository(store, name, project)
        runtime = Runtime(Service(name, repository, bus, clock), database, bus, clock, ids)
        drain = await wire(runtime)
        await take_over(store)
        await bus.start()
        vitals = Vitals(runtime.service, store)
        await register(name, bus.client)
        reporter = Reporter(bus.client, vitals.look, clock)
        reporting = asyncio.create_task(forever(f"{name} metrics", reporter.turn, clock))
        runtime.service.start()
        freeze_what_is_loaded()
        try:
            yield runtime
        finally:
            await bus.stop_serving()
            if drain:
                await drain()
            reporting.cancel()
            await runtime.service.stop()
            await bus.stop()
    finally:
        await pool.close()


def holder_of(instance: str, process_id: str) -> str:
    """The name of a process that is an instance, or of one that is none."""
    return f"{instance}/{process_id}" if instance else process_id


async def take_over(store: EventStore) -> None:
    """Free what the process before this one held; if that cannot be done, it runs out."""
    try:
        freed = await store.succeed()
    except StoreUnavailable as problem:
        log.warning("the leases of the process before have to run out: %s", problem)
    else:
        if freed:
            log.info("the leases of the process before are free: %d", freed)


def signalled() -> asyncio.Event:
    """Set when the process is asked to stop, by SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def run(name: str, settings: ServiceSettings, project: Projection, wire: Wire) -> None:
    """Serve until the process is asked to stop."""
    stop = signalled()
    async with running(name, settings, project, wire):
        await stop.wait()


def main(name: str, settings: ServiceSettings, project: Projection, wire: Wire) -> None:
    """The whole life of a service process."""
    configure_logs(name, settings.log_level)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(run(name, settings, project, wire))
