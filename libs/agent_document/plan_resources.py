"""Plans of things that agents share: own tools, MCP servers, blocks. Their fleet owns them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from libs.agent_document.desired import (
    MCP_SECRETS,
    UNSET,
    Block,
    DesiredAgent,
    Json,
    McpServer,
    OwnTool,
    digest,
    without_blanks,
)
from libs.agent_document.differences import Change, is_within
from libs.agent_document.plan_blocks import BLOCKS_PATH, new_block, plan_value
from libs.agent_document.plan_parts import (
    Applied,
    Document,
    FleetState,
    Kind,
    Unit,
    Wanted,
    some_of,
)
from libs.agent_document.requests import Ref, Request, creation, patch

MCP_PATH, TOOLS_PATH = "/v1/mcp-servers", "/v1/tools"

type Thing = OwnTool | McpServer | Block

THINGS: Mapping[Kind, Callable[[DesiredAgent], Iterable[Thing]]] = {
    "tool": lambda agent: agent.own_tools,
    "mcp_server": lambda agent: agent.mcp_servers,
    "shared_block": lambda agent: agent.shared_blocks,
}


def plan_resources(
    desired: Sequence[DesiredAgent],
    agents: Mapping[str, Document],
    state: FleetState,
    wanted: Wanted,
) -> list[Unit]:
    """The units of these things, in the order in which they are sent. `agents` are those that are
    there, by their keys."""
    tools = _tools_of_servers(desired)
    units = []
    for unit, thing in _things(desired):
        match thing:
            case OwnTool():
                _plan_tool(unit, thing, state.tools.get(unit.name))
            case McpServer():
                known = state.mcp_tools.get(unit.name, {}).keys()
                missing = None if known and not tools[unit.name] - known else tools[unit.name]
                _plan_server(unit, thing, state.mcp_servers.get(unit.name), missing)
            case Block():
                there = state.shared_blocks.get(unit.name) or _shared(unit, agents, state)
                _plan_block(unit, thing, there, state, wanted)
        _keep_to_owners(unit, state, wanted)
        units.append(unit)
    return units


def find_conflicts(desired: Sequence[DesiredAgent]) -> dict[str, str]:
    """The keys of agents whose files describe something otherwise than others do, with what that
    is."""
    return {
        key: problem
        for unit, _ in _things(desired)
        for problem in unit.problems
        for key in unit.users
    }


def _things(desired: Sequence[DesiredAgent]) -> Iterator[tuple[Unit, Thing | None]]:
    """A unit for each thing; one that two files describe differently is refused."""
    for kind, things_of in THINGS.items():
        found: dict[str, dict[str, tuple[Thing, list[DesiredAgent]]]] = {}
        for agent in desired:
            for thing in things_of(agent):
                versions = found.setdefault(_name(thing), {})
                versions.setdefault(_meaning(thing), (thing, []))[1].append(agent)
        for name, versions in found.items():
            users = [agent.key for _, agents in versions.values() for agent in agents]
            unit = Unit(kind=kind, key=name, name=name, users=users)
            if len(versions) == 1:
                yield unit, next(iter(versions.values()))[0]
                continue
            files = some_of([agents[0].file for _, agents in versions.values()])
            unit.refuse(
                f"{unit}: {files} describe it differently, and there is one for all: say the same"
                " in each, or give it another name"
            )
            yield unit, None


def _name(thing: Thing) -> str:
    return thing.label if isinstance(thing, Block) else thing.name


def _meaning(thing: Thing) -> str:
    """The fields that all files have to agree on; the tools that an agent has may differ."""
    match thing:
        case McpServer():
            return digest(thing.config)
        case Block():
            return digest([thing.value, thing.fields(), thing.metadata])
        case OwnTool():
            return digest([thing.source_code, thing.fields])


def _keep_to_owners(unit: Unit, state: FleetState, wanted: Wanted) -> None:
    """A thing of others is changed where that is asked for, and becomes this fleet's then."""
    if unit.id is None or unit.problems or state.is_ours(unit.id):
        return
    if wanted.adopt:
        unit.action = "change"
        unit.applied = unit.applied or Applied()
        unit.changes.append(state.adoption(unit.id))
    elif unit.changes and unit.changes[0].field != "tools":
        unit.refuse(
            f"{unit} ({unit.id}) is on the server with other content, and"
            f" {state.why_not_ours(unit.id)}: give yours another name, or take it over with --adopt"
        )
    else:
        unit.applied = None  # it is used as it is
        unit.action = "change" if unit.steps else "unchanged"


def _plan_tool(unit: Unit, tool: OwnTool, there: Document | None) -> None:
    body: dict[str, Json] = {"source_code": tool.source_code, **tool.fields}
    if there is None:
        ref = Ref(kind="tool", name=tool.name)
        unit.action, unit.applied = "create", Applied()
        unit.change(
            Change(field="source_code", after=tool.source_code),
            creation((f"{TOOLS_PATH}/",), body, ref, "PUT"),
        )
        return
    unit.id = str(there["id"])
    if there.get("tool_type") != "custom":
        unit.refuse(f"{unit}: the server has a tool of that name of its own: give this one another")
        return
    changed = [name for name, value in body.items() if not tool_has(there, name, value)]
    if changed:
        tags = sorted({*(there.get("tags") or ()), *(tool.fields.get("tags") or ())})
        before = {name: there.get(name) for name in body}
        undo = Request(method="PUT", path=(f"{TOOLS_PATH}/",), body=before)
        sent = {**body, "tags": tags} if tags else body
        unit.action, unit.applied = "change", Applied()
        unit.changes = [
            Change(field=name, before=there.get(name), after=body[name]) for name in changed
        ]
        unit.steps = [Request(method="PUT", path=(f"{TOOLS_PATH}/",), body=sent, undo=undo)]


def tool_has(there: Document, name: str, value: Json) -> bool:
    """Whether a field of a tool has a value that was, or is to be, sent."""
    if name == "tags":
        return set(value) <= set(there.get("tags") or [])
    if name in ("pip_requirements", "npm_requirements"):
        return [*map(without_blanks, there.get(name) or [])] == [*map(without_blanks, value)]
    return bool(there.get(name) == value)


def _tools_of_servers(desired: Iterable[DesiredAgent]) -> dict[str, set[str]]:
    """The tools of MCP servers that agents name."""
    tools: dict[str, set[str]] = {}
    for agent in desired:
        for server in agent.mcp_servers:
            tools.setdefault(server.name, set()).update(server.tools or ())
    return tools


def _plan_server(
    unit: Unit, server: McpServer, there: Document | None, missing: set[str] | None
) -> None:
    """`missing` are tools that it is not known to have; None: it is known what it has."""
    unit.unset = _unset(server.config)
    ref = Ref(kind="mcp_server", name=server.name)
    if there is None:
        body = {"server_name": server.name, "config": server.config}
        address = server.config.get("server_url") or server.config.get("command")
        unit.action, unit.applied = "create", Applied()
        unit.change(
            Change(field="address", after=str(address)),
            creation((f"{MCP_PATH}/",), body, ref),
            Request(method="PATCH", path=(MCP_PATH, ref, "refresh")),
        )
        return
    unit.id = str(there["id"])
    path = (MCP_PATH, unit.id)
    config = {name: value for name, value in server.config.items() if not _unset(value)}
    if len(config) < len(server.config):
        unit.unset = []  # what it has is kept
    changed = {
        name: value
        for name, value in config.items()
        if (value or there.get(name)) and not is_within(value, there.get(name))
    }
    if changed:
        kind = {"mcp_server_type": server.config["mcp_server_type"]}
        before = {name: there.get(name) for name in changed}
        unit.changes = [
            Change.of_secret(name, there.get(name), value)
            if name in MCP_SECRETS
            else Change(field=name, before=there.get(name), after=value)
            for name, value in changed.items()
        ]
        both = {"config": {**kind, **changed}}, {"config": {**kind, **before}}
        unit.steps = [patch(path, *both)]
    if changed or missing is not None:
        unit.action, unit.applied = "change", Applied()
        unit.steps.append(Request(method="PATCH", path=(*path, "refresh")))
    if not changed and missing is not None:
        unit.changes = [Change(field="tools", after=sorted(missing))]


def _unset(value: Any) -> list[str]:
    """Which secrets of a configuration are not known here."""
    if isinstance(value, Mapping):
        return [name for name, inner in value.items() if _unset(inner)]
    return ["it"] if isinstance(value, str) and UNSET in value else []


def _shared(unit: Unit, agents: Mapping[str, Document], state: FleetState) -> Document | None:
    """The block of that label that all its users share already, as agents of another fleet."""
    blocks = {
        block["id"]: block
        for key in unit.users
        for block in agents.get(key, {}).get("blocks") or []
        if block["label"] == unit.name and block["id"] in state.shared_ids
    }
    is_of_all = len(blocks) == 1 and all(key in agents for key in unit.users)
    return next(iter(blocks.values())) if is_of_all else None


def _plan_block(
    unit: Unit, block: Block, there: Document | None, state: FleetState, wanted: Wanted
) -> None:
    unit.applied = applied = Applied(blocks={"value": digest(block.value)})
    if there is None:
        ref = Ref(kind="shared_block", name=block.label)
        body = new_block(block)
        unit.action = "create"
        unit.change(Change(field="value", after=block.value), creation((BLOCKS_PATH,), body, ref))
        return
    unit.id = str(there["id"])
    member = state.member("shared_block", block.label)
    known = member.applied if member else Applied()
    resets = block.label in wanted.reset_memory
    plan_value(unit, block, there, known.blocks.get("value"), resets=resets)
    unit.action = "change" if unit.changes or known != applied else "unchanged"
