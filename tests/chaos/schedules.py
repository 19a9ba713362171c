"""SCHEDULES: the scheduler, and what it needs, dies again and again while schedules fire: each slot
has one firing and one run, whatever is to become of missed slots (R26). One that is to be skipped
where it is a minute late may be, if a machine is that slow."""

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
POLICIES = ("fire_once", "skip", "all")
# The scheduler most often.
VICTIMS = (("scheduler",),) * 3 + (("agent",), ("postgres",), ("nats",), ("scheduler", "agent"))


def note_latest(verdict: Verdict, name: str, seconds: float) -> None:
    """Keep the largest of these seconds."""
    verdict.figures[name] = max(verdict.figures.get(name, 0.0), seconds)


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
    url, agents = world.heeler.nats_url, workload.agents
    await make_schedules(url, name, agents, slots, "SAY:It is time.", missed=POLICIES)
    await wait_for("the first slot", lambda: datetime.now(UTC) >= first, FIRST_SLOT_SECONDS)
    for _ in range(dose.faults):
        await asyncio.sleep(world.random.uniform(*PAUSE_SECONDS))
        await world.kill9(*world.random.choice(VICTIMS))
    verdict.figures["healthy_seconds"] = await world.healthy()
    healthy = datetime.now(UTC)

    async def all_have_ended() -> bool:
        rows = await world.sql(FOUND.format(name=name))
        return len(rows) == dose.messages and all(
            completed or skipped for _, _, completed, _, _, skipped, _ in rows
        )

    try:
        await wait_for("the ends of all firings", all_have_ended, ENDED_SECONDS_MAX)
    except AssertionError as late:
        verdict.stuck.append(str(late))
    rows = await world.sql(FOUND.format(name=name))
    for schedule_id, firings, completed, runs, after, skipped, accepted in rows:
        found = f"{schedule_id}: {firings} firings, {completed} completed, {runs} runs"
        if not skipped and min(firings, completed, runs) < 1:
            verdict.lost.append(found)
        (verdict.doubled if max(firings, completed, runs) > 1 else []).append(found)
        note_latest(verdict, "latest_seconds", after)
        restarted = (accepted - healthy).total_seconds() if accepted else 0.0
        note_latest(verdict, "latest_after_restart_seconds", min(after, restarted))
    verdict.kills = len(world.kills) - first_kill
    return verdict
