"""All services in one process and one event loop, for small machines: `HEELER_PROCESSES=one`.

They are wired exactly as in processes of their own, and still meet only on the bus; what they
share is the interpreter and what it has loaded.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import uvloop

from deploy.embedded.settings import ALL_SERVICES
from libs.bus.logs import configure_logs, service_name
from libs.bus.runtime import Wire, running, signalled
from libs.bus.settings import ServiceSettings, required
from libs.eventstore.work import Projection
from services.agent.app import wire as wire_agent
from services.agent.projections import project as project_agent
from services.api.app import serve as serve_api
from services.api.settings import ApiSettings, UnsafeSettings
from services.memory.app import wire as wire_memory
from services.memory.projections import project as project_memory

log = logging.getLogger("heeler.services")

# One process has no more connections than one of several has: what each service needs of them is
# as uneven as its share of the work. Each keeps the rights of its own role in Postgres.
CONNECTIONS_MAX = {"agent": 4, "api": 2, "memory": 2}

Part = Callable[[asyncio.Event], Awaitable[None]]


class PartEnded(Exception):
    """A service returned although nobody asked it to."""


def parts(environment: Mapping[str, str]) -> dict[str, Part]:
    """How each service is run until an event is set. Raises UnsafeSettings as the api does."""
    urls = {
        variable: json.loads(required(environment, f"{variable}S"))
        for variable in ("HEELER_DATABASE_URL", "HEELER_NATS_URL")
    }

    def own(name: str) -> dict[str, str]:
        return {**environment, **{variable: each[name] for variable, each in urls.items()}}

    settings = {
        name: replace(ServiceSettings.from_environment(own(name)), connections_max=connections)
        for name, connections in CONNECTIONS_MAX.items()
    }
    api = ApiSettings.from_environment(environment)

    def service(name: str, project: Projection, wire: Wire) -> Part:
        async def run(stop: asyncio.Event) -> None:
            async with running(name, settings[name], project, wire):
                await stop.wait()

        return run

    return {
        "memory": service("memory", project_memory, wire_memory),
        "agent": service("agent", project_agent, wire_agent),
        "api": lambda stop: serve_api(api, settings["api"], stop),
    }


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


async def run(chosen: Mapping[str, Part]) -> None:
    """Serve until the process is asked to stop."""
    await together(chosen, signalled())


def main() -> int:
    """The whole life of the process; 1 when a service broke it. A process edge."""
    configure_logs(ALL_SERVICES, os.environ.get("HEELER_LOG_LEVEL", "info"))
    try:
        uvloop.run(run(parts(os.environ)))
    except UnsafeSettings as unsafe:
        sys.exit(str(unsafe))
    except Exception:
        log.exception("a service failed, so all of them end")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
