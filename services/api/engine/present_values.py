"""Present values of an update's fields: no change of somebody else is overwritten."""

from __future__ import annotations

from collections.abc import Mapping

from libs.agent_document.desired import Json
from libs.agent_document.differences import FIELDS, is_within
from libs.agent_document.plan_agent import AGENTS_PATH, present_fields
from libs.agent_document.plan_blocks import BLOCKS_PATH
from libs.agent_document.plan_groups import GROUPS_PATH
from libs.agent_document.plan_parts import Document
from libs.agent_document.plan_resources import MCP_PATH
from libs.agent_document.requests import Ids, Ref, Request
from services.api.engine.fleet_api import SHOWN, FleetApi, document_at
from services.api.engine.requests_with_ids import body_of, id_of, path_of

OBJECTS = ("config", "manager_config")  # of MCP servers and groups, whose documents are flat


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


async def changed_since(api: FleetApi, step: Request, ids: Ids) -> set[str]:
    """The fields of an update that was sent whose values are others by now, of an agent, a block,
    an MCP server or a group. Raises Refused, UnknownRef and ApiAway."""
    sent = body_of(step.body, ids)
    if len(step.path) != 2 or step.path[0] not in (MCP_PATH, GROUPS_PATH):
        now = await present_values(api, step, ids)
        return {name for name, value in now.items() if not is_same(name, sent[name], value)}
    there = await document_at(api, path_of(step, ids))
    return {name for name, value in sent.items() if not _has(there or {}, name, value)}


def _has(there: Document, name: str, sent: Json) -> bool:
    if name in OBJECTS:
        return all(_has(there, inner, value) for inner, value in sent.items())
    present = there.get(name)
    return (sent or None) == (present or None) or is_within(sent, present)


async def mcp_tools_of(api: FleetApi, server: str, ids: Ids) -> Ids:
    """The ids of the tools that an MCP server has by now. Raises Refused, UnknownRef and
    ApiAway."""
    server_id = id_of(Ref(kind="mcp_server", name=server), ids)
    tools = await api.get(f"{MCP_PATH}/{server_id}/tools")
    return {
        Ref(kind="mcp_tool", name=f"{server}/{tool['name']}"): str(tool["id"]) for tool in tools
    }


def is_same(name: str, wanted: Json, present: Json) -> bool:
    """Whether a field has a value that was, or is to be, sent."""
    if name.endswith("_ids"):
        return set(wanted or []) == set(present or [])
    field = FIELDS.get(name)
    if field is None or wanted is None:
        return bool(wanted == present)
    normal = field.normal(wanted)
    return is_within(normal, present) if field.merges else normal == present
