"""Make the faults of a plan happen."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from tests.sim.network import BUS, SLOW_SECONDS_MAX, STORE
from tests.sim.plan import Fault, Plan
from tests.sim.processes import CRASH_HOOKS, Process, Shared


@dataclass(slots=True)
class Faults:
    """What goes wrong in one world."""

    shared: Shared
    plan: Plan
    armed: list[Fault] = field(default_factory=list)

    def start(self) -> list[asyncio.Task[None]]:
        """Begin; returns what is done when everything is whole again."""
        CRASH_HOOKS.append(self.reached)
        for name in self.plan.processes:
            Process(self.shared, name).start()
        return [self.shared.loop.world.spawn(self.happen(fault)) for fault in self.plan.faults]

    async def happen(self, fault: Fault) -> None:
        """One fault, from its beginning to its end."""
        await asyncio.sleep(fault.at)
        self.shared.network.happened[fault.kind] += 1
        match fault.kind:
            case "crash":
                await self.crash(fault.target, fault.seconds)
            case "crash all":
                await asyncio.gather(
                    *(self.crash(name, fault.seconds) for name in self.plan.processes)
                )
            case "crash at":
                self.armed.append(fault)
            case "restart":
                await self.restart(fault)
            case "freeze":
                await self.freeze(fault)
            case "store down":
                await self.take_down(STORE, fault.seconds)
            case "store full":
                await self.weather(replace(fault, how="disk_full", amount=1.0))
            case "bus down":
                await self.take_down(BUS, fault.seconds)
            case "wipe":
                self.shared.broker.wipe()
                await self.take_down(BUS, fault.seconds)
            case "partition":
                await self.partition(fault)
            case "skew":
                self.skew(fault)
            case "weather":
                await self.weather(fault)

    async def crash(self, name: str, seconds: float) -> None:
        """A process dies, and a new one starts in its place."""
        process = self.shared.running.get(name)
        if process is not None:
            process.crash()
            await asyncio.sleep(seconds)
            self.revive(name)

    def revive(self, name: str) -> None:
        """Start a process, if none has its place."""
        if name not in self.shared.running:
            Process(self.shared, name).start()

    def reached(self, process: Process, point: str) -> None:
        """The code is at a point where a process may have to die."""
        for fault in self.armed:
            if fault.how == point and process.lane.alive:
                self.armed.remove(fault)
                self.shared.network.happened[f"crash at {point}"] += 1
                process.crash()
                if fault.amount:
                    self.shared.broker.wipe()
                self.shared.loop.world.later(fault.seconds, self.revive, process.name)
                return

    async def restart(self, fault: Fault) -> None:
        """A process is told to stop, and is killed if that takes too long."""
        process = self.shared.running.get(fault.target)
        if process is None or not process.lane.alive:
            return
        stopping = process.lane.spawn(process.noticed("stop", process.stop))
        await asyncio.wait([stopping], timeout=20.0)
        if process.lane.alive:
            process.crash()
            await asyncio.sleep(fault.seconds)
            self.revive(fault.target)

    async def freeze(self, fault: Fault) -> None:
        """A process stands still, and goes on as if nothing had been."""
        process = self.shared.running.get(fault.target)
        if process is not None:
            process.lane.freeze()
            await asyncio.sleep(fault.seconds)
            process.lane.thaw()

    async def take_down(self, place: str, seconds: float) -> None:
        """The store or the bus is away."""
        self.shared.network.down[place] += 1
        await asyncio.sleep(seconds)
        self.shared.network.down[place] -= 1

    async def partition(self, fault: Fault) -> None:
        """A process and a place do not hear each other, or one does not hear the other."""
        place, direction = fault.how.split()
        until = self.shared.loop.now + fault.seconds
        cut = self.shared.network.cut
        if direction in ("both", "to"):
            cut[fault.target, place] = max(cut.get((fault.target, place), 0.0), until)
        if direction in ("both", "from"):
            cut[place, fault.target] = max(cut.get((place, fault.target), 0.0), until)
        await asyncio.sleep(fault.seconds)

    def skew(self, fault: Fault) -> None:
        """A process's clock jumps, and stays wrong."""
        self.shared.skews[fault.target] = fault.amount
        process = self.shared.running.get(fault.target)
        if process is not None:
            process.clock.skew = fault.amount

    async def weather(self, fault: Fault) -> None:
        """Something fails with a probability, for a while."""
        weather = self.shared.network.weather
        name = "slow_seconds" if fault.how == "slow" else fault.how
        amount = fault.amount * SLOW_SECONDS_MAX if fault.how == "slow" else fault.amount
        before = getattr(weather, name)
        setattr(weather, name, amount)
        await asyncio.sleep(fault.seconds)
        setattr(weather, name, before if before != amount else 0.0)
