"""The wires of the simulated world: how long things take, and what does not arrive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from libs.bus.ports import BusUnavailable
from libs.eventstore.ports import StoreRefused, StoreUnavailable
from tests.sim.loop import Lane

STORE, BUS = "store", "bus"
HOP_SECONDS = 0.0002
APART_SECONDS = 1e-6  # what comes over one connection does not come at the same time
SLOW_SECONDS_MAX = 0.4
# What a process hears of the faults that are injected into the store and the bus.
FAULTS = (StoreUnavailable, StoreRefused, BusUnavailable)


@dataclass(slots=True)
class Weather:
    """What goes wrong how often, while it lasts. All are probabilities but `slow_seconds`."""

    loss: float = 0.0
    duplicates: float = 0.0
    slow_seconds: float = 0.0
    write_fails: float = 0.0
    commit_unknown: float = 0.0
    read_fails: float = 0.0
    disk_full: float = 0.0


@dataclass(slots=True)
class Network:
    """Delays and losses between named places: processes, the store, the bus.

    It schedules with the running loop, so the contract suites can run over it too.
    """

    random: Random
    weather: Weather = field(default_factory=Weather)
    cut: dict[tuple[str, str], float] = field(default_factory=dict)
    down: Counter[str] = field(default_factory=Counter)
    last_arrival: dict[tuple[str, str], float] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    def chance(self, probability: float, what: str) -> bool:
        """Whether something goes wrong now; how often it did is counted."""
        hit = probability > 0 and self.random.random() < probability
        if hit:
            self.happened[what] += 1
        return hit

    def hop(self) -> float:
        """How long one message travels."""
        quick = HOP_SECONDS * (1 + 10 * self.random.random() ** 3)
        slow = self.weather.slow_seconds
        return quick + (slow * self.random.random() if slow else 0.0)

    def reachable(self, source: str, target: str) -> bool:
        """Whether anything gets from one place to another now."""
        if self.down[target] or self.down[source]:
            self.happened["down"] += 1
            return False
        if self.healed_in(source, target):
            self.happened["partition"] += 1
            return False
        return True

    def healed_in(self, source: str, target: str) -> float:
        """How long a partition still lasts."""
        until = self.cut.get((source, target), 0.0)
        return max(0.0, until - asyncio.get_running_loop().time()) if until else 0.0

    def deliver(
        self,
        source: str,
        target: str,
        lane: Lane | None,
        callback: Callable[..., object],
        *args: Any,
    ) -> bool:
        """Send a message over a connection that keeps the order; returns whether it gets there.

        What runs into a partition is lost with the connection, or comes when the partition ends.
        """
        delay = self.hop()
        if not self.reachable(source, target):
            waits = self.healed_in(source, target)
            if not waits or self.random.random() < 0.5:
                return False
            delay += waits
        elif self.chance(self.weather.loss, "loss"):
            return False
        now = asyncio.get_running_loop().time()
        pair = (source, target)
        behind = self.last_arrival.get(pair, 0.0) + APART_SECONDS
        self.last_arrival[pair] = arrival = max(behind, now + delay)
        call_at(arrival, lane, callback, *args)
        return True


def at(seconds: float, lane: Lane | None, callback: Callable[..., object], *args: Any) -> None:
    """Call something after a while: in a process, or out in the world."""
    call_at(asyncio.get_running_loop().time() + seconds, lane, callback, *args)


def call_at(when: float, lane: Lane | None, callback: Callable[..., object], *args: Any) -> None:
    """Call something at a time of the running loop."""
    loop = asyncio.get_running_loop()
    lane = lane or getattr(loop, "world", None)
    loop.call_at(when, callback, *args, context=lane.context if lane else None)
