"""One agent: what differs from its file, and the requests that make it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from libs.agent_document.desired import UNSET, DesiredAgent, Json, digest, without_blanks
from libs.agent_document.differences import FIELDS, Change, differing_fields
from libs.agent_document.plan_blocks import new_block, plan_blocks
from libs.agent_document.plan_groups import plan_withdrawals
from libs.agent_document.plan_parts import (
    Applied,
    Document,
    FleetState,
    Member,
    Subject,
    Unit,
    Wanted,
)
from libs.agent_document.plan_schedules import new_schedules, plan_schedules
from libs.agent_document.requests import Ref, Request, creation, patch

AGENTS_PATH = "/v1/agents"
FIELDS_SHOWN_MAX = 5
APPROVAL = "requires_approval"
FILE_TOOLS = "letta_files_core"  # they come and go with folders
NO_LIMIT: Mapping[str, Json] = {"tools": None, "capabilities": None}


def applied_of(desired: DesiredAgent) -> Applied:
    """The fleet's record of an agent whose file is applied."""
    return Applied(
        fingerprint=desired.fingerprint,
        # Of a secret nobody is to find out by trying what it may be.
        fields={
            name: "" if FIELDS[name].secret else digest(value)
            for name, value in desired.fields.items()
        },
        metadata=sorted(desired.metadata),
        rules=sorted(map(digest, desired.rules)),
        tools=sorted({*desired.tools, *(tool.name for tool in desired.own_tools)}),
        mcp_servers=sorted(server.name for server in desired.mcp_servers),
        folders=sorted(desired.folders),
        schedules=sorted(schedule.name for schedule in desired.schedules),
        groups=sorted(membership.group for membership in desired.groups),
        permissions=desired.permissions is not None,
        blocks={block.label: digest(block.value) for block in desired.own_blocks},
        shared_blocks=sorted(block.label for block in desired.shared_blocks),
    )


def unit_of(desired: DesiredAgent) -> Unit:
    """The unit of an agent: nothing to do so far."""
    return Unit(
        kind="agent",
        key=desired.key,
        name=desired.name,
        file=desired.file,
        applied=applied_of(desired),
        report={"fingerprint": desired.fingerprint, "problems": desired.warnings},
    )


def plan_agent(
    unit: Unit,
    desired: DesiredAgent,
    agent: Document | None,
    member: Member | None,
    state: FleetState,
    wanted: Wanted,
) -> None:
    """Plan the agent of a file, which is there or not."""
    for kind, names, known in (
        ("tool", desired.tools, state.tools),
        ("folder", desired.folders, state.folders),
    ):
        for name in names:
            if name not in known:
                unit.refuse(f"{kind}s: there is no {kind} named '{name}' on the server")
    if agent is not None:
        unit.id = str(agent["id"])
    if unit.problems:
        return
    if agent is None:
        _plan_new(unit, desired, state.default_model)
        return
    before = member.applied if member else Applied()
    subject = Subject(desired, agent, before, state, wanted, unit)
    _plan_changes(subject, member)


def _plan_new(unit: Unit, desired: DesiredAgent, default_model: str | None) -> None:
    unit.action = "create"
    unit.unset = [name for name, value in _secrets(desired).items() if UNSET in value]
    ref = Ref(kind="agent", name=desired.key)
    body: dict[str, Json] = {"name": desired.name, **desired.fields, **desired.creation}
    if "model" not in body and default_model is not None:
        body["model"] = default_model
    body["tool_rules"] = desired.rules
    body["metadata"] = desired.metadata
    body["memory_blocks"] = [new_block(block) for block in desired.own_blocks]
    body["block_ids"] = [
        Ref(kind="shared_block", name=block.label) for block in desired.shared_blocks
    ]
    body["tools"] = [*desired.tools, *(tool.name for tool in desired.own_tools)]
    body["tool_ids"] = _mcp_refs(desired)
    body["include_base_tools"] = not desired.exact_tools
    body["folder_ids"] = [Ref(kind="folder", name=name) for name in desired.folders]
    body = {name: value for name, value in body.items() if value not in ([], {})}
    unit.change(Change(field="name", after=desired.name), creation((f"{AGENTS_PATH}/",), body, ref))
    by_default = {
        tool.name for tool in desired.own_tools if tool.fields.get("default_requires_approval")
    }
    for tool, is_asked in desired.approvals.items():
        if is_asked is not (tool in by_default):
            unit.steps.append(_approval(ref, tool, is_asked))
    if desired.permissions is not None:
        unit.steps.append(_permissions(ref, desired.permissions, NO_LIMIT))
    unit.steps.extend(new_schedules(ref, desired.schedules))


def _secrets(desired: DesiredAgent) -> Mapping[str, str]:
    return desired.fields.get("secrets") or {}


def _mcp_refs(desired: DesiredAgent) -> list[Ref]:
    refs: list[Ref] = []
    for server in desired.mcp_servers:
        if server.tools is None:
            refs.append(Ref(kind="mcp_tools", name=server.name))
        else:
            refs.extend(Ref(kind="mcp_tool", name=f"{server.name}/{t}") for t in server.tools)
    return refs


def _approval(agent: str | Ref, tool: str, wanted: bool) -> Request:
    path = (AGENTS_PATH, agent, "tools/approval", tool)
    return patch(path, {APPROVAL: wanted}, {APPROVAL: not wanted})


def _permissions(
    agent: str | Ref, wanted: Mapping[str, Json], before: Mapping[str, Json]
) -> Request:
    path = (AGENTS_PATH, agent, "permissions")
    undo = Request(method="PUT", path=path, body={**NO_LIMIT, **before})
    return Request(method="PUT", path=path, body={**NO_LIMIT, **wanted}, undo=undo)


def _plan_changes(subject: Subject, member: Member | None) -> None:
    unit, agent, desired = subject.unit, subject.agent, subject.desired
    body = _changed_fields(subject)
    body |= _changed_rules(subject)
    body |= _changed_tools(subject)
    body |= _changed_folders(subject)
    if unit.problems:
        return
    if body:
        unit.steps.append(patch((AGENTS_PATH, subject.agent_id), body, present_fields(agent)))
    plan_blocks(subject)
    _plan_approvals(subject)
    _plan_permissions(subject)
    plan_schedules(subject)
    plan_withdrawals(subject)
    unit.steps += subject.cleanups
    if member is None:
        _keep_to_owners(subject)
    elif unit.changes or unit.key != member.key or is_said_otherwise(unit, member):
        unit.action = "change"
    if member is not None and member.key != unit.key:
        unit.changes.append(Change(field="file", before=member.key, after=desired.key))


def is_said_otherwise(unit: Unit, member: Member) -> bool:
    """Whether the file says something else than when it was applied last."""
    return member.applied.model_copy(update={"rejected": False}) != unit.applied


def _keep_to_owners(subject: Subject) -> None:
    """An agent that is not this fleet's is changed where that is asked for, and becomes its own; it
    keeps the values of its blocks."""
    unit, state = subject.unit, subject.state
    if subject.wanted.adopt:
        unit.action = "change"
        unit.changes.append(state.adoption(subject.agent_id))
    elif unit.changes:
        fields = ", ".join(change.field for change in unit.changes[:FIELDS_SHOWN_MAX])
        unit.refuse(
            f"the agent '{unit.name}' ({unit.id}) {state.why_not_ours(subject.agent_id)}, and"
            f" differs from the file in {fields}: take it over with --adopt, which keeps what it"
            " remembers"
        )
    else:
        unit.applied = None  # it is as the file says, and stays whose it is


def present_fields(agent: Document) -> dict[str, Json]:
    """The fields of an update as they are now."""
    fields: dict[str, Json] = {name: field.read(agent) for name, field in FIELDS.items()}
    return {
        **fields,
        "metadata": agent.get("metadata") or {},
        "tool_rules": agent.get("tool_rules") or [],
        "tool_ids": [tool["id"] for tool in agent.get("tools") or []],
        "folder_ids": [folder["id"] for folder in agent.get("sources") or []],
    }


def _changed_fields(subject: Subject) -> dict[str, Json]:
    desired, agent, unit = subject.desired, subject.agent, subject.unit
    body: dict[str, Json] = {}
    wanted = {"name": desired.name, **desired.fields}
    if "secrets" in wanted:
        wanted["secrets"] = _known_secrets(subject)
    for change, value in differing_fields(agent, wanted, subject.before.fields):
        if FIELDS[change.field].created_only:
            unit.refuse(
                f"{change.field}: '{change.before}' cannot become '{change.after}': agents keep"
                " it; delete the agent, or give this one another name"
            )
            return {}
        unit.changes.append(change)
        body[change.field] = value
    there = agent.get("metadata") or {}
    managed = subject.before.metadata
    gone = [name for name in managed if name in there and name not in desired.metadata]
    metadata = {name: value for name, value in there.items() if name not in gone}
    metadata |= desired.metadata
    if metadata != there:
        for name in sorted({*gone, *desired.metadata}):
            if there.get(name) != metadata.get(name):
                field = f"metadata.{name}"
                after = metadata.get(name)
                unit.changes.append(Change(field=field, before=there.get(name), after=after))
        body["metadata"] = metadata
    return body


def _known_secrets(subject: Subject) -> dict[str, str]:
    """The secrets of the file; those whose values are not known here stay as they are."""
    there = FIELDS["secrets"].read(subject.agent)
    known = {}
    for name, value in _secrets(subject.desired).items():
        is_unset = UNSET in value
        if is_unset and name not in there:
            subject.unit.unset.append(name)
        elif is_unset:
            subject.unit.notes.append(f"secrets.{name}: not set here; unchanged or unknown")
        known[name] = there.get(name, value) if is_unset else value
    return known


def _changed_rules(subject: Subject) -> dict[str, Json]:
    """The tool rules that come and go. Those that wait for approvals come and go with tools."""
    there = subject.agent.get("tool_rules") or []
    plain = [without_blanks(rule) for rule in there]
    wanted = subject.desired.rules
    gone = [
        rule
        for rule in plain
        if rule["type"] != APPROVAL
        and rule not in wanted
        and (subject.desired.exact_rules or digest(rule) in subject.before.rules)
    ]
    new = [rule for rule in wanted if rule not in plain]
    if not gone and not new:
        return {}
    kept = [rule for rule in there if without_blanks(rule) not in gone]
    subject.unit.changes.append(Change(field="tool_rules", before=gone, after=new))
    return {"tool_rules": [*kept, *new]}


def _changed_tools(subject: Subject) -> dict[str, Json]:
    """The tools that come and go, as the `tool_ids` of an update."""
    desired = subject.desired
    attached = {tool["name"]: tool for tool in subject.agent.get("tools") or []}
    own = [*desired.tools, *(tool.name for tool in desired.own_tools)]
    refs: dict[str, Any] = {name: Ref(kind="tool", name=name) for name in own}
    refs |= _wanted_of_mcp(subject)
    gone = {*_gone_tools(subject, attached, refs)}
    new = {name: ref for name, ref in refs.items() if name not in attached}
    kept = [tool["id"] for name, tool in attached.items() if name not in gone]
    return _replaced(subject, "tool", gone, new, kept)


def _replaced(
    subject: Subject,
    kind: str,
    gone: Iterator[str] | set[str],
    new: Mapping[str, Ref],
    kept: list[str],
) -> dict[str, Json]:
    """The ids of what an agent has then, if something comes or goes."""
    if not gone and not new:
        return {}
    changes = [Change(field=f"{kind}s.{name}", before=name) for name in sorted(gone)]
    changes += [Change(field=f"{kind}s.{name}", after=name) for name in sorted(new)]
    subject.unit.changes += changes
    return {f"{kind}_ids": [*kept, *new.values()]}


def _wanted_of_mcp(subject: Subject) -> dict[str, Ref]:
    """Refs of tools of MCP servers by name; of a server that is new all together."""
    refs: dict[str, Ref] = {}
    for server in subject.desired.mcp_servers:
        known = subject.state.mcp_tools.get(server.name)
        names: Sequence[str] | None = server.tools
        if names is None and known is not None:
            names = [*known]
        if names is None:
            refs[f"all of {server.name}"] = Ref(kind="mcp_tools", name=server.name)
        else:
            refs |= {name: Ref(kind="mcp_tool", name=f"{server.name}/{name}") for name in names}
    return refs


def _gone_tools(
    subject: Subject, attached: Mapping[str, Document], wanted: Mapping[str, Ref]
) -> Iterator[str]:
    before = subject.before
    servers = {*before.mcp_servers, *(server.name for server in subject.desired.mcp_servers)}
    tags = {f"mcp:{name}" for name in servers}
    for name, tool in attached.items():
        if name in wanted or tool.get("tool_type") == FILE_TOOLS:
            continue
        of_mcp = tags.intersection(tool.get("tags") or [])
        if subject.desired.exact_tools or name in before.tools or of_mcp:
            yield name


def _changed_folders(subject: Subject) -> dict[str, Json]:
    attached = {folder["name"]: folder["id"] for folder in subject.agent.get("sources") or []}
    wanted = subject.desired.folders
    gone = {name for name in subject.before.folders if name in attached and name not in wanted}
    new = {name: Ref(kind="folder", name=name) for name in wanted if name not in attached}
    kept = [folder for name, folder in attached.items() if name not in gone]
    return _replaced(subject, "folder", gone, new, kept)


def _plan_approvals(subject: Subject) -> None:
    rules = subject.agent.get("tool_rules") or []
    waits = {rule["tool_name"] for rule in rules if rule.get("type") == APPROVAL}
    attached = {tool["name"] for tool in subject.agent.get("tools") or []}
    for tool, wanted in subject.desired.approvals.items():
        is_waiting = tool in waits
        if wanted != is_waiting and (wanted or tool in attached):
            field = f"tools.{tool}.{APPROVAL}"
            subject.unit.change(
                Change(field=field, before=is_waiting, after=wanted),
                _approval(subject.agent_id, tool, wanted),
            )


def _plan_permissions(subject: Subject) -> None:
    wanted = subject.desired.permissions
    if wanted is None and not subject.before.permissions:
        return
    there = subject.state.permissions.get(subject.agent_id, NO_LIMIT)
    asked = {**NO_LIMIT, **(wanted or {})}
    if any(_as_set(asked[name]) != _as_set(there.get(name)) for name in NO_LIMIT):
        subject.unit.change(
            Change(field="permissions", before=dict(there), after=asked),
            _permissions(subject.agent_id, asked, there),
        )


def _as_set(names: Json) -> set[str] | None:
    return None if names is None else set(names)
