"""`heeler schedules`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.names import AGENT, SCHEDULE, find, id_of
from cli.output import columns, confirm, say, show, show_rows
from cli.server import given, server
from cli.verbs import LIST_ENTRIES, Limit, Yes, name_or_id

app = noun("Schedules: have an agent act at a time, or again and again.")

Schedule = Annotated[str, name_or_id(SCHEDULE)]
Agent = Annotated[str, name_or_id(AGENT)]
At = Annotated[str | None, Option(help="Once, at this time: 2026-12-24T18:00.")]
Cron = Annotated[str | None, Option(help="Again and again: '0 9 * * mon-fri', @daily.")]
Timezone = Annotated[str | None, Option(help="The time zone of both; UTC without.")]
Message = Annotated[str | None, Option("--message", "-m", help="What the agent is sent.")]
Name = Annotated[str | None, Option(help="What the schedule is called.")]
Missed = Annotated[
    str | None, Option(help="What of slots that were missed: fire_once, skip or all.")
]
IfActive = Annotated[str | None, Option(help="While the agent is busy: queue, skip or wake.")]
Retries = Annotated[int | None, Option(help="How often a firing that failed is tried again.")]
Conversation = Annotated[str | None, Option(help="A conversation, or `new` for each firing.")]


def _when(schedule: Any) -> str:
    return str(schedule["recurrence_rule"] or schedule["scheduled_time"])


COLUMNS = columns(
    name=lambda schedule: schedule["name"] or schedule["id"], agent="agent_id", when=_when
) | columns(
    "timezone", "status", next="next_run", error=lambda schedule: bool(schedule["last_error"])
)
FIELDS = (
    columns("name", "id", agent="agent_id", when=_when)
    | columns("timezone", "status", next="next_run")
    | columns("missed", "if_active", retries="retries_max")
    | columns("action", "last_error")
)


@app.command("list")
def list_(
    agent: Annotated[str | None, Option(help="Of this agent alone: its name or id.")] = None,
    failing: Annotated[bool, Option("--failing", help="Those whose last firing failed.")] = False,
    limit: Limit = LIST_ENTRIES,
) -> None:
    """List schedules, the newest first."""
    asked = {"agent_id": id_of(server(), AGENT, agent) if agent else None}
    schedules = server().pages(
        SCHEDULE.path, limit=limit, has_error=True if failing else None, **asked
    )
    show_rows(schedules, COLUMNS)


@app.command()
def get(schedule: Schedule) -> None:
    """Show a schedule: when it fires, what it does, and how its last firing went."""
    show(find(server(), SCHEDULE, schedule), FIELDS)


@app.command()
def create(
    agent: Agent,
    message: Message = None,
    at: At = None,
    cron: Cron = None,
    timezone: Timezone = None,
    name: Name = None,
    if_active: IfActive = None,
    conversation: Conversation = None,
) -> None:
    """Have an agent sent a message, once (--at) or again and again (--cron)."""
    if (at is None) == (cron is None):
        raise CommandError("Say when: either --at or --cron", ExitCode.USAGE)
    if message is None:
        raise CommandError("Say what the agent is sent: --message", ExitCode.USAGE)
    fields = _fields(message, at, cron, timezone, name=name, if_active=if_active)
    if conversation is not None:
        fields["conversation_id"] = conversation
    agent_id = id_of(server(), AGENT, agent)
    made = server().post(f"/v1/agents/{agent_id}/schedule", fields)
    say(f"It fires next at {made['next_run']}.")
    show(made, FIELDS)


@app.command("set")
def set_(
    schedule: Schedule,
    message: Message = None,
    at: At = None,
    cron: Cron = None,
    timezone: Timezone = None,
    missed: Missed = None,
    if_active: IfActive = None,
    retries: Retries = None,
) -> None:
    """Change what is given; it holds from the next slot on."""
    if at is not None and cron is not None:
        raise CommandError("Say one of --at and --cron", ExitCode.USAGE)
    fields = _fields(
        message, at, cron, timezone, missed=missed, if_active=if_active, retries_max=retries
    )
    if not fields:
        raise CommandError("Say what to change, as --cron or --message", ExitCode.USAGE)
    show(server().patch(_path(schedule), fields), FIELDS)


def _fields(
    message: str | None, at: str | None, cron: str | None, timezone: str | None, **others: Any
) -> dict[str, Any]:
    fields = {"message": message, "timezone": timezone, **others}
    if at is not None:
        fields |= {"schedule_type": "one_time", "scheduled_time": at}
    if cron is not None:
        fields |= {"schedule_type": "recurring", "recurrence_rule": cron}
    return given(fields)


@app.command()
def pause(schedule: Schedule) -> None:
    """Fire no slot until it is resumed."""
    show(server().post(f"{_path(schedule)}/pause"), FIELDS)


@app.command()
def resume(schedule: Schedule) -> None:
    """Fire the slots that come from now on."""
    show(server().post(f"{_path(schedule)}/resume"), FIELDS)


@app.command()
def fire(
    schedule: Schedule,
    again: Annotated[str | None, Option("--again", help="A firing that is a dead letter.")] = None,
) -> None:
    """Fire now, besides the slots."""
    body = {"firing_id": again} if again else {}
    fired = server().post(f"{_path(schedule)}/fire", body)
    show(fired, columns(firing="id", run="run_id", status="status"))


@app.command()
def firings(schedule: Schedule, limit: Limit = 20) -> None:
    """List what it has fired, the latest first: runs, attempts, errors."""
    fired = server().pages(f"{_path(schedule)}/firings", limit=limit)
    show_rows(
        fired,
        columns(
            firing="id",
            slot=lambda firing: firing["slot"] or "by hand",
            run="run_id",
            status="status",
            attempts="attempts",
            error="error",
        ),
    )


@app.command("next")
def next_(schedule: Schedule, count: Annotated[int, Option(help="How many.", min=1)] = 10) -> None:
    """Show when it fires next, in UTC and in its own time zone."""
    slots = server().get(f"{_path(schedule)}/next", count=count)
    show(slots)


@app.command()
def delete(schedule: Schedule, yes: Yes = False) -> None:
    """Delete a schedule; runs that it has started go on."""
    path = _path(schedule)
    confirm(f"Delete the schedule {schedule}?", yes=yes)
    server().delete(path)
    say(f"Deleted {path.rpartition('/')[2]}.")


def _path(schedule: str) -> str:
    found = find(server(), SCHEDULE, schedule)
    return f"/v1/agents/{found['agent_id']}/schedule/{found['id']}"
