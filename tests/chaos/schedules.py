"""SCHEDULES: the scheduler, and what it needs, dies again and again while schedules fire: each slot
has one firing and one run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.made_schedules import FOUND, make_schedules
from tests.waiting import wait_for

FIRST_SLOT_SECONDS, PAUSE_SECONDS = 12.0, (0.8, 1.6)
ENDED_SECONDS_MAX = 180.0
# The scheduler most often.
VICTIMS = (("scheduler",),) * 3 + (("agent",), ("postgres",), ("nats",), ("scheduler", "agent"))


async def schedules_fire_once(world: World, dose: Dose) -> Verdict:
    """`messages` schedules are due while `faults` kills fall, and each is answered once."""
    await world.restored()
    verdict = Verdict("SCHEDULES", messages=dose.messages)
    name, first_kill = world.new_name("SCHEDULES"), len(world.kills)
    workload = Workload(world.client(), name)
    await workload.create_agents(dose.agents)
    seconds = dose.faults * sum(PAUSE_SECONDS) / 2
    first = datetime.now(UTC) + timedelta(seconds=FIRST_SLOT_SECONDS)
    slots = [
        first + timedelta(seconds=seconds * number / dose.messages)
        for number in range(dose.messages)
    ]
    await make_schedules(world.heeler.nats_url, name, workload.agents, slots, "SAY:It is time.")
    await wait_for("the first slot", lambda: datetime.now(UTC) >= first, FIRST_SLOT_SECONDS)
    for _ in range(dose.faults):
        await asyncio.sleep(world.random.uniform(*PAUSE_SECONDS))
        await world.kill9(*world.random.choice(VICTIMS))
    verdict.figures["healthy_seconds"] = await world.healthy()

    async def all_have_ended() -> bool:
        rows = await world.sql(FOUND.format(name=name))
        return len(rows) == dose.messages and all(completed for _, _, completed, *_ in rows)

    try:
        await wait_for("the ends of all firings", all_have_ended, ENDED_SECONDS_MAX)
    except AssertionError as late:
        verdict.stuck.append(str(late))
    for schedule_id, firings, completed, runs, after in await world.sql(FOUND.format(name=name)):
        found = f"{schedule_id}: {firings} firings, {completed} completed, {runs} runs"
        (verdict.lost if min(firings, completed, runs) < 1 else []).append(found)
        (verdict.doubled if max(firings, completed, runs) > 1 else []).append(found)
        latest = verdict.figures.get("latest_seconds", 0.0)
        verdict.figures["latest_seconds"] = max(latest, after)
    verdict.kills = len(world.kills) - first_kill
    return verdict
