"""Plans of fleets for requests: kept, and as clients read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from libs.agent_document.desired import Json
from libs.agent_document.plan_parts import Unit
from libs.contracts.api.fleets import being_applied
from libs.contracts.bus_messages import CONFLICT, JsonObject, Rejected
from services.api.adapters.agents.fleet_queries import PlanTooLong, StoredPlan
from services.api.adapters.resource_query_builder import Resource
from services.api.engine.fleet_api import ApiAway, Refused
from services.api.http.callers import caller_of, org_of
from services.api.http.error_responses import Problem, refusal_problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest
from services.api.v1.read_model_responses import document_of

if TYPE_CHECKING:
    from services.api.engine.fleet_planning import FleetPlanner

type Planned = Awaitable[StoredPlan | Rejected]

SHOWN = {"kind", "key", "name", "file", "id", "action", "changes", "problems", "notes", "unset"}
COUNTED = {"create": "created", "change": "changed", "delete": "deleted", "unchanged": "unchanged"}


async def planner_of(request: AnyRequest, fleet: Resource, fleet_id: str) -> FleetPlanner:
    """The planner for a fleet in the name of the caller. Raises the 404, and the 409 while the
    fleet is being applied: what is planned then is wrong a moment later."""
    from services.api.engine.fleet_planning import FleetPlanner
    from services.api.http.own_api import OwnApi

    known = from_json(await document_of(request, fleet, fleet_id))
    if (running := known["applying"]) is not None:
        said = (running[name] for name in ("by", "since", "done", "units"))
        reason = being_applied(known["name"], *said)
        raise refusal_problem(Rejected(code=CONFLICT, reason=reason))
    api = OwnApi(request.app, caller_of(request))
    return FleetPlanner(api_of(request).fleets, api, org_of(request), fleet_id, known["origin"])


async def kept_plan(request: AnyRequest, planned: Planned) -> bytes:
    """A plan that is kept from now on, as clients read it. Raises Problem."""
    from services.api.engine.fleet_planning import to_do

    stored = await plan_or_problem(planned)
    shown = plan_document(stored)
    try:
        await api_of(request).fleets.keep_plan(org_of(request), to_do(stored), shown.decode())
    except PlanTooLong as long:
        raise Problem(413, {"detail": str(long)}) from None
    return shown


async def plan_or_problem(planned: Planned) -> StoredPlan:
    """A plan. Raises the problem that says why there is none."""
    try:
        stored = await planned
    except Refused as refused:
        raise Problem(refused.status, {"detail": str(refused)}) from None
    except ApiAway as away:
        raise Problem(503, {"detail": str(away)}, {"Retry-After": "1"}) from None
    if isinstance(stored, Rejected):
        raise refusal_problem(stored)
    return stored


def plan_document(stored: StoredPlan) -> bytes:
    """A plan as clients read it."""
    units = stored.plan.units
    actions = [COUNTED.get(unit.action, "failed") for unit in units if unit.kind == "agent"]
    forgotten = sum(unit.action == "release" for unit in units if unit.kind == "agent")
    counts = Counter(actions)
    counts["failed"] -= forgotten
    document: JsonObject = {
        "id": stored.id,
        "fleet_id": stored.fleet_id,
        "undoes": stored.undoes,
        "problem": stored.plan.problem or None,
        "notes": [*stored.plan.notes],
        "summary": {name: counts[name] for name in (*COUNTED.values(), "failed")},
        "units": [unit_document(unit) for unit in units],
    }
    return to_json(document)


def unit_document(unit: Unit) -> Json:
    """A unit as clients read it, with what happens to it in words."""
    return {
        **unit.model_dump(mode="json", include=SHOWN),
        "words": words_of(unit),
        "is_to_do": unit.is_to_do,
    }


def words_of(unit: Unit) -> list[str]:
    """The actions on a thing, such as create, change, rename, move, adopt, delete."""
    if unit.action in ("unchanged", "refuse"):
        return []
    if unit.action != "change":
        return ["forget" if unit.action == "release" else unit.action]
    fields = {change.field for change in unit.changes}
    special = {"name": "rename", "file": "move"} if unit.kind == "agent" else {}
    special |= {"fleet": "give up" if unit.releases else "adopt"}
    words = [word for field, word in special.items() if field in fields]
    if any(change.overwrites for change in unit.changes):
        words.append("overwrite memory")
    is_more = fields - special.keys() or not words
    return ["change", *words] if is_more else words
