"""One agent: what differs from its file, and the requests that make it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cli.fleet.desired import DesiredAgent, Json, digest, without_blanks
from cli.fleet.differences import FIELDS, Change, differing_fields
from cli.fleet.mark import MARK, Mark, is_of, mark_for
from cli.fleet.plan_blocks import new_block, plan_blocks
from cli.fleet.plan_groups import plan_withdrawals
from cli.fleet.plan_parts import AgentPlan, Policy, Subject
from cli.fleet.plan_schedules import new_schedules, plan_schedules
from cli.fleet.requests import Ref, Request
from cli.fleet.server_state import ServerState

AGENTS_PATH = "/v1/agents/"
FIELDS_SHOWN_MAX = 5
APPROVAL = "requires_approval"
FILE_TOOLS = "letta_files_core"  # they come and go with folders


def plan_agent(desired: DesiredAgent, state: ServerState, policy: Policy) -> AgentPlan:
    """What becomes of the agent of a file."""
    plan = AgentPlan(name=desired.name, file=desired.file, desired=desired)
    found = state.agents_named(desired.name)
    ours = [agent for agent in found if is_of(policy.fleet, agent)]
    candidates = ours or found
    agent = candidates[0] if candidates else _renamed(desired, state, policy)
    if not ours and len(found) > 1:
        ids = ", ".join(str(agent["id"]) for agent in found)
        plan.refuse(f"{len(found)} agents are called '{desired.name}' ({ids}): rename the others")
        return plan
    for name in desired.tools:
        if name not in state.tools:
            plan.refuse(f"tools: there is no tool named '{name}' on the server")
    for name in desired.folders:
        if name not in state.folders:
            plan.refuse(f"folders: there is no folder named '{name}' on the server")
    if agent is not None:
        plan.agent_id = str(agent["id"])
    if plan.problems:
        return plan
    if agent is None:
        _plan_new(plan, desired, policy, state.default_model)
    else:
        _plan_changes(Subject(desired, agent, state, policy, plan))
    return plan


def _renamed(
    desired: DesiredAgent, state: ServerState, policy: Policy
) -> Mapping[str, Json] | None:
    """The agent of the same file that has an older name, which no file has any more."""
    for agent in state.of_fleet(policy.fleet):
        mark = Mark.of(agent)
        if mark and mark.file == desired.file and agent["name"] not in policy.names:
            return agent
    return None


def _plan_new(
    plan: AgentPlan, desired: DesiredAgent, policy: Policy, default_model: str | None
) -> None:
    plan.action = "create"
    ref = Ref("agent", desired.name)
    mark = mark_for(policy.fleet, desired)
    body: dict[str, Json] = {"name": desired.name, **desired.fields, **desired.creation}
    if "model" not in body and default_model is not None:
        body["model"] = default_model
    body["tool_rules"] = [dict(rule) for rule in desired.rules]
    body["metadata"] = {**desired.metadata, MARK: mark.document()}
    body["memory_blocks"] = [new_block(block, policy.fleet) for block in desired.own_blocks]
    body["block_ids"] = [Ref("shared_block", block.label) for block in desired.shared_blocks]
    body["tools"] = [*desired.tools, *(tool.name for tool in desired.own_tools)]
    body["tool_ids"] = _mcp_refs(desired)
    body["include_base_tools"] = not desired.exact_tools
    if desired.folders:
        body["folder_ids"] = [Ref("folder", name) for name in desired.folders]
    body = {name: value for name, value in body.items() if value != []}
    plan.changes = [Change("name", None, desired.name)]
    plan.requests = [Request(method="POST", path=(AGENTS_PATH,), body=body, creates=ref)]
    by_default = {
        tool.name for tool in desired.own_tools if tool.fields.get("default_requires_approval")
    }
    for tool, wanted in desired.approvals.items():
        if wanted is not (tool in by_default):
            plan.requests.append(_approval(ref, tool, wanted))
    if desired.permissions is not None:
        plan.requests.append(_permissions(ref, desired.permissions))
    plan.requests.extend(new_schedules(ref, desired.schedules))


def _mcp_refs(desired: DesiredAgent) -> list[Ref]:
    refs: list[Ref] = []
    for server in desired.mcp_servers:
        if server.tools is None:
            refs.append(Ref("mcp_tools", server.name))
        else:
            refs.extend(Ref("mcp_tool", f"{server.name}/{tool}") for tool in server.tools)
    return refs


def _approval(agent: str | Ref, tool: str, wanted: bool) -> Request:
    path = ("/v1/agents", agent, "tools/approval", tool)
    return Request(method="PATCH", path=path, body={"requires_approval": wanted})


def _permissions(agent: str | Ref, permissions: Mapping[str, Json] | None) -> Request:
    body = dict(permissions or {"tools": None, "capabilities": None})
    return Request(method="PUT", path=("/v1/agents", agent, "permissions"), body=body)


def _plan_changes(subject: Subject) -> None:
    plan, policy, agent = subject.plan, subject.policy, subject.agent
    mark = Mark.of(agent)
    is_ours = is_of(policy.fleet, agent)
    before = mark if mark is not None and is_ours else _blank(subject)
    body = _changed_fields(subject, before)
    body |= _changed_rules(subject, before)
    body |= _changed_tools(subject, before)
    body |= _changed_folders(subject, before)
    if plan.problems:
        return
    wanted = mark_for(policy.fleet, subject.desired)
    plan_blocks(subject, is_ours=is_ours or policy.adopt)
    _plan_approvals(subject)
    _plan_permissions(subject, before)
    plan_schedules(subject, before)
    plan_withdrawals(subject, before)
    if (is_ours or policy.adopt) and mark != wanted and not plan.changes:
        plan.changes.append(_change_of_mark(before, wanted))
    if not plan.changes:
        return
    if not is_ours and not policy.adopt:
        _refuse_others(plan, mark)
        return
    plan.action = "change"
    plan.requests = [*_with_marks(subject, before, wanted, body)]


def _refuse_others(plan: AgentPlan, mark: Mark | None) -> None:
    owner = f"belongs to the fleet '{mark.fleet}'" if mark else "was not made by this command"
    fields = ", ".join(change.field for change in plan.changes[:FIELDS_SHOWN_MAX])
    plan.changes.clear()
    plan.requests.clear()
    plan.refuse(
        f"the agent '{plan.name}' ({plan.agent_id}) {owner}, and differs from the file in {fields}:"
        " take it over with --adopt"
    )


def _with_marks(
    subject: Subject, before: Mark, wanted: Mark, body: dict[str, Json]
) -> Iterator[Request]:
    """All requests in order. What is taken away stays in the mark until it is gone, so that a
    command that ends in between has it taken away by the next."""
    during = wanted
    if subject.cleanups:
        during = replace(
            wanted,
            schedules=tuple(sorted({*wanted.schedules, *before.schedules})),
            groups=tuple(sorted({*wanted.groups, *before.groups})),
            permissions=wanted.permissions or before.permissions,
        )
    path = ("/v1/agents", subject.agent_id)
    metadata: dict[str, Json] = body.get("metadata") or subject.agent.get("metadata") or {}
    if body or Mark.of(subject.agent) != during:
        marked = {**metadata, MARK: during.document()}
        yield Request(method="PATCH", path=path, body={**body, "metadata": marked})
    yield from subject.plan.requests
    yield from subject.cleanups
    if during != wanted:
        marked = {**metadata, MARK: wanted.document()}
        yield Request(method="PATCH", path=path, body={"metadata": marked})


def _blank(subject: Subject) -> Mark:
    """The mark of an agent that this fleet has not managed before."""
    return Mark(fleet=subject.policy.fleet, file="", name=subject.desired.name)


def _change_of_mark(before: Mark, wanted: Mark) -> Change:
    if before.file != wanted.file:
        return Change("file", before.file, wanted.file)
    return Change("fingerprint", before.fingerprint, wanted.fingerprint)


def _changed_fields(subject: Subject, before: Mark) -> dict[str, Json]:
    desired, agent, plan = subject.desired, subject.agent, subject.plan
    body: dict[str, Json] = {}
    wanted = {"name": desired.name, **desired.fields}
    for change, value in differing_fields(agent, wanted, before.fields):
        if FIELDS[change.field].created_only:
            plan.refuse(
                f"{change.field}: '{change.before}' cannot become '{change.after}': agents keep"
                " it; delete the agent, or give this one another name"
            )
            continue
        plan.changes.append(change)
        body[change.field] = value
    there = agent.get("metadata") or {}
    gone = [name for name in before.metadata if name in there and name not in desired.metadata]
    metadata = {name: value for name, value in there.items() if name not in gone}
    metadata |= desired.metadata
    if metadata != there:
        for name in sorted({*gone, *desired.metadata}):
            if there.get(name) != metadata.get(name):
                plan.changes.append(Change(f"metadata.{name}", there.get(name), metadata.get(name)))
        body["metadata"] = metadata
    return body


def _changed_rules(subject: Subject, before: Mark) -> dict[str, Json]:
    """The tool rules that come and go. Those that wait for approvals come and go with tools."""
    there = subject.agent.get("tool_rules") or []
    plain = [without_blanks(rule) for rule in there]
    wanted = [dict(rule) for rule in subject.desired.rules]
    gone = [
        rule
        for rule in plain
        if rule["type"] != APPROVAL
        and rule not in wanted
        and (subject.desired.exact_rules or digest(rule) in before.rules)
    ]
    new = [rule for rule in wanted if rule not in plain]
    if not gone and not new:
        return {}
    kept = [rule for rule in there if without_blanks(rule) not in gone]
    subject.plan.changes.append(Change("tool_rules", gone, new))
    return {"tool_rules": [*kept, *new]}


def _changed_tools(subject: Subject, before: Mark) -> dict[str, Json]:
    """The tools that come and go, as the `tool_ids` of an update."""
    desired = subject.desired
    attached = {tool["name"]: tool for tool in subject.agent.get("tools") or []}
    wanted = {**dict.fromkeys(desired.tools), **dict.fromkeys(t.name for t in desired.own_tools)}
    refs: dict[str, Any] = {name: Ref("tool", name) for name in wanted} | _wanted_of_mcp(subject)
    gone = set(_gone_tools(subject, before, attached, refs))
    new = {name: ref for name, ref in refs.items() if name not in attached}
    if not gone and not new:
        return {}
    for name in sorted(gone):
        subject.plan.changes.append(Change(f"tools.{name}", name, None))
    for name in sorted(new):
        subject.plan.changes.append(Change(f"tools.{name}", None, name))
    kept = [tool["id"] for name, tool in attached.items() if name not in gone]
    return {"tool_ids": [*kept, *new.values()]}


def _wanted_of_mcp(subject: Subject) -> dict[str, Ref]:
    """Refs of tools of MCP servers by name; of a server that is new all together."""
    refs: dict[str, Ref] = {}
    for server in subject.desired.mcp_servers:
        known = subject.state.mcp_tools.get(server.name)
        names = server.tools if server.tools is not None else known
        if names is None:
            refs[f"all of {server.name}"] = Ref("mcp_tools", server.name)
        else:
            refs |= {name: Ref("mcp_tool", f"{server.name}/{name}") for name in names}
    return refs


def _gone_tools(
    subject: Subject,
    before: Mark,
    attached: Mapping[str, Mapping[str, Json]],
    wanted: Mapping[str, Ref],
) -> Iterator[str]:
    servers = {*before.mcp_servers, *(server.name for server in subject.desired.mcp_servers)}
    tags = {f"mcp:{name}" for name in servers}
    for name, tool in attached.items():
        if name in wanted or tool.get("tool_type") == FILE_TOOLS:
            continue
        of_mcp = tags.intersection(tool.get("tags") or [])
        if subject.desired.exact_tools or name in before.tools or of_mcp:
            yield name


def _changed_folders(subject: Subject, before: Mark) -> dict[str, Json]:
    attached = {folder["name"]: folder["id"] for folder in subject.agent.get("sources") or []}
    wanted = subject.desired.folders
    gone = [name for name in before.folders if name in attached and name not in wanted]
    new = [name for name in wanted if name not in attached]
    if not gone and not new:
        return {}
    for name in gone:
        subject.plan.changes.append(Change(f"folders.{name}", name, None))
    for name in new:
        subject.plan.changes.append(Change(f"folders.{name}", None, name))
    kept = [folder for name, folder in attached.items() if name not in gone]
    return {"folder_ids": [*kept, *(Ref("folder", name) for name in new)]}


def _plan_approvals(subject: Subject) -> None:
    rules = subject.agent.get("tool_rules") or []
    waits = {rule["tool_name"] for rule in rules if rule.get("type") == APPROVAL}
    attached = {tool["name"] for tool in subject.agent.get("tools") or []}
    for tool, wanted in subject.desired.approvals.items():
        is_waiting = tool in waits
        if wanted != is_waiting and (wanted or tool in attached):
            subject.change(
                Change(f"tools.{tool}.requires_approval", is_waiting, wanted),
                _approval(subject.agent_id, tool, wanted),
            )


def _plan_permissions(subject: Subject, before: Mark) -> None:
    wanted = subject.desired.permissions
    if wanted is None and not before.permissions:
        return
    none: Mapping[str, Json] = {"tools": None, "capabilities": None}
    there = subject.state.permissions.get(subject.agent_id, none)
    asked = {**none, **(wanted or {})}
    if any(_as_set(asked[name]) != _as_set(there.get(name)) for name in none):
        subject.plan.changes.append(Change("permissions", dict(there), asked))
        requests = subject.plan.requests if wanted is not None else subject.cleanups
        requests.append(_permissions(subject.agent_id, asked))


def _as_set(names: Json) -> set[str] | None:
    return None if names is None else set(names)
