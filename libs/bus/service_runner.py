"""Run a service on Postgres and NATS: open the adapters, start, wait for a signal, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import uvloop

from libs.bus.clock_and_ids import RandomIds, SystemClock
from libs.bus.erasure import ERASE_AFTER_HOURS
from libs.bus.json_logs import configure_logs
from libs.bus.metrics_collection import Reporter
from libs.bus.nats_bus import NatsBus
from libs.bus.nats_service_registration import register
from libs.bus.process_ports import PortArguments
from libs.bus.service_gauges import ServiceGauges
from libs.bus.service_host import Service
from libs.bus.service_settings import ServiceSettings
from libs.contracts.bus_messages import Event
from libs.contracts.environment_parsing import WrongSetting
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.ports import EventStore, StoreUnavailable
from libs.eventstore.postgres import PostgresEventStore
from libs.eventstore.unit_of_work import Projection, Repository
from libs.telemetry.settings import trace_service

log = logging.getLogger(__name__)

# New objects between two collections; Python's own figure is 700. There are few cycles to be found,
# and what holds no cycle is freed without a collection.
NEW_OBJECTS_MAX = 20_000


@dataclass(slots=True)
class Runtime:
    """The adapters of one service process. `begin` runs when the bus and the loops do. `closing` is
    closed before they stop: its callbacks run, the last one first. Set `ended` to end the process.
    """

    service: Service
    database: Database
    bus: NatsBus
    clock: SystemClock
    ids: RandomIds
    erase_after_seconds: float = ERASE_AFTER_HOURS * 3_600.0
    begin: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def erase_what_ended(self, *ends: type[Event]) -> None:
        """Erase the aggregates that such events end, after the time that is set."""
        self.service.erase(ends, after_seconds=self.erase_after_seconds)

    @property
    def port_arguments(self) -> PortArguments:
        """The process's ports for each room of the service."""
        return {
            "repository": self.service.repository,
            "bus": self.bus,
            "clock": self.clock,
            "ids": self.ids,
            "committed": self.service.relay.notification.notify,
            "locks": self.service.locks,
            "quarantine": self.service.quarantine,
        }


# Registers what a service does in a process: what it answers, follows, sweeps and closes.
Wire = Callable[[Runtime], Awaitable[None]]
# Reads what a service's wiring needs of the environment. Raises WrongSetting.
Wiring = Callable[[Mapping[str, str]], Wire]
# Makes the bus of a service, from the url of NATS and the name of the process.
MakeBus = Callable[[str, str], NatsBus]


@asynccontextmanager
async def running(
    name: str,
    settings: ServiceSettings,
    project: Projection,
    wire: Wire,
    make_bus: MakeBus = NatsBus,
) -> AsyncIterator[Runtime]:
    """A started service, wired by `wire`."""
    with trace_service(name):
        async with start_service(name, settings, project, wire, make_bus) as runtime:
            yield runtime


@asynccontextmanager
async def start_service(
    name: str, settings: ServiceSettings, project: Projection, wire: Wire, make_bus: MakeBus
) -> AsyncIterator[Runtime]:
    """The same, with nobody watching."""
    ids, clock = RandomIds(), SystemClock()
    holder = holder_of(settings.instance, ids.new(name))
    pool = open_pool(settings.database_url, connections_max=settings.connections_max)
    await pool.open()
    try:
        database = Database(pool)
        store = PostgresEventStore(database, name, holder)
        bus = make_bus(settings.nats_url, holder)
        repository = Repository(store, name, project)
        runtime = Runtime(
            *(Service(name, repository, bus, clock), database, bus, clock, ids),
            erase_after_seconds=settings.erase_after_seconds,
        )
        runtime.service.follows_death = await take_over(store)
        await wire(runtime)
        await bus.start()
        gauges = ServiceGauges(runtime.service, store)
        await register(name, bus.client)
        await Reporter(bus.client, name, gauges.look).listen()
        runtime.service.start()
        try:
            for begin in runtime.begin:
                await begin()
            freeze_what_is_loaded()
            yield runtime
        finally:
            await bus.stop_serving()
            await runtime.closing.aclose()
            await runtime.service.stop()
            await bus.stop()
    finally:
        await pool.close()


def freeze_what_is_loaded() -> None:
    """Leave out of every collection what this process has loaded by now: code, models and routes,
    which stay as long as it does. To go through those 100,000 objects takes 50 ms and more, in
    which nobody is answered."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX)


def holder_of(instance: str, process_id: str) -> str:
    """The name of a process that is an instance, or of one that is none."""
    return f"{instance}/{process_id}" if instance else process_id


async def take_over(store: EventStore) -> bool:
    """Free what the process before this one held; if that cannot be done, it runs out. Returns
    whether that process may have held anything, as one does that has died."""
    try:
        freed = await store.succeed()
    except StoreUnavailable as problem:
        log.warning("the leases of the process before have to run out: %s", problem)
        return True
    if freed:
        log.info("the leases of the process before are free: %d", freed)
    return freed > 0


def stop_signal() -> asyncio.Event:
    """Set when the process is asked to stop, by SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def run(
    name: str,
    settings: ServiceSettings,
    project: Projection,
    wire: Wire,
    stop: asyncio.Event,
    make_bus: MakeBus = NatsBus,
) -> None:
    """Serve until `stop` is set, or until the service ends by itself."""
    async with running(name, settings, project, wire, make_bus) as runtime:
        waiting = [asyncio.create_task(event.wait()) for event in (stop, runtime.ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


async def run_until_signalled(
    name: str, settings: ServiceSettings, project: Projection, wire: Wire
) -> None:
    """Serve until the process is asked to stop."""
    await run(name, settings, project, wire, stop_signal())


def main(name: str, project: Projection, wiring: Wiring) -> None:
    """The whole life of a service process; one sentence, if its environment is wrong."""
    try:
        settings, wire = ServiceSettings.from_environment(os.environ), wiring(os.environ)
        configure_logs(name, settings.log_level)
        with contextlib.suppress(KeyboardInterrupt):
            uvloop.run(run_until_signalled(name, settings, project, wire))
    except WrongSetting as problem:
        sys.exit(str(problem))
