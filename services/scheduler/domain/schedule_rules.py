"""Rules of schedules, and their refusals: each names the field and the fix."""

from __future__ import annotations

from datetime import datetime

from pydantic import ValidationError
from pydantic_core import to_json

from libs.contracts.bus_messages import NOT_FOUND, UNPROCESSABLE, JsonObject, Rejected
from libs.contracts.scheduler.schedule_config import (
    AGENT_SCHEDULES_MAX,
    MESSAGES_BYTES_MAX,
    NEW_CONVERSATION,
    ORGANISATION_SCHEDULES_MAX,
    ScheduleConfig,
)
from libs.contracts.wall_times import zone_named
from services.scheduler.domain.slot_selection import first_slot

# What an update leaves as it is.
FIXED_FIELDS = ("id", "agent_id", "created_at")
WHEN_FIELDS = ("schedule_type", "scheduled_at", "cron_expression", "timezone")
# What each action may do about a busy agent, and what it is about where that is no conversation.
ACTIVE_POLICIES = {"message": ("queue", "skip", "wake"), "compact": ("queue", "skip")}
NO_CONVERSATION = {
    "summarize": "a summary is of the agent's own conversation",
    "tool": "a tool is called without a conversation",
    "group_message": "a group has no conversation of this agent",
}


def missing(schedule_id: str) -> Rejected:
    """The refusal of a command about a schedule that does not exist."""
    return Rejected(code=NOT_FOUND, reason=f"Schedule with id '{schedule_id}' not found")


def refuse(reason: str) -> Rejected:
    """The refusal of a schedule as it is."""
    return Rejected(code=UNPROCESSABLE, reason=reason)


def refuse_config(config: ScheduleConfig, now: datetime) -> Rejected | None:
    """The refusal of a schedule that could never be due, or is too large; None for a good one."""
    return refuse_fields(config) or refuse_size(config) or refuse_times(config, now)


def refuse_fields(config: ScheduleConfig) -> Rejected | None:
    """The refusal of a schedule whose fields do not go together."""
    return refuse_form(config) or refuse_without_effect(config)


def refuse_without_effect(config: ScheduleConfig) -> Rejected | None:
    """The refusal of a field that means nothing for what the schedule does."""
    kind, conversation, policy = config.action.type, config.conversation_id, config.if_active
    if conversation is not None and kind in NO_CONVERSATION:
        return refuse(f"conversation_id: {NO_CONVERSATION[kind]}: leave it out")
    if conversation == NEW_CONVERSATION and kind != "message":
        return refuse("conversation_id: 'new' goes with messages: leave it out")
    if conversation == NEW_CONVERSATION and policy != "queue":
        return refuse(
            f"if_active: '{policy}' has no effect, as nothing is busy in a new conversation: say"
            " 'queue'"
        )
    policies = ACTIVE_POLICIES.get(kind, ("queue",))
    if policy not in policies:
        words = " or ".join(f"'{each}'" for each in policies)
        return refuse(f"if_active: '{policy}' has no effect on the action '{kind}': say {words}")
    return None


def refuse_form(config: ScheduleConfig) -> Rejected | None:
    """The refusal of a schedule without the field that its type needs, or with the other's."""
    if config.schedule_type == "one_time":
        if config.scheduled_at is None:
            return refuse("scheduled_at: a one-time schedule needs the time at which it is due")
        if config.cron_expression is not None:
            return refuse("cron_expression: leave it out, or make the schedule 'recurring'")
        if config.scheduled_at.tzinfo is None:
            return refuse("scheduled_at: give it a UTC offset, such as 2030-01-31T09:00:00+00:00")
        return None
    if config.cron_expression is None:
        return refuse("cron_expression: a recurring schedule needs one, such as '0 9 * * mon-fri'")
    if config.scheduled_at is not None:
        return refuse("scheduled_at: leave it out, or make the schedule 'one_time'")
    return None


def refuse_size(config: ScheduleConfig) -> Rejected | None:
    """The refusal of a schedule whose action is too large to be kept and sent."""
    size = len(to_json(config.action.model_dump(mode="json")))
    if size <= MESSAGES_BYTES_MAX:
        return None
    return refuse(
        f"action: it has {size} bytes as JSON, and may have {MESSAGES_BYTES_MAX}: send less"
    )


def refuse_times(config: ScheduleConfig, now: datetime) -> Rejected | None:
    """The refusal of a schedule that is never due after now."""
    try:
        zone_named(config.timezone)
    except ValueError as problem:
        return refuse(f"timezone: {problem}")
    try:
        slot = first_slot(config, now)
    except ValueError as problem:
        return refuse(
            f"cron_expression: '{config.cron_expression}' is no cron expression of five fields,"
            f" such as '0 9 * * mon-fri': {problem}"
        )
    if slot is not None:
        return None
    if config.schedule_type == "one_time":
        return refuse("scheduled_at: this time is past: give one in the future")
    return refuse(f"cron_expression: '{config.cron_expression}' never comes: give one that does")


def with_changes(config: ScheduleConfig, changes: JsonObject) -> ScheduleConfig | Rejected:
    """The schedule with other values of some fields, or the refusal of those."""
    fixed = next((name for name in FIXED_FIELDS if name in changes), None)
    if fixed:
        return refuse(f"{fixed}: it cannot be changed: leave it out")
    unknown = next((name for name in changes if name not in ScheduleConfig.model_fields), None)
    if unknown:
        return refuse(f"{unknown}: a schedule has no such field")
    try:
        return ScheduleConfig.model_validate({**config.model_dump(mode="json"), **changes})
    except ValidationError as problem:
        first = problem.errors()[0]
        return refuse(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def refuse_one_more(of_agent: int, of_org: int) -> Rejected | None:
    """The refusal of a schedule where an agent or an organisation has as many as may be."""
    if of_agent >= AGENT_SCHEDULES_MAX:
        what = f"The agent has {of_agent} schedules, and may have {AGENT_SCHEDULES_MAX}"
    elif of_org >= ORGANISATION_SCHEDULES_MAX:
        what = f"There are {of_org} schedules, and may be {ORGANISATION_SCHEDULES_MAX}"
    else:
        return None
    return refuse(f"{what}: delete one that is not needed")
