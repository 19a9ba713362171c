"""All scenarios by their ids, each with the dose that the tests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos import crash_points, freezes, kills, outages, repeats, resumed
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
    "R09": Scenario("death at every named point", crash_points.r09_every_point, Dose(2, 22)),
    "R11": Scenario("the bus repeats itself", repeats.r11_everything_comes_again, Dose(1, 500)),
    "R12": Scenario("clients insist", repeats.r12_clients_insist, Dose(1, 20, agents=5)),
    "R13": Scenario("zombies", freezes.r13_zombies, Dose(3, 3)),
    "R22": Scenario("orphaned tool calls", crash_points.r22_orphaned_tool_calls, Dose(2, 200)),
    "R25": Scenario("streams are dropped", resumed.r25_streams_are_resumed, Dose(20, 5, agents=5)),
    "R29": Scenario("slow models", outages.r29_slow_models, Dose(1, 100)),
    "R37": Scenario("outages are no 404", outages.r37_outage_is_not_absence, Dose(1, 0, agents=4)),
}
