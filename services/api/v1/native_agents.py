"""Agents of the native API: by name or id in a path, and their documents."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import error_bodies
from services.api.adapters.resource_query_builder import Filter, Resource, Slice, filter_of
from services.api.http.callers import org_of
from services.api.http.encoded_slashes import segment
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, Query

IDS_SHOWN_MAX = 10
NAME_SEGMENT = 2  # of /agents/{name}
ID = "to_json(v.id)"


async def ids_named(request: AnyRequest, agents: Resource, name: str) -> list[str]:
    """The ids of the agents of that name, the oldest first; a few of them."""
    found = filter_of(Query(), org_of(request)).add("v.name = %(agent_name)s", agent_name=name)
    part = Slice(limit=IDS_SHOWN_MAX + 1, order="asc")
    ids: list[str] = from_json(await api_of(request).reads.page(agents, found, part, document=ID))
    return ids


async def named_agent(request: AnyRequest, agents: Resource) -> str:
    """The id of the agent that the path names by its id, or by its name. Raises the 404 where
    there is none, and the 409 where several have the name."""
    named = segment(request, NAME_SEGMENT)
    is_id = error_bodies.check_id("agent", named) is None
    if is_id and await api_of(request).reads.exists(agents, org_of(request), named):
        return named
    ids = await ids_named(request, agents, named)
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise ambiguity(named, ids)
    if is_id:
        raise Problem(404, error_bodies.not_found("agent", named))
    detail = f"There is no agent '{named}': give the id of an agent, or its whole name"
    raise Problem(404, {"detail": detail})


def ambiguity(name: str, ids: list[str]) -> Problem:
    """The 409 for a name that several agents have."""
    shown = ids[:IDS_SHOWN_MAX]
    more = " and others" if len(ids) > IDS_SHOWN_MAX else ""
    detail = f"Several agents are called '{name}': say which by its id ({', '.join(shown)}{more})"
    return Problem(409, {"detail": detail, "ids": [*shown]}, {"x-should-retry": "false"})


def name_conflict(name: str, ids: list[str]) -> Problem:
    """The 409 for a name that an agent has already."""
    shown = ids[:IDS_SHOWN_MAX]
    detail = (
        f"There is an agent '{name}' already ({', '.join(shown)}): choose another name, change it"
        f" with PATCH /v1/agents/{shown[0]}, or delete it first"
    )
    return Problem(409, {"detail": detail, "ids": [*shown]}, {"x-should-retry": "false"})


def agents_filter(request: AnyRequest, asked: Query) -> Filter:
    """The agents that a client asks for, without the hidden ones."""
    return filter_of(asked, org_of(request)).add("not v.hidden")


def native_document(agent: dict[str, Any]) -> JsonObject:
    """An agent of V1 under the names that its file has."""
    return {
        "id": agent["id"],
        "name": agent["name"],
        "description": agent["description"],
        "agent_type": agent["agent_type"],
        "system_prompt": agent["system"],
        "model": agent["model"],
        "context_window": (agent.get("llm_config") or {}).get("context_window"),
        "embedding": agent["embedding"],
        "tags": agent["tags"],
        "timezone": agent["timezone"],
        "tools": sorted(tool["name"] for tool in agent["tools"]),
        "memory": [memory_document(block) for block in agent["blocks"]],
        "metadata": agent["metadata"] or {},
        "created_at": agent["created_at"],
        "updated_at": agent["updated_at"],
    }


def memory_document(block: dict[str, Any]) -> JsonObject:
    """A memory block under the names that it has in the file of an agent."""
    names = ("id", "label", "value", "description", "limit", "read_only", "metadata")
    return {name: block[name] for name in names}
