"""The schedules of an agent, known by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from cli.fleet.desired import Json, Schedule
from cli.fleet.differences import Change, is_within
from cli.fleet.mark import Mark
from cli.fleet.plan_parts import Subject
from cli.fleet.requests import Ref, Request

# What the server shows beside what was sent, of the messages of a schedule.
ACTION_DEFAULTS = ("max_steps", "callback_url", "include_return_message_types")


def new_schedules(agent: str | Ref, schedules: Sequence[Schedule]) -> Iterator[Request]:
    """The requests that make schedules of an agent."""
    for schedule in schedules:
        yield Request(
            method="POST",
            path=("/v1/agents", agent, "schedule"),
            body={"name": schedule.name, **schedule.fields},
            creates=Ref(
                "schedule", f"{agent if isinstance(agent, str) else agent.name}/{schedule.name}"
            ),
        )


def plan_schedules(subject: Subject, before: Mark) -> None:
    """Schedules that are new, changed and taken out of the file. Those that others made stay."""
    there = {
        schedule["name"]: schedule
        for schedule in reversed(subject.state.schedules.get(subject.agent_id, []))
        if schedule.get("name")
    }
    for schedule in subject.desired.schedules:
        known = there.get(schedule.name)
        field = f"schedules.{schedule.name}"
        if known is None:
            if schedule.name in before.schedules and schedule.fields.get("scheduled_time"):
                continue  # it has fired, and was forgotten since
            subject.change(
                Change(field, None, dict(schedule.fields)),
                *new_schedules(subject.agent_id, [schedule]),
            )
        elif changes := _differing(known, schedule.fields):
            subject.change(
                Change(field, {name: _shown(known, name) for name in changes}, changes),
                Request(method="PATCH", path=_path(subject, known), body=changes),
            )
    wanted = {schedule.name for schedule in subject.desired.schedules}
    for name in before.schedules:
        if name not in wanted and (known := there.get(name)):
            subject.plan.changes.append(Change(f"schedules.{name}", name, None))
            subject.cleanups.append(
                Request(method="DELETE", path=_path(subject, known), absent_is_done=True)
            )


def _path(subject: Subject, schedule: Mapping[str, Json]) -> tuple[str, ...]:
    return ("/v1/agents", subject.agent_id, "schedule", str(schedule["id"]))


def _differing(there: Mapping[str, Json], wanted: Mapping[str, Json]) -> dict[str, Json]:
    """The fields to send, all of what the action or the time is, if anything of it differs."""
    return {
        name: value for name, value in wanted.items() if not _is_same(_shown(there, name), value)
    }


def _shown(there: Mapping[str, Json], name: str) -> Json:
    """What the server's document has for a field of a request."""
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
