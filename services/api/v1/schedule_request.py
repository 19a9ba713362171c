"""A client's request for a schedule, in either of its two forms, as the scheduler takes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.message_requests import MAX_STEPS_DEFAULT, MessageCreate
from libs.contracts.letta.schedule_requests import (
    MESSAGE_FIELDS,
    SECONDS_BELOW,
    ScheduleCreate,
    ScheduleFields,
    ScheduleUpdate,
    moment_of_unix_time,
)
from libs.contracts.scheduler.schedule_config import (
    Action,
    MessageAction,
    MissedPolicy,
    ScheduleConfig,
)
from libs.contracts.wall_times import moment_on_wall, zone_named
from services.api.http.error_responses import Problem

# Fields that the scheduler takes as they are.
SAME_FIELDS = (
    *("schedule_type", "timezone", "name"),
    *("missed", "missed_slots_max", "if_active", "retries_max"),
)
MAY_BE_TAKEN_AWAY = ("name", "conversation_id")
# What the scheduler calls a field, and what clients call it.
V1_NAMES = {
    "scheduled_at": "schedule.scheduled_at",
    "cron_expression": "schedule.cron_expression",
    "action": "messages",
}
OUR_NAMES = {"scheduled_at": "scheduled_time", "cron_expression": "recurrence_rule"}


def config_of(
    asked: ScheduleCreate, schedule_id: str, agent_id: str, now: datetime
) -> ScheduleConfig:
    """The schedule that a client asks for. Raises the 422 of a time that cannot be read."""
    refuse_needless_bound(asked, asked.missed)
    fields: dict[str, Any] = {"id": schedule_id, "agent_id": agent_id, "created_at": now}
    fields |= {"name": asked.name, "conversation_id": conversation_of(asked)}
    client_fields: JsonObject = {}
    if asked.description is not None:
        client_fields["description"] = asked.description
    if asked.schedule is not None:
        answered = action_of(asked, asked.messages)
        if asked.schedule.scheduled_at and asked.schedule.scheduled_at < SECONDS_BELOW:
            client_fields["unix_time"] = "seconds"
        v1_fields = {**fields, **v1_times(asked)}
        return ScheduleConfig(**v1_fields, action=answered, client_fields=client_fields)
    action = asked.action or action_of(asked, asked.message)
    times = own_times(asked, asked.timezone or "UTC")
    fields |= same_fields(asked) | times
    return ScheduleConfig(**fields, action=action, client_fields=client_fields)


def refuse_needless_bound(asked: ScheduleFields, missed: MissedPolicy | None) -> None:
    """Raise the 422 of a bound on the slots that are made up for, where none or one is."""
    if asked.missed_slots_max is not None and missed != "all":
        detail = "missed_slots_max: it goes with `missed`: 'all': say so, or leave it out"
        raise Problem(422, {"detail": detail})


def conversation_of(asked: ScheduleFields) -> str | None:
    """The conversation that a client names, None for the agent's own, which is the default."""
    return None if asked.conversation_id == "default" else asked.conversation_id


def v1_times(asked: ScheduleCreate) -> dict[str, Any]:
    """When a schedule of V1's form is due."""
    schedule = asked.schedule
    assert schedule is not None
    if schedule.scheduled_at is None:
        return {"schedule_type": "recurring", "cron_expression": schedule.cron_expression}
    moment = moment_of_unix_time(schedule.scheduled_at)
    return {"schedule_type": "one_time", "scheduled_at": moment}


def own_times(asked: ScheduleFields, timezone: str) -> dict[str, Any]:
    """When a schedule of the other form is due, where it says so; a time without an offset is one
    of its time zone."""
    times: dict[str, Any] = {}
    if asked.recurrence_rule is not None:
        times["cron_expression"] = asked.recurrence_rule
    if asked.scheduled_time is not None:
        times["scheduled_at"] = in_utc(asked.scheduled_time, timezone)
    return times


def in_utc(moment: datetime, timezone: str) -> datetime:
    """A moment in UTC. Raises the 422 of a time that is beyond all calendars."""
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        zone = zone_named(timezone)
    except OverflowError:
        detail = f"scheduled_time: {moment.isoformat()} is out of the years 1 to 9999 in UTC"
        raise Problem(422, {"detail": detail}) from None
    except ValueError as problem:
        raise Problem(422, {"detail": f"timezone: {problem}"}) from None
    return moment_on_wall(moment, zone)


def same_fields(asked: ScheduleFields) -> dict[str, Any]:
    """The fields that are as the scheduler has them, where they have a value."""
    return {name: value for name in SAME_FIELDS if (value := getattr(asked, name)) is not None}


def action_of(asked: ScheduleFields, messages: list[MessageCreate] | None) -> MessageAction:
    """The message that the agent is to answer."""
    return MessageAction(
        messages=messages or [],
        max_steps=asked.max_steps or MAX_STEPS_DEFAULT,
        callback_url=asked.callback_url,
        include_return_message_types=asked.include_return_message_types,
    )


def changes_of(asked: ScheduleUpdate, before: ScheduleConfig) -> JsonObject:
    """The changes of an update to a schedule. Another type takes the time of the old one away."""
    refuse_needless_bound(asked, asked.missed or before.missed)
    changes: dict[str, Any] = same_fields(asked)
    changes |= {
        name: None
        for name in MAY_BE_TAKEN_AWAY
        if name in asked.model_fields_set and getattr(asked, name) is None
    }
    if asked.conversation_id is not None:
        changes["conversation_id"] = conversation_of(asked)
    if "description" in asked.model_fields_set:
        changes["client_fields"] = {**before.client_fields, "description": asked.description}
    changes |= own_times(asked, asked.timezone or before.timezone)
    if asked.schedule_type == "one_time":
        changes.setdefault("cron_expression", None)
    if asked.schedule_type == "recurring":
        changes.setdefault("scheduled_at", None)
    action = changed_action(asked, before.action)
    if action is not None:
        changes["action"] = action.model_dump(mode="json")
    if "scheduled_at" in changes and changes["scheduled_at"] is not None:
        changes["scheduled_at"] = changes["scheduled_at"].isoformat()
    return changes


def changed_action(asked: ScheduleUpdate, before: Action) -> Action | None:
    """The action after an update, None where that says nothing of it. What it does not say of
    messages stays. Raises the 422 of what goes with messages only."""
    if asked.action is not None:
        return asked.action
    given = {name: value for name in MESSAGE_FIELDS if (value := getattr(asked, name)) is not None}
    if asked.message is not None:
        given["messages"] = asked.message
    if not given:
        return None
    if isinstance(before, MessageAction):
        return MessageAction.model_validate({**dict(before), **given})
    if asked.message is None:
        name = next(iter(given))
        detail = f"{name}: it goes with `message`, and this schedule has another action"
        raise Problem(422, {"detail": detail})
    return MessageAction.model_validate(given)


def with_client_names(problem: Problem, *, is_v1: bool) -> Problem:
    """A refusal of the scheduler, with the field as the client calls it."""
    detail = problem.body.get("detail")
    if problem.status != 422 or not isinstance(detail, str):
        return problem
    field, colon, reason = detail.partition(":")
    names = V1_NAMES if is_v1 else OUR_NAMES
    if not colon or field not in names:
        return problem
    return Problem(422, {"detail": f"{names[field]}:{reason}"}, problem.headers)
