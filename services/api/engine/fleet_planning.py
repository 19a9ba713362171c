"""Plans of fleets: made from what files want and what there is, and made again before they are
applied, so that what has changed since is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from libs.agent_document.plan import plan_fleet
from libs.agent_document.plan_parts import FleetPlan, Wanted
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Rejected
from services.api.adapters.agents.fleet_queries import FleetQueries, StoredPlan, name_of
from services.api.engine.fleet_api import FleetApi, ids_of, read_state
from services.api.engine.fleet_undo import plan_undo

SHOWN_MAX = 10


@dataclass(frozen=True)
class FleetPlanner:
    """Plans for one fleet, with the API in the name of who asks. Its methods raise Refused and
    ApiAway where the API cannot be read.

    Args:
        origin: where the fleet was made from, in words.
    """

    queries: FleetQueries
    api: FleetApi
    org: str
    fleet_id: str
    origin: str

    async def plan(self, plan_id: str, wanted: Wanted) -> StoredPlan:
        """The plan that makes the server as files want it."""
        state = await read_state(self.api, self.queries, self.org, self.fleet_id, wanted)
        plan = await asyncio.to_thread(plan_fleet, wanted, state, self.origin)
        ids = {name_of(ref): thing_id for ref, thing_id in ids_of(state).items()}
        ids |= {f"agent {unit.key}": unit.id for unit in plan.agents() if unit.id is not None}
        return StoredPlan(id=plan_id, fleet_id=self.fleet_id, wanted=wanted, plan=plan, ids=ids)

    async def undo(self, plan_id: str, apply_id: str) -> StoredPlan | Rejected:
        """The plan that takes an apply back."""
        known = await self.queries.apply(self.org, apply_id)
        if known is None or known.fleet_id != self.fleet_id:
            reason = f"Fleet {self.fleet_id} has no apply {apply_id}"
            return Rejected(code=NOT_FOUND, reason=reason)
        if known.status == "running":
            reason = f"Apply {apply_id} is under way: wait for its end"
            return Rejected(code=CONFLICT, reason=reason)
        if known.undoes is not None:
            reason = f"Apply {apply_id} took another one back: apply the files again instead"
            return Rejected(code=CONFLICT, reason=reason)
        stored = await self.queries.plan(self.org, known.plan_id)
        if stored is None:
            reason = f"Apply {apply_id} is older than 30 days: what it changed is not kept any more"
            return Rejected(code=CONFLICT, reason=reason)
        ended = await self.queries.ended_units(self.org, apply_id)
        members = await self.queries.members(self.org, self.fleet_id)
        plan = await plan_undo(self.api, stored, ended, members)
        return StoredPlan(
            id=plan_id,
            fleet_id=self.fleet_id,
            wanted=Wanted(),
            plan=plan,
            ids={**stored.ids, **{name: i for unit in ended for name, i in unit.ids.items()}},
            undoes=apply_id,
        )

    async def to_apply(self, plan_id: str) -> StoredPlan | Rejected:
        """A plan that is kept, if it can be applied and would be the same now."""
        stored = await self.queries.plan(self.org, plan_id)
        if stored is None or stored.fleet_id != self.fleet_id:
            reason = f"Fleet {self.fleet_id} has no plan {plan_id}: plans are kept for a day"
            return Rejected(code=NOT_FOUND, reason=reason)
        if stored.plan.problem:
            return Rejected(code=UNPROCESSABLE, reason=stored.plan.problem)
        unset = [f"{unit}: {', '.join(unit.unset)}" for unit in stored.plan.units if unit.unset]
        if unset:
            reason = f"These secrets were not set where the plan was made: {'; '.join(unset)}"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        if stored.undoes is not None:
            now = await self.undo(plan_id, stored.undoes)
        else:
            now = await self.plan(plan_id, stored.wanted)
        if isinstance(now, Rejected):
            return now
        changed = [*differing(stored.plan, now.plan)]
        if changed:
            names = ", ".join(changed[:SHOWN_MAX])
            reason = f"{names} changed since plan {plan_id} was made: plan again"
            return Rejected(code=CONFLICT, reason=reason)
        return stored


def to_do(stored: StoredPlan) -> StoredPlan:
    """A plan without the units that nothing is to be done for: as it is kept."""
    units = [unit for unit in stored.plan.units if unit.is_to_do]
    return stored.model_copy(update={"plan": stored.plan.model_copy(update={"units": units})})


def differing(planned_before: FleetPlan, planned_now: FleetPlan) -> Iterator[str]:
    """The things for which a plan would not be the same now."""
    before = {(unit.kind, unit.key): unit for unit in planned_before.units if unit.is_to_do}
    now = {(unit.kind, unit.key): unit for unit in planned_now.units if unit.is_to_do}
    for key in before | now:
        first, second = before.get(key), now.get(key)
        if first is None or second is None or first.sign != second.sign:
            yield str(first or second)
