"""What several agents may use: own tools, MCP servers, shared blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cli.fleet.desired import Block, DesiredAgent, Json, McpServer, OwnTool, digest, without_blanks
from cli.fleet.differences import Change, is_within
from cli.fleet.mark import Mark, is_of
from cli.fleet.plan_blocks import BLOCKS_PATH, block_changes, new_block, with_mark
from cli.fleet.plan_parts import Policy, ResourcePlan
from cli.fleet.requests import Ref, Request
from cli.fleet.server_state import ServerState, is_shared, shared_block_tag

MCP_SECRETS = frozenset({"auth_token", "custom_headers", "env"})


def plan_resources(
    desired: Sequence[DesiredAgent], state: ServerState, policy: Policy
) -> list[ResourcePlan]:
    """What becomes of them, in the order in which it is sent; those that stay are left out."""
    planners: Mapping[str, Callable[[ResourcePlan, Any], None]] = {
        "tool": _ToolPlanner(state, policy).plan,
        "mcp_server": _McpPlanner(state, policy, desired).plan,
        "shared_block": _BlockPlanner(state, policy).plan,
    }
    planned = [
        plan
        for kind, parts_of in PARTS.items()
        for plan in _planned(kind, desired, parts_of, planners[kind])
    ]
    return [plan for plan in planned if plan.requests or plan.problem]


def find_conflicts(desired: Sequence[DesiredAgent]) -> dict[str, str]:
    """The agents whose files describe something otherwise than others do, with what that is."""
    return {
        user: plan.problem
        for kind, parts_of in PARTS.items()
        for plan in _planned(kind, desired, parts_of, lambda plan, part: None)
        if plan.problem
        for user in plan.users
    }


type Part = OwnTool | McpServer | Block

PARTS: Mapping[str, Callable[[DesiredAgent], Iterable[Part]]] = {
    "tool": lambda agent: agent.own_tools,
    "mcp_server": lambda agent: agent.mcp_servers,
    "shared_block": lambda agent: agent.shared_blocks,
}


def _planned(
    kind: str,
    desired: Sequence[DesiredAgent],
    parts_of: Callable[[DesiredAgent], Iterable[Part]],
    plan_part: Callable[[ResourcePlan, Any], None],
) -> Iterable[ResourcePlan]:
    """A plan for each thing; one that two files describe differently is a problem of both."""
    found: dict[str, dict[str, tuple[Part, list[DesiredAgent]]]] = {}
    for agent in desired:
        for part in parts_of(agent):
            versions = found.setdefault(_name(part), {})
            versions.setdefault(_meaning(part), (part, []))[1].append(agent)
    for name, versions in found.items():
        users = [agent.name for _, agents in versions.values() for agent in agents]
        plan = ResourcePlan(ref=Ref(kind, name), users=users)
        if len(versions) > 1:
            files = ", ".join(agents[0].file for _, agents in versions.values())
            plan.problem = (
                f"{kind.replace('_', ' ')} '{name}': {files} describe it differently, and there is"
                " one for all: say the same in each, or give it another name"
            )
        else:
            plan_part(plan, next(iter(versions.values()))[0])
        yield plan


def _name(part: Part) -> str:
    return part.label if isinstance(part, Block) else part.name


def _meaning(part: Part) -> str:
    """What has to be the same in all files; which of its tools an agent has may differ."""
    match part:
        case McpServer():
            return digest(dict(part.config))
        case Block():
            return digest([part.value, part.fields(), dict(part.metadata)])
        case OwnTool():
            return digest([part.source_code, dict(part.fields)])


class _ToolPlanner:
    def __init__(self, state: ServerState, policy: Policy) -> None:
        self.state = state
        self.policy = policy
        self.tag = shared_block_tag(policy.fleet)

    def plan(self, plan: ResourcePlan, tool: OwnTool) -> None:
        there = self.state.tools.get(tool.name)
        body: dict[str, Json] = {"source_code": tool.source_code, **tool.fields}
        tags = sorted({*(tool.fields.get("tags") or ()), self.tag})
        request = Request(
            method="PUT",
            path=("/v1/tools/",),
            body={**body, "tags": tags},
            creates=None,
        )
        if there is None:
            plan.changes = [Change(f"tool {tool.name}", None, tool.source_code)]
            plan.requests = [request]
            return
        if there.get("tool_type") != "custom":
            plan.problem = (
                f"tool '{tool.name}': the server has a tool of that name of its own: give this one"
                " another"
            )
            return
        changed = [name for name, value in body.items() if not _has(there, name, value)]
        if not changed:
            return
        if self.tag not in (there.get("tags") or []) and not self.policy.adopt:
            plan.problem = (
                f"tool '{tool.name}' ({there['id']}) is on the server with other content, and was"
                " not made by this fleet: give yours another name, or take it over with --adopt"
            )
            return
        plan.changes = [
            Change(f"tool {tool.name}.{name}", there.get(name), body[name]) for name in changed
        ]
        plan.requests = [request]


def _has(there: dict[str, Json] | Json, name: str, value: Json) -> bool:
    if name == "tags":
        return set(value) <= set(there.get("tags") or [])
    if name in ("pip_requirements", "npm_requirements"):
        return [*map(without_blanks, there.get(name) or [])] == [*map(without_blanks, value)]
    return bool(there.get(name) == value)


class _McpPlanner:
    def __init__(self, state: ServerState, policy: Policy, desired: Sequence[DesiredAgent]) -> None:
        self.state = state
        self.policy = policy
        self.tools: dict[str, set[str]] = {}
        for agent in desired:
            for server in agent.mcp_servers:
                self.tools.setdefault(server.name, set()).update(server.tools or ())

    def plan(self, plan: ResourcePlan, server: McpServer) -> None:
        there = self.state.mcp_servers.get(server.name)
        if there is None:
            ref = plan.ref
            body = {"server_name": server.name, "config": dict(server.config)}
            plan.changes = [Change(f"mcp server {server.name}", None, _address(server))]
            plan.requests = [
                Request(method="POST", path=("/v1/mcp-servers/",), body=body, creates=ref),
                Request(method="PATCH", path=("/v1/mcp-servers", ref, "refresh")),
            ]
            return
        changed = {
            name: value
            for name, value in server.config.items()
            if (value or there.get(name)) and not is_within(value, there.get(name))
        }
        path = ("/v1/mcp-servers", str(there["id"]))
        known = self.state.mcp_tools.get(server.name, {}).keys()
        if not changed:
            unknown = self.tools[server.name] - known
            if unknown or not known:
                plan.changes = [Change(f"mcp server {server.name}.tools", None, sorted(unknown))]
                plan.requests = [Request(method="PATCH", path=(*path, "refresh"))]
            return
        if not self._is_ours(server) and not self.policy.adopt:
            plan.problem = (
                f"MCP server '{server.name}' ({there['id']}) is on the server with other content,"
                " and was not made by this fleet: give yours another name, or take it over with"
                " --adopt"
            )
            return
        kind = {"mcp_server_type": server.config["mcp_server_type"]}
        plan.changes = [
            Change(f"mcp server {server.name}.{name}", there.get(name), value, name in MCP_SECRETS)
            for name, value in changed.items()
        ]
        plan.requests = [
            Request(method="PATCH", path=path, body={"config": {**kind, **changed}}),
            Request(method="PATCH", path=(*path, "refresh")),
        ]

    def _is_ours(self, server: McpServer) -> bool:
        marks = [Mark.of(a) for a in self.state.agents.values() if is_of(self.policy.fleet, a)]
        return any(mark and server.name in mark.mcp_servers for mark in marks)


def _address(server: McpServer) -> str:
    return str(server.config.get("server_url") or server.config.get("command"))


class _BlockPlanner:
    def __init__(self, state: ServerState, policy: Policy) -> None:
        self.state = state
        self.policy = policy

    def plan(self, plan: ResourcePlan, block: Block) -> None:
        there = self.state.shared_blocks.get(block.label)
        if there is None and self._is_shared_by_others(plan.users, block.label):
            return
        if there is None:
            body = new_block(block, self.policy.fleet)
            plan.changes = [Change(f"shared memory.{block.label}", None, block.value)]
            plan.requests = [
                Request(method="POST", path=(BLOCKS_PATH,), body=body, creates=plan.ref)
            ]
            return
        changes = block_changes(block, there, self.policy)
        if body := with_mark(changes, block, there, self.policy):
            path = (BLOCKS_PATH.rstrip("/"), str(there["id"]))
            plan.requests = [Request(method="PATCH", path=path, body=body)]
            plan.changes = [
                Change(f"shared memory.{block.label}.{name}", there.get(name), value)
                for name, value in (changes or {"file": block.label}).items()
            ]

    def _is_shared_by_others(self, users: Sequence[str], label: str) -> bool:
        """Whether all these agents share such a block already, as those of another fleet."""
        return all(
            any(
                block["label"] == label and is_shared(block)
                for agent in self.state.agents_named(user)
                for block in agent.get("blocks") or []
            )
            for user in users
        )
