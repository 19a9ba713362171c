"""Planted bugs about the runs of groups: hops that are answered twice, or never."""

from __future__ import annotations

import asyncio
from typing import Any

from libs.contracts.deterministic_ids import derived_id
from services.groups.engine.group_runs import GroupAttempt
from services.groups.engine.member_runs import MemberRuns
from tests.sim.mutants import Patch, mutant
from tests.sim.processes import me


@mutant("The run of a hop has another id for each process that asks the member.")
def hop_starts_another_run() -> list[Patch]:
    real = MemberRuns.outcome

    async def outcome(hops: MemberRuns, scene: Any, hop: Any, context: Any) -> Any:
        run_id = derived_id("run", hop.run_id, me().holder)
        return await real(hops, scene, hop.model_copy(update={"run_id": run_id}), context)

    return [(MemberRuns, "outcome", outcome)]


@mutant("A hop that another attempt has begun is not taken over.")
def begun_hop_is_left() -> list[Patch]:
    real_answer, real_step = GroupAttempt.answer, GroupAttempt.step

    async def step(attempt: GroupAttempt, unit: Any) -> Any:
        decided = await real_step(attempt, unit)
        if "left" not in vars(attempt):
            scene = decided.view
            fresh = {event.member_run_id for event in started(unit)}
            begun = {hop.run_id for hop in scene.run.open_member_runs} if scene else set()
            vars(attempt)["left"] = begun - fresh
        return decided

    async def answer(attempt: GroupAttempt, scene: Any) -> None:
        open_runs = {hop.run_id for hop in scene.run.open_member_runs}
        if open_runs and open_runs <= vars(attempt)["left"]:
            await asyncio.sleep(1.0)
            return
        await real_answer(attempt, scene)

    return [(GroupAttempt, "step", step), (GroupAttempt, "answer", answer)]


def started(unit: Any) -> list[Any]:
    """The hops that a decision has begun and not committed yet."""
    return [
        event
        for aggregate in unit.loaded.values()
        for event in aggregate.pending_events
        if event.topic == "group_hop.started"
    ]
