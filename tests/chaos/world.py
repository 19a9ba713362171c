"""A whole Heeler with a scripted model behind it, and every way of hurting it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

import psutil
import psycopg

from deploy import container_health
from deploy.embedded.api_health import read_health
from deploy.embedded.settings import PARTS, SERVICES, service_of
from tests.chaos.client import Client
from tests.mcp_servers.listed import write_list
from tests.scripted_model.handle import ScriptedModelProcess
from tests.servers import HeelerInstance, delete_home, wipe
from tests.waiting import wait_for

HEALTHY_SECONDS_MAX = 120.0
RUNNING_SECONDS_MAX = 60.0
GONE_SECONDS_MAX = 15.0
# Short, so that what hangs is not waited for any longer than its bound has to be seen.
MCP_SECONDS = {
    "HEELER_MCP_CONNECT_SECONDS_MAX": "5",
    "HEELER_MCP_LIST_SECONDS_MAX": "5",
    "HEELER_MCP_CALL_SECONDS_MAX": "3",
}
# What is frozen or cut off here stays so until the scenario ends it.
PATIENT = {"HEELER_FROZEN_SECONDS_MAX": "3600"}
CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"


@dataclass(frozen=True, slots=True)
class Kill:
    """Something was hurt, at once or for a while."""

    at: float
    part: str
    until: float = 0.0

    def met(self, began: float, ended: float) -> bool:
        """Whether it fell into this time."""
        return began <= max(self.at, self.until) and self.at <= ended


@dataclass(slots=True)
class World:
    heeler: HeelerInstance
    model: ScriptedModelProcess
    failpoints: Path
    random: random.Random
    kills: list[Kill] = field(default_factory=list)
    names: Any = field(default_factory=lambda: count(1))

    def client(self) -> Client:
        return Client(self.heeler.base_url)

    def new_name(self, scenario: str) -> str:
        """A prefix that no other run of a scenario in this world has."""
        return f"{scenario.lower()}-{next(self.names)}"

    async def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows for the diagnosis, once Postgres answers: it may have been killed a moment ago."""

        async def answered() -> tuple[list[tuple[Any, ...]]] | None:
            with suppress(psycopg.OperationalError):
                return (await asyncio.to_thread(self.heeler.psql, statement),)
            return None

        (rows,) = await wait_for("Postgres answers", answered, HEALTHY_SECONDS_MAX)
        return rows

    # -- processes

    @property
    def services(self) -> list[str]:
        """The supervised processes of the services."""
        return [part for part in self.heeler.state().parts if service_of(part) in SERVICES]

    def running(self, part: str) -> psutil.Process | None:
        mark = self.heeler.mark(part)
        return mark.process() if mark else None

    async def kill9(self, *parts: str) -> None:
        """Kill these parts at once, as soon as all of them run."""
        await wait_for(f"{parts} run", lambda: all(map(self.running, parts)), RUNNING_SECONDS_MAX)
        for part in {self.heeler.pid(part): part for part in parts}.values():
            self.heeler.kill9(part)
            self.kills.append(Kill(time.monotonic(), part))

    async def healthy(self) -> float:
        """Wait until all is well; how long it took."""
        started = time.monotonic()
        await asyncio.to_thread(self.heeler.wait_healthy, HEALTHY_SECONDS_MAX)
        return time.monotonic() - started

    async def reachable(self, part: str) -> None:
        """Wait until the api says that a part is well."""

        def well() -> bool:
            return read_health("127.0.0.1", self.heeler.port).parts.get(part) == "ok"

        await wait_for(f"{part} reachable", lambda: asyncio.to_thread(well), HEALTHY_SECONDS_MAX)

    @asynccontextmanager
    async def without(
        self, part: str, number: signal.Signals = signal.SIGKILL
    ) -> AsyncIterator[None]:
        """A world in which a part is gone and stays so: its supervisor sleeps meanwhile."""
        process = await wait_for(f"{part} runs", lambda: self.running(part), RUNNING_SECONDS_MAX)
        supervisor = self.heeler.pid("supervisor")
        os.kill(supervisor, signal.SIGSTOP)
        try:
            process.send_signal(number)
            self.kills.append(Kill(time.monotonic(), part))
            await wait_for(f"{part} is gone", lambda: self.running(part) is None, GONE_SECONDS_MAX)
            yield
        finally:
            os.kill(supervisor, signal.SIGCONT)

    def wipe_nats(self) -> None:
        """Delete all streams, as a lost disk would; NATS may still write them."""
        wipe(self.heeler.home / "nats" / "store")

    # -- replicas of the agent service

    def agents(self) -> list[psutil.Process]:
        """All processes of the agent service."""
        replicas = [
            psutil.Process(replica.pid) for replica in self.replicas if replica.poll() is None
        ]
        names = [part for part in self.services if service_of(part) == "agent"]
        supervised = [process for process in map(self.running, names) if process]
        return [*supervised, *replicas]

    def pids_of_agents(self) -> set[int]:
        """All processes of the agent service that live."""
        return {process.pid for process in self.agents()}

    @property
    def replicas(self) -> list[subprocess.Popen[bytes]]:
        return self.heeler._replicas

    async def agents_at_least(self, wanted: int) -> None:
        """Start replicas until so many processes answer commands."""
        self.spawn_agents(wanted)
        await wait_for(
            f"{wanted} agent processes", lambda: self.serving() >= wanted, HEALTHY_SECONDS_MAX
        )

    def spawn_agents(self, wanted: int) -> None:
        """Start replicas until there are so many processes, or will be."""
        supervised = sum(service_of(part) == "agent" for part in self.services)
        alive = sum(replica.poll() is None for replica in self.replicas)
        for _ in range(wanted - supervised - alive):
            self.heeler.spawn_service("agent")

    def serving(self) -> int:
        """How many agent processes are on the bus."""
        return len({pid for pid in self.holders().values() if pid})

    def holders(self) -> dict[str, int]:
        """The pid of each agent process by the name under which it holds leases.

        That is its name on the bus too; the port of that connection leads to the process.
        """
        ports = self.agents_by_port()
        return {
            connection["name"]: ports[connection["port"]]
            for connection in self.connections()
            if connection.get("name", "").rpartition("/")[2].startswith("agent-")
            and connection["port"] in ports
        }

    def connections(self) -> list[dict[str, Any]]:
        """NATS' own list of its clients."""
        [answer] = islice(
            container_health.answers(self.heeler.nats_system_url, CONNECTIONS, '{"limit": 1024}'), 1
        )
        listed: list[dict[str, Any]] = answer["data"]["connections"]
        return listed

    def agents_by_port(self) -> dict[int, int]:
        """The pid of each agent process by the port at which NATS sees it."""
        nats = self.heeler.state().ports["nats"]
        return {
            connection.laddr.port: process.pid
            for process in self.agents()
            for connection in process.net_connections("tcp")
            if connection.raddr and connection.raddr.port == nats
        }

    # -- failpoints

    def arm(self, point: str) -> None:
        """The next process that passes this point dies there."""
        (self.failpoints / point).touch()

    def poison(self, point: str, text: str) -> None:
        """Every process that meets this text at this point dies or raises there."""
        (self.failpoints / point).write_text(text)

    def fired(self, point: str) -> bool:
        return not (self.failpoints / point).exists()

    def disarm(self) -> None:
        for point in self.failpoints.iterdir():
            point.unlink(missing_ok=True)

    async def restored(self, *, alone: bool = True) -> None:
        """All well again, and nothing left over: what every scenario begins with. Replicas of the
        agent service are stopped, unless it need not be alone."""
        self.disarm()
        for process in self.agents():
            process.send_signal(signal.SIGCONT)
        if alone:
            await asyncio.to_thread(self.heeler.stop_replicas)
        await self.healthy()


@asynccontextmanager
async def started(seed: int = 1, *, home: Path | None = None) -> AsyncIterator[World]:
    """A world in a home of its own, with failpoints and a model in a process of its own."""
    failpoints = Path(tempfile.mkdtemp(prefix="heeler-failpoints-"))
    programs = Path(tempfile.mkdtemp(prefix="heeler-programs-"))
    try:
        async with ScriptedModelProcess() as model:
            environment = {
                "OPENAI_API_KEY": "scripted",
                "OPENAI_BASE_URL": model.base_url,
                "HEELER_FAILPOINTS": str(failpoints),
                "HEELER_LOG_LEVEL": "info",
                "HEELER_MCP_HOSTS": "127.0.0.1",
                "HEELER_MCP_COMMANDS": str(write_list(programs)),
                **MCP_SECONDS,
                **PATIENT,
            }
            with HeelerInstance(env=environment, home=home) as heeler:
                yield World(heeler, model, failpoints, random.Random(seed))
    finally:
        delete_home(failpoints)
        delete_home(programs)


__all__ = ["PARTS", "SERVICES", "Kill", "World", "started"]
