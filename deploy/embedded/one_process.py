"""All services in one process and one event loop, for small machines: `HEELER_PROCESSES=one`.

They are wired exactly as in processes of their own, and still meet only on the bus. Their bus
delivers in memory what they send each other; events, and all that others send, go over NATS.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module

import uvloop

from deploy.embedded.settings import ALL_SERVICES
from libs.bus.json_logs import configure_logs, service_name
from libs.bus.process_bus import ProcessBus
from libs.bus.process_router import ProcessRouter
from libs.bus.service_runner import Wire, run, stop_signal
from libs.bus.service_settings import ServiceSettings, log_level
from libs.contracts.environment_parsing import WrongSetting, require
from libs.contracts.service_registry import SERVICES
from libs.eventstore.unit_of_work import Projection
from libs.telemetry.settings import TelemetrySettings

log = logging.getLogger("heeler.services")

Part = Callable[[asyncio.Event], Awaitable[None]]


class PartEnded(Exception):
    """A service returned although nobody asked it to."""


def parts(environment: Mapping[str, str]) -> dict[str, Part]:
    """The coroutine of each service, which runs until an event is set. Raises WrongSetting, as a
    process of its own would. Each keeps the rights of its own role in Postgres; together they have
    few connections (`SHARED_CONNECTIONS_MAX`)."""
    make_bus = partial(ProcessBus, router=ProcessRouter())
    urls = {
        variable: json.loads(require(environment, f"{variable}S"))
        for variable in ("HEELER_DATABASE_URL", "HEELER_NATS_URL")
    }

    def part(name: str, connections: int) -> Part:
        own = {**environment, **{variable: each[name] for variable, each in urls.items()}}
        settings = ServiceSettings.from_environment(own)
        TelemetrySettings.from_environment(name, own)
        app = import_module(f"services.{name}.app")
        project: Projection = import_module(f"services.{name}.projections").project
        wire: Wire = app.wiring(own)
        settings = replace(settings, connections_max=connections)
        return partial(run, name, settings, project, wire, make_bus=make_bus)

    return {service.name: part(service.name, service.connections_shared) for service in SERVICES}


async def together(chosen: Mapping[str, Part], stop: asyncio.Event) -> None:
    """Run these parts until `stop` is set. The first that fails or ends before that takes the
    others down with it: half a server would look alive to whoever restarts what is dead."""

    async def one(name: str, part: Part) -> None:
        service_name.set(name)  # in the context of this task and of all that it starts
        await part(stop)
        if not stop.is_set():
            raise PartEnded(f"{name} ended by itself")

    async with asyncio.TaskGroup() as group:
        for name, part in chosen.items():
            group.create_task(one(name, part), name=name)


async def run_all(chosen: Mapping[str, Part]) -> None:
    """Serve until the process is asked to stop."""
    await together(chosen, stop_signal())


def main() -> int:
    """The whole life of the process; 1 when a service broke it. A process edge."""
    try:
        configure_logs(ALL_SERVICES, log_level(os.environ))
        uvloop.run(run_all(parts(os.environ)))
    except WrongSetting as problem:
        sys.exit(str(problem))
    except Exception:
        log.exception("a service failed, so all of them end")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
