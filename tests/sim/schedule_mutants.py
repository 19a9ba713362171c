"""Planted bugs about schedules: slots that are fired early, twice or never."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from libs.contracts.deterministic_ids import derived_id
from services.scheduler.domain import schedule
from services.scheduler.engine.actions import Actions
from services.scheduler.engine.firings import Firings
from tests.sim.mutants import Patch, mutant
from tests.sim.processes import me


@mutant("The clock of a process decides which slots have come.")
def slots_by_own_clock() -> list[Patch]:
    real = Firings.due

    async def due(firings: Firings) -> Any:
        now = firings.ports.clock.now()
        return [replace(found, now=now) for found in await real(firings)]

    return [(Firings, "due", due)]


@mutant("The run of a firing has another id for each process that starts it.")
def firing_starts_another_run() -> list[Patch]:
    real = Actions.start

    async def start(actions: Actions, attempt: Any) -> Any:
        run_id = derived_id("run", attempt.firing.run_id, me().holder)
        firing = attempt.firing.model_copy(update={"run_id": run_id})
        return await real(actions, replace(attempt, firing=firing))

    return [(Actions, "start", start)]


@mutant("A firing whose start got lost is not started again.")
def lost_start_stays_lost() -> list[Patch]:
    real = Firings.look_at

    async def look_at(firings: Firings, lease: Any, firing_id: str, firing: Any, found: Any) -> Any:
        if firing.retry_at is not None or (found and found.progress != "missing"):
            await real(firings, lease, firing_id, firing, found)

    return [(Firings, "look_at", look_at)]


@mutant("A slot that was missed counts as fired, also where all are to be.")
def missed_slots_are_lost() -> list[Patch]:
    real = schedule.select_slots

    def select_slots(config: Any, next_at: Any, now: Any) -> Any:
        due = real(config, next_at, now)
        return replace(due, fired=due.fired[-1:])

    return [(schedule, "select_slots", select_slots)]
