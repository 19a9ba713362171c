"""The plan that takes an apply back: agents that it made go, those that it deleted come back, and
what it changed is as before, unless somebody has changed it since.

Tools, MCP servers and shared blocks that it made stay, for others may use them by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.agent_document.differences import Change
from libs.agent_document.plan_parts import Applied, FleetPlan, Member, Unit
from libs.agent_document.plan_resources import TOOLS_PATH, tool_has
from libs.agent_document.requests import Ids, Ref, Request
from services.api.adapters.agents.fleet_queries import EndedUnit, StoredPlan, ref_of
from services.api.engine.fleet_api import FleetApi, document_at
from services.api.engine.present_values import changed_since, mcp_tools_of
from services.api.engine.requests_with_ids import UnknownRef, body_of, mcp_servers_named

DONE = ("created", "changed", "deleted", "forgotten")


async def plan_undo(
    api: FleetApi, stored: StoredPlan, ended: Sequence[EndedUnit], members: Sequence[Member]
) -> FleetPlan:
    """The units that take back what an apply has done, the last one first. Raises Refused and
    ApiAway.

    Args:
        members: what the fleet owns now.
    """
    ids = stored.known_ids()
    owned = {member.id: member for member in members}
    for each in ended:
        ids |= {ref_of(name): thing_id for name, thing_id in each.ids.items()}
    units = [
        await _undone(api, stored.plan.units[each.number], each, ids, owned)
        for each in reversed(ended)
        if each.fields["result"] in DONE
    ]
    _keep_taken_keys(units, members)
    return FleetPlan(units=units)


async def _undone(
    api: FleetApi, unit: Unit, ended: EndedUnit, ids: Ids, owned: Mapping[str, Member]
) -> Unit:
    undo = Unit(kind=unit.kind, key=unit.key, name=unit.name, file=unit.file)
    undo.id = str(ended.fields["id"]) if ended.fields["id"] else None
    if undo.id is not None and (unit.applied is not None or unit.before is not None):
        known = unit.applied or Applied()
        undo.before = Member(
            kind=unit.kind, key=unit.key, id=undo.id, name=unit.name, applied=known
        )
    if unit.action != "delete" and unit.applied is not None and undo.id not in owned:
        undo.notes.append("it is not this fleet's any more, and stays as it is")
    elif unit.action == "create":
        await _unmake(api, undo, unit)
    elif unit.action == "delete" and (unit.kind, unit.key) in {
        (member.kind, member.key) for member in owned.values()
    }:
        undo.notes.append("the fleet has an agent of that file again, which stays")
    elif unit.action == "delete":
        _make_again(undo, unit, str(ended.fields.get("moment") or ""))
    elif unit.kind == "tool" and not await _is_tool_as_left(api, undo, unit):
        undo.notes.append("it is kept: it was changed since")
    elif unit.action == "change":
        try:
            await _change_back(api, undo, unit, ids)
        except UnknownRef as gone:
            undo.refuse(f"{gone} any more")
        undo.before = owned.get(str(undo.id), undo.before)
        if unit.before is not None and undo.before is not None:
            _keep_place(undo, undo.before, unit)
    return undo


def _keep_place(undo: Unit, present: Member, unit: Unit) -> None:
    """A file or a name that is another one since stays; what is as before already is unchanged."""
    if present.key not in (unit.key, undo.key):
        _keep_key(undo, present.key, "it was moved since")
    if any(note.startswith("name is kept") for note in undo.notes):
        undo.name = present.name
    after = (undo.key, undo.name, undo.applied)
    if not undo.steps and after == (present.key, present.name, present.applied):
        undo.action, undo.changes = "unchanged", []


def _keep_taken_keys(units: Sequence[Unit], members: Sequence[Member]) -> None:
    """A file that is about another agent by now stays that agent's."""
    ids = {unit.id for unit in units}
    taken = {(each.kind, each.key) for each in members if each.id not in ids}
    for unit in units:
        is_taken = (unit.kind, unit.key) in taken
        if is_taken and unit.before is not None and unit.key != unit.before.key:
            _keep_key(unit, unit.before.key, "that file is about another agent now")


def _keep_key(undo: Unit, key: str, why: str) -> None:
    undo.key = key
    undo.changes = [change for change in undo.changes if change.field != "file"]
    undo.notes.append(f"its file is kept: {why}")


async def _unmake(api: FleetApi, undo: Unit, unit: Unit) -> None:
    """Delete an agent or a group that the apply made."""
    ref = Ref(kind=unit.kind, name=unit.key)
    made = next((step.undo for step in unit.steps if step.creates == ref), None)
    if unit.kind not in ("agent", "group") or made is None:
        undo.notes.append("it stays, for others may use it")
        return
    undo.action = "delete"
    collection = made.path[0]
    assert isinstance(collection, str), "what was made is in a list of its kind"
    there = await document_at(api, f"{collection}/{undo.id}")
    if there is None:
        undo.action = "release"
        return
    undo.change(
        Change(field="name", before=there.get("name")),
        Request(method="DELETE", path=(collection, undo.id), absent_is_done=True),
    )


def _make_again(undo: Unit, unit: Unit, moment: str) -> None:
    """A deleted agent comes back under another id, as it was at its end."""
    if not moment:
        undo.refuse(f"'{unit.name}' was deleted, and its last moment is not known")
        return
    fork = unit.steps[0].undo
    assert fork is not None, "what is deleted can be made again"
    undo.action, undo.id, undo.before = "create", None, None
    undo.applied = unit.before.applied if unit.before else Applied()
    step = fork.model_copy(update={"body": {**fork.body, "at": moment}})
    undo.change(Change(field="name", after=unit.name), step)


async def _is_tool_as_left(api: FleetApi, undo: Unit, unit: Unit) -> bool:
    """Whether a tool is as the apply left it: its source is changed back whole, or not at all."""
    there = await document_at(api, f"{TOOLS_PATH}/{undo.id}")
    sent = [field for step in unit.steps if step.undo is not None for field in step.body.items()]
    return there is not None and all(tool_has(there, name, value) for name, value in sent)


async def _change_back(api: FleetApi, undo: Unit, unit: Unit, ids: Ids) -> None:
    """Give changed fields their old values; keep those that others have changed since."""
    undo.action = "change"
    kept: set[str] = set()
    for step in reversed(unit.steps):
        if step.undo is None:
            continue
        back = step.undo
        if step.method == "PATCH" and isinstance(step.body, dict):
            for server in mcp_servers_named(step):
                ids |= await mcp_tools_of(api, server, ids)
            sent = body_of(step.body, ids)
            changed = await changed_since(api, step, ids)
            kept |= changed
            body = {name: value for name, value in back.body.items() if name not in changed}
            if not body:
                continue
            again = back.model_copy(update={"body": {name: sent[name] for name in body}})
            back = back.model_copy(update={"body": body, "undo": again})
        undo.steps.append(back)
    for name in sorted(kept):
        undo.notes.append(f"{name} is kept: it was changed since")
    undo.changes = [
        Change(field=change.field, before=change.after, after=change.before)
        for change in reversed(unit.changes)
        if change.field.rpartition(".")[2] not in kept
    ]
    if unit.before is None:
        undo.releases = True
        return
    undo.key, undo.name, undo.applied = unit.before.key, unit.before.name, unit.before.applied
