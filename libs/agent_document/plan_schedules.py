"""The schedules of an agent, known by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from libs.agent_document.desired import Json, Schedule
from libs.agent_document.differences import Change, is_within
from libs.agent_document.plan_parts import Document, Subject
from libs.agent_document.requests import Ref, Request, creation, patch, removal

# What the server shows beside what was sent, of the messages of a schedule.
ACTION_DEFAULTS = ("max_steps", "callback_url", "include_return_message_types")
# The fields of a schedule's body as they are in its document, but for what it says to the agent.
SAME = (
    *("name", "schedule_type", "scheduled_time", "recurrence_rule", "timezone"),
    *("conversation_id", "missed", "missed_slots_max", "if_active", "retries_max"),
)


def new_schedules(agent: str | Ref, schedules: Sequence[Schedule]) -> Iterator[Request]:
    """The requests that make schedules of an agent."""
    name = agent if isinstance(agent, str) else agent.name
    for schedule in schedules:
        ref = Ref(kind="schedule", name=f"{name}/{schedule.name}")
        body = {"name": schedule.name, **schedule.fields}
        yield creation(("/v1/agents", agent, "schedule"), body, ref)


def plan_schedules(subject: Subject) -> None:
    """Schedules that are new, changed and taken out of the file. Those that others made stay."""
    there = {
        schedule["name"]: schedule
        for schedule in reversed(subject.state.schedules.get(subject.agent_id, []))
        if schedule.get("name")
    }
    before = subject.before.schedules
    for schedule in subject.desired.schedules:
        known = there.get(schedule.name)
        field = f"schedules.{schedule.name}"
        if known is None:
            if schedule.name in before and schedule.fields.get("scheduled_time"):
                continue  # it has fired, and was forgotten since
            subject.unit.change(
                Change(field=field, after=schedule.fields),
                *new_schedules(subject.agent_id, [schedule]),
            )
        elif changes := _differing(known, schedule.fields):
            shown = {name: _shown(known, name) for name in changes}
            subject.unit.change(
                Change(field=field, before=shown, after=changes),
                patch(_path(subject, known), changes, shown),
            )
    wanted = {schedule.name for schedule in subject.desired.schedules}
    for name in before:
        if name not in wanted and (known := there.get(name)):
            subject.unit.changes.append(Change(field=f"schedules.{name}", before=name))
            again = Request(method="POST", path=_path(subject, known)[:-1], body=_body(known))
            subject.cleanups.append(removal(_path(subject, known), again))


def _path(subject: Subject, schedule: Document) -> tuple[str, ...]:
    return ("/v1/agents", subject.agent_id, "schedule", str(schedule["id"]))


def _body(there: Document) -> dict[str, Json]:
    """The request that makes a schedule."""
    said = {name: there[name] for name in SAME if there.get(name) is not None}
    return {**said, "action": there.get("action")}


def _differing(there: Document, wanted: Mapping[str, Json]) -> dict[str, Json]:
    """The fields to send, all of what the action or the time is, if anything of it differs."""
    return {
        name: value for name, value in wanted.items() if not _is_same(_shown(there, name), value)
    }


def _shown(there: Document, name: str) -> Json:
    """The server's value for a field of a request."""
    action = there.get("action") or {}
    if name == "message":
        return _text(action.get("messages"))
    if name in ACTION_DEFAULTS:
        return action.get(name)
    return there.get(name)


def _text(messages: Json) -> Json:
    """The text of one message of a user, as a file has it."""
    match messages:
        case [{"role": "user", "content": str(text)}]:
            return text
        case [{"role": "user", "content": [{"type": "text", "text": str(text)}]}]:
            return text
        case _:
            return messages


def _is_same(there: Json, wanted: Json) -> bool:
    if isinstance(there, str) and isinstance(wanted, str):
        return there == wanted or _moment(there) == _moment(wanted) is not None
    return is_within(wanted, there)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
