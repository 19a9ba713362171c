"""What the fields of an update are now: nothing is overwritten that somebody has changed."""

from __future__ import annotations

from collections.abc import Mapping

from libs.agent_document.desired import Json
from libs.agent_document.differences import FIELDS, is_within
from libs.agent_document.plan_agent import AGENTS_PATH, present_fields
from libs.agent_document.plan_blocks import BLOCKS_PATH
from libs.agent_document.requests import Request
from services.api.engine.fleet_api import SHOWN, FleetApi, document_at
from services.api.engine.requests_with_ids import Ids, body_of, path_of


async def present_values(api: FleetApi, step: Request, ids: Ids) -> Mapping[str, Json]:
    """The values that the fields of an update of an agent or a block have now; nothing of other
    requests, and None for what is gone. Raises Refused, UnknownRef and ApiAway."""
    is_agent, is_block = (step.path[0] == path.rstrip("/") for path in (AGENTS_PATH, BLOCKS_PATH))
    if step.method != "PATCH" or len(step.path) != 2 or not (is_agent or is_block):
        return {}
    shown = {"include": SHOWN} if is_agent else {}
    there = await document_at(api, path_of(step, ids), **shown)
    present = present_fields(there) if is_agent and there else there or {}
    return {name: present.get(name) for name in body_of(step.body, ids)}


def is_same(name: str, wanted: Json, present: Json) -> bool:
    """Whether a field has a value that was, or is to be, sent."""
    if name.endswith("_ids"):
        return set(wanted or []) == set(present or [])
    field = FIELDS.get(name)
    if field is None or wanted is None:
        return bool(wanted == present)
    normal = field.normal(wanted)
    return is_within(normal, present) if field.merges else normal == present
