"""A world with two processes of each service, and a wire from each to Postgres and to NATS."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.embedded.settings import service_of
from tests.chaos import routed
from tests.chaos.switchboard import Switchboard
from tests.chaos.world import PATIENT, RUNNING_SECONDS_MAX, World
from tests.scripted_model.handle import ScriptedModelProcess
from tests.servers import HeelerInstance, delete_home
from tests.waiting import wait_for

REPLICAS = 2
START_SECONDS_MAX = 120.0


@dataclass(slots=True)
class NetworkWorld(World):
    switchboard: Switchboard = field(kw_only=True)
    clocks: Path = field(kw_only=True)

    async def pid(self, part: str) -> int:
        """The process of a part, as soon as it runs and is on the bus."""

        async def connected() -> int:
            process = self.running(part)
            return process.pid if process and process.pid in await self.heard() else 0

        try:
            return await wait_for(f"{part} is connected", connected, RUNNING_SECONDS_MAX)
        except AssertionError as problem:
            problem.add_note(f"{part} is {self.running(part)}; on the bus: {await self.heard()}")
            raise

    async def heard(self) -> dict[int, int]:
        """How many messages each process got from NATS: commands, replies, news of events."""
        listed = await asyncio.to_thread(self.connections)
        pids = self.switchboard.pids_by_port("nats")
        return {
            pids[connection["port"]]: connection["out_msgs"]
            for connection in listed
            if connection["port"] in pids
        }

    def replicas_of(self, service: str) -> list[str]:
        """The supervised processes of one service."""
        return [part for part in self.services if service_of(part) == service]

    def agents_by_port(self) -> dict[int, int]:
        """The pid of each agent process by the port at which NATS sees its wire."""
        return self.switchboard.pids_by_port("nats")


def start(heeler: HeelerInstance) -> None:
    """Start it. On a busy machine eight processes may take longer than `up` likes to wait."""
    done = heeler.command("up")
    if done.returncode != 0:
        assert "not healthy" in done.stderr, f"up failed:\n{done.stdout}{done.stderr}"
        heeler.wait_healthy(START_SECONDS_MAX)


@asynccontextmanager
async def networked(seed: int = 1) -> AsyncIterator[NetworkWorld]:
    """Such a world in a home of its own."""
    rolls = random.Random(seed)
    heeler = HeelerInstance()
    switchboard = Switchboard(lambda server: heeler.state().ports[server], rolls)
    failpoints = Path(tempfile.mkdtemp(prefix="heeler-failpoints-"))
    clocks = Path(tempfile.mkdtemp(prefix="heeler-clocks-"))
    try:
        async with ScriptedModelProcess() as model, switchboard:
            heeler.env |= {
                "OPENAI_API_KEY": "scripted",
                "OPENAI_BASE_URL": model.base_url,
                "HEELER_FAILPOINTS": str(failpoints),
                "HEELER_LOG_LEVEL": "info",
                "HEELER_REPLICAS": str(REPLICAS),
                "HEELER_SERVICES_PACKAGE": "tests.chaos.routed",
                routed.SWITCHBOARD: str(switchboard.port),
                routed.CLOCKS: str(clocks),
                **PATIENT,
            }
            try:
                # In a thread: the services start and stop by wires that this loop keeps alive.
                await asyncio.to_thread(start, heeler)
                yield NetworkWorld(
                    heeler, model, failpoints, rolls, switchboard=switchboard, clocks=clocks
                )
            finally:
                await asyncio.to_thread(heeler.close)
    finally:
        delete_home(failpoints)
        delete_home(clocks)
