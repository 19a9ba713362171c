"""Checks of the schedules of a file."""

from __future__ import annotations

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter, enumerate_words
from libs.agent_toml.schedule_tables import KEYS_OF_ACTION, Schedule, ScheduleAction
from libs.agent_toml.schedule_times import cron_of, moment_of
from libs.agent_toml.toml_positions import Path
from libs.contracts.letta.schedule_requests import check_address
from libs.contracts.scheduler.cron_expressions import why_not_cron
from libs.contracts.wall_times import zone_named

TIMES = ("at", "every", "cron")
OF_MESSAGES = ("max_steps", "callback_url")


def check_schedules(definition: AgentDefinition, reporter: Reporter) -> None:
    """Report schedules that the server would refuse."""
    for index, schedule in enumerate(definition.schedules):
        path: Path = ("schedules", index)
        _check_time(schedule, path, reporter)
        _check_what(schedule, path, reporter)
        _check_policies(schedule, path, reporter)
        check_time_zone(schedule.timezone, (*path, "timezone"), reporter)


def check_time_zone(zone: str | None, path: Path, reporter: Reporter) -> None:
    """Report a time zone that does not exist."""
    if zone is None:
        return
    try:
        zone_named(zone)
    except ValueError as error:
        reporter.error(path, "AGT207", str(error), expected="an IANA name")


def _check_time(schedule: Schedule, path: Path, reporter: Reporter) -> None:
    given = [key for key in TIMES if getattr(schedule, key) is not None]
    if not given:
        words = f"the schedule `{schedule.name}` does not say when"
        if not any(reporter.is_broken((*path, key)) for key in TIMES):
            reporter.error(path, "AGT204", words, expected="one of `at`, `every`, `cron`")
        return
    if len(given) > 1:
        words = f"`{given[1]}` stands beside `{given[0]}`"
        reporter.error((*path, given[1]), "AGT203", words, expected="one of them", at_key=True)
        return
    problem = _problem_of_time(schedule)
    if problem:
        reporter.error((*path, given[0]), "AGT206", problem)
    if given[0] == "every" and schedule.timezone is not None and not problem:
        words = "`timezone` has no effect beside `every`"
        if not schedule.every or "d" not in schedule.every:
            reporter.warn((*path, "timezone"), "AGT209", words)


def _problem_of_time(schedule: Schedule) -> str:
    """Why the server could never fire a schedule; empty if it can."""
    if schedule.cron is not None:
        why = why_not_cron(schedule.cron)
        return f"'{schedule.cron}' is no cron expression: {why}" if why else ""
    try:
        if schedule.every is not None:
            cron_of(schedule.every)
        else:
            moment_of(schedule)
    except ValueError as error:
        return str(error)
    return ""


def _check_what(schedule: Schedule, path: Path, reporter: Reporter) -> None:
    """Report a schedule that says nothing to do, or two things."""
    action = schedule.action
    if schedule.message is None and action is None:
        words = f"the schedule `{schedule.name}` does not say what is to be done"
        reporter.error(path, "AGT204", words, expected="`message` or `action`")
    if schedule.message is not None and action is not None:
        words = "`action` stands beside `message`"
        reporter.error((*path, "action"), "AGT203", words, expected="one of them", at_key=True)
    if schedule.message is not None and not schedule.message.strip():
        reporter.error((*path, "message"), "AGT108", "the message is empty")
    if action is not None:
        _check_action(action, schedule, (*path, "action"), reporter)
    if schedule.callback_url is not None:
        try:
            check_address(schedule.callback_url)
        except ValueError as error:
            reporter.error((*path, "callback_url"), "AGT106", str(error))


def _check_action(
    action: ScheduleAction, schedule: Schedule, path: Path, reporter: Reporter
) -> None:
    own = KEYS_OF_ACTION[action.type]
    for key in sorted(action.model_fields_set - {"type", *own}):
        words = f"`{key}` has no effect on the action `{action.type}`"
        reporter.error((*path, key), "AGT209", words, expected=f"one of {enumerate_words([*own])}")
    if action.type == "tool" and action.tool_name is None:
        words = "the action `tool` does not say which tool"
        reporter.error((*path, "tool_name"), "AGT101", words, expected="`tool_name`")
    for key in OF_MESSAGES:
        if getattr(schedule, key) is not None:
            words = f"`{key}` goes with a message, and this schedule has an action"
            reporter.error((*path[:-1], key), "AGT209", words, at_key=True)
    if schedule.conversation_id is not None and action.type != "compact":
        words = f"`conversation_id` has no effect on the action `{action.type}`"
        reporter.error((*path[:-1], "conversation_id"), "AGT209", words, at_key=True)


def _check_policies(schedule: Schedule, path: Path, reporter: Reporter) -> None:
    if schedule.missed_slots_max is not None and schedule.missed != "all":
        words = f'`missed_slots_max` has no effect with `missed = "{schedule.missed}"`'
        reporter.error((*path, "missed_slots_max"), "AGT209", words, expected='`missed = "all"`')
    if schedule.if_active == "queue":
        return
    kind = "message" if schedule.action is None else schedule.action.type
    allowed = {"message": ("queue", "skip", "wake"), "compact": ("queue", "skip")}
    words = f'`if_active = "{schedule.if_active}"` has no effect'
    if schedule.if_active not in allowed.get(kind, ("queue",)):
        reporter.error((*path, "if_active"), "AGT209", f"{words} on the action `{kind}`")
    elif schedule.conversation_id == "new":
        reporter.error((*path, "if_active"), "AGT209", f"{words} in a new conversation")
