"""All scenarios by their ids, each with the dose that the tests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos import (
    bad_mcp,
    batches,
    clocks,
    crash_points,
    files,
    freezes,
    full_disk,
    groups,
    histories,
    hopeless,
    hostile_clients,
    hostile_files,
    hot_agents,
    kills,
    large_state,
    late_acks,
    outages,
    partitions,
    poison,
    repeats,
    replicas,
    resumed,
    schedules,
    slow_machines,
    soak,
    starving,
    unsure,
    waiting_runs,
)
from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.world import World


@dataclass(frozen=True, slots=True)
class Scenario[W: World]:
    """`run` needs a world of its own kind: one process of each service, or two on wires."""

    title: str
    run: Callable[[W, Dose], Awaitable[Verdict]]
    dose: Dose


SCENARIOS = {
    "R01": Scenario("a random service dies", kills.r01_random_kills, Dose(10, 500)),
    "R02": Scenario("everything dies at once", kills.r02_everything_dies, Dose(2, 120)),
    "R03": Scenario("Postgres dies", kills.r03_postgres_dies, Dose(3, 120)),
    "R04": Scenario("NATS dies", kills.r04_nats_dies, Dose(3, 120)),
    "R05": Scenario("NATS loses its store", kills.r05_nats_loses_everything, Dose(2, 120)),
    "R05-RUNNING": Scenario(
        "NATS runs on without its store", kills.r05_nats_loses_its_store_and_runs_on, Dose(1, 60)
    ),
    "R09": Scenario("death at every named point", crash_points.r09_every_point, Dose(1, 22)),
    "R11": Scenario("the bus repeats itself", repeats.r11_everything_comes_again, Dose(1, 150)),
    "R12": Scenario("clients insist", repeats.r12_clients_insist, Dose(1, 20, agents=5)),
    "R13": Scenario("zombies", freezes.r13_zombies, Dose(3, 3)),
    "R14": Scenario("late acknowledgements", late_acks.r14_late_acks, Dose(2, 2)),
    "R17": Scenario("the disk is full", full_disk.r17_disk_full, Dose(1, 60, agents=8)),
    "GROUPS": Scenario("groups die", groups.groups_die, Dose(6, 20, agents=4)),
    "R22": Scenario("orphaned tool calls", crash_points.r22_orphaned_tool_calls, Dose(2, 100)),
    "R25": Scenario("streams are dropped", resumed.r25_streams_are_resumed, Dose(20, 5, agents=5)),
    "R27": Scenario("poison", poison.r27_poison, Dose(1, 150, agents=20)),
    "R28": Scenario("one agent is pressed", hot_agents.r28_one_agent_is_pressed, Dose(8, 0)),
    "S15": Scenario("hostile clients", hostile_clients.s15_hostile_clients, Dose(1, 60, agents=10)),
    "HOPELESS": Scenario("hopeless requests", hopeless.hopeless, Dose(1, 40, agents=8)),
    "QUEUE": Scenario("many runs wait", waiting_runs.waiting_runs, Dose(1, 150)),
    "SCHEDULES": Scenario(
        "death while schedules fire", schedules.schedules_fire_once, Dose(8, 60, agents=10)
    ),
    "BATCH": Scenario("death in a batch", batches.each_item_once, Dose(2, 30)),
    "FILES": Scenario("death in uploads and embedding", files.files_survive, Dose(2, 0)),
    "LARGE-FILES": Scenario("large and hostile files", hostile_files.large_files, Dose(1, 20)),
    "R29": Scenario("slow models", outages.r29_slow_models, Dose(1, 100)),
    "R30": Scenario("bad MCP servers", bad_mcp.r30_bad_mcp, Dose(1, 80, agents=10)),
    "R36": Scenario("a soak", soak.r36_soak, Dose(12, 0, agents=8)),
    "R37": Scenario("outages are no 404", outages.r37_outage_is_not_absence, Dose(1, 0, agents=4)),
    "R40": Scenario("a slow machine", slow_machines.r40_slow_machine, Dose(1, 1, agents=1)),
    "RELAY": Scenario("state is large", large_state.relay_large_state, Dose(2, 60, agents=10)),
}

# With two processes of each service, and a network that can be hurt.
NETWORK_SCENARIOS = {
    "R10": Scenario(
        "nobody knows whether it is committed",
        unsure.r10_nobody_knows_whether_it_is_committed,
        Dose(50, 150, agents=20),
    ),
    "R15": Scenario("partitions", partitions.r15_partitions, Dose(3, 100, agents=12)),
    "R16": Scenario("slow and lossy", unsure.r16_slow_and_lossy, Dose(1, 24, agents=10)),
    "R13-PAIRS": Scenario(
        "one of each pair freezes", replicas.r13_one_of_each_pair_freezes, Dose(1, 80, agents=15)
    ),
    "R19": Scenario("clocks jump", clocks.r19_clocks_jump, Dose(8, 100, agents=15)),
    "R20": Scenario("no memory, no processor", starving.r20_starving, Dose(2, 120, agents=15)),
    "R39": Scenario("linearizable histories", histories.r39_linearizable, Dose(2, 0)),
    "SCALE": Scenario("newcomers take work", replicas.newcomers_take_work, Dose(1, 60, agents=15)),
}
