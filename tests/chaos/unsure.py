"""R10 and R16: connections that break at the worst moment, and connections that are bad all day."""

from __future__ import annotations

import time

from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Verdict, begin
from tests.chaos.wire import Weather

CUT_SHARE = 0.15
LOST_BEFORE_SHARE = 0.2
MESSAGES_PER_SECOND = 25.0
MORE_MESSAGES = 20
SLOW_AND_LOSSY = Weather(delay_seconds=(0.1, 0.3), reset_share=0.02)
SLOW_MESSAGES_PER_SECOND = 3.0


async def r10_nobody_knows_whether_it_is_committed(world: NetworkWorld, dose: Dose) -> Verdict:
    """Lose the answers to so many commits; and, now and then, the statement before it arrives, so
    that neither guess about what is unknown is always right."""
    workload, oracle = await begin(world, "R10", agents=dose.agents)
    cuts = world.switchboard.cuts
    before = cuts.lost_after, cuts.lost_before
    cuts.share, cuts.before_share, cuts.left = CUT_SHARE, LOST_BEFORE_SHARE, dose.faults
    try:
        await workload.run(dose.messages, dose.messages / MESSAGES_PER_SECOND, world.random)
        while cuts.left > 0:
            await workload.run(MORE_MESSAGES, 0.0, world.random)
    finally:
        cuts.left = 0
    figures = oracle.verdict.figures
    figures["answers_lost"] = cuts.lost_after - before[0]
    figures["statements_lost"] = cuts.lost_before - before[1]
    oracle.verdict.check(figures["answers_lost"] >= dose.faults, "too few answers were lost")
    return await oracle.judge()


async def r16_slow_and_lossy(world: NetworkWorld, dose: Dose) -> Verdict:
    """Every wire takes 200 ms +- 100 each way, and 2 % of what is sent breaks its connection."""
    workload, oracle = await begin(world, "R16", agents=dose.agents, leases_run_out=True)
    resets, began = world.switchboard.resets, time.monotonic()
    with world.switchboard.bad_weather(SLOW_AND_LOSSY):
        await workload.run(dose.messages, dose.messages / SLOW_MESSAGES_PER_SECOND, world.random)
    figures = oracle.verdict.figures
    figures["seconds"] = time.monotonic() - began
    figures["resets"] = world.switchboard.resets - resets
    latencies = sorted(request.seconds for request in workload.requests)
    figures["p50_seconds"] = percentile(latencies, 0.50)
    figures["p99_seconds"] = percentile(latencies, 0.99)
    oracle.verdict.check(figures["resets"] > 0, "no connection broke")
    await world.healthy()
    return await oracle.judge()
