"""All scenarios by their ids, each with the dose that the tests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos import kills
from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.world import World


@dataclass(frozen=True, slots=True)
class Scenario:
    title: str
    run: Callable[[World, Dose], Awaitable[Verdict]]
    dose: Dose


SCENARIOS = {
    "R01": Scenario("a random service dies", kills.r01_random_kills, Dose(20, 1_000)),
    "R02": Scenario("everything dies at once", kills.r02_everything_dies, Dose(3, 300)),
    "R03": Scenario("Postgres dies", kills.r03_postgres_dies, Dose(5, 300)),
    "R04": Scenario("NATS dies", kills.r04_nats_dies, Dose(5, 300)),
    "R05": Scenario("NATS loses its store", kills.r05_nats_loses_everything, Dose(2, 200)),
}
