"""Requests of plans with the ids of what they name, as they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from libs.agent_document.desired import Json
from libs.agent_document.requests import Ids, Ref, Request

# The fields of bodies that have ids in them.
OF_IDS = frozenset(
    {"agent_id", "agent_ids", "block_ids", "folder_ids", "manager_agent_id", "tool_ids"}
)


class UnknownRef(LookupError):
    """A thing that a request names is not there."""


def path_of(request: Request, ids: Ids) -> str:
    """The path of a request, percent-encoded. Raises UnknownRef."""
    segments = (
        id_of(segment, ids) if isinstance(segment, Ref) else segment for segment in request.path
    )
    return "/".join(each if "/" in each else quote(each, safe="") for each in segments)


def body_of(body: Json, ids: Ids) -> Json:
    """A body with the ids of what it names. Raises UnknownRef."""
    if not isinstance(body, dict):
        return body
    return {
        name: with_ids(value, ids)
        if name in OF_IDS
        else body_of(value, ids)
        if name == "manager_config"
        else value
        for name, value in body.items()
    }


def with_ids(value: Json, ids: Ids) -> Json:
    """An id, or a list of ids; what is neither is sent as it is, and the API says what is wrong
    with it. Raises UnknownRef."""
    if isinstance(value, list | tuple):
        found = [each for inner in value for each in _listed(inner, ids)]
        return [*dict.fromkeys(found)] if all(isinstance(each, str) for each in found) else found
    ref = as_ref(value)
    return value if ref is None else id_of(ref, ids)


def as_ref(value: Json) -> Ref | None:
    """The ref that a value of a body is, also one that was kept as JSON."""
    match value:
        case Ref():
            return value
        case {"kind": str(kind), "name": str(name)} if len(value) == len(Ref.model_fields):
            return Ref(kind=kind, name=name)
    return None


def _listed(value: Json, ids: Ids) -> Iterable[Json]:
    ref = as_ref(value)
    if ref is None:
        return [value]
    if ref.kind != "mcp_tools":
        return [id_of(ref, ids)]
    prefix = f"{ref.name}/"  # all that the server has by now
    return [ids[each] for each in ids if each.kind == "mcp_tool" and each.name.startswith(prefix)]


def id_of(ref: Ref, ids: Ids) -> str:
    """The id of what there is by now. Raises UnknownRef."""
    if ref not in ids:
        raise UnknownRef(f"There is no {ref}")
    return ids[ref]


def mcp_servers_named(request: Request) -> set[str]:
    """The MCP servers whose tools a request names."""
    body = request.body if isinstance(request.body, dict) else {}
    named = body.get("tool_ids")
    refs = map(as_ref, named) if isinstance(named, list | tuple) else ()
    return {ref.name.partition("/")[0] for ref in refs if ref and ref.kind.startswith("mcp_tool")}
