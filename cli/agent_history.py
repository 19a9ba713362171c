"""Events of an agent, its differences from an earlier state, and the ways back."""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Annotated, Any

from typer import Argument, Option

from cli.imports import wait_for_import
from cli.names import AGENT, id_of
from cli.options import OPTIONS
from cli.output import columns, say, show, show_json, show_line, show_made, show_rows, write
from cli.server import given, server
from cli.verbs import name_or_id
from libs.contracts.outside_texts import lines_of

FOLLOW_SECONDS = 1.0
MOMENT = "the id of an event (heeler agents history), or a time in ISO 8601"
PARTS = ("blocks", "configuration", "context")

Agent = Annotated[str, name_or_id(AGENT)]

EVENTS = columns(event="id", when="occurred_at", what="topic", summary="summary")


def history(
    agent: Agent,
    limit: Annotated[int, Option(help="At most so many.", min=1)] = 50,
    topic: Annotated[
        list[str] | None, Option(help="Only these, as block.changed; may be repeated.")
    ] = None,
    since: Annotated[str | None, Option(help="Only from this time on.")] = None,
    until: Annotated[str | None, Option(help="Only up to this time.")] = None,
    payload: Annotated[
        bool, Option("--payload", help="With all that was recorded (with --json).")
    ] = False,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
) -> None:
    """List what happened to an agent, the newest first.

    With --follow the newest is the last.
    """
    path = f"/v1/agents/{id_of(server(), AGENT, agent)}/events"
    query: dict[str, Any] = {
        "topic": topic,
        "since": since,
        "until": until,
        "include": ["payload"] if payload else None,
    }
    # Pages are cut at a size, too, where they have payloads.
    events = server().entries_after(None, path, query, limit)
    if not follow:
        show_rows(events, EVENTS)
        return
    for event in _follow(path, list(events)[::-1], query):
        if OPTIONS.json:
            show_line(event)
        else:
            write("  ".join(str(event[field]) for field in ("occurred_at", "topic", "summary")))


def _follow(path: str, begun: list[Any], query: dict[str, Any]) -> Iterator[Any]:
    """These events, and all that come after them."""
    yield from begun
    last = begun[-1]["id"] if begun else None
    while True:
        sleep(FOLLOW_SECONDS)
        for event in server().entries_after(last, path, {**query, "order": "asc"}):
            last = event["id"]
            yield event


def diff(
    agent: Agent,
    before: Annotated[str, Argument(metavar="FROM", help=f"Since when: {MOMENT}.")],
    after: Annotated[str | None, Argument(metavar="TO", help="Until when; now.")] = None,
) -> None:
    """Compare an agent at two moments."""
    path = f"/v1/agents/{id_of(server(), AGENT, agent)}/diff"
    difference = server().get(path, **{"from": before, "to": after})
    if OPTIONS.json:
        show_json(difference)
        return
    lines = list(_difference_lines(difference))
    for line in lines:
        write(line)
    if not lines:
        say("Nothing differs.")


def _difference_lines(difference: Any) -> Iterator[str]:
    for field, change in difference["configuration"].items():
        yield f"{field}: {change['before']!r} → {change['after']!r}"
    for part in ("blocks", "tools", "folders"):
        changes = difference[part]
        for mark, key in (("+", "added"), ("-", "removed")):
            for entry in changes[key]:
                yield f"{mark} {part[:-1]} {_name(entry)}"
        for entry in changes["changed"]:
            yield f"~ {part[:-1]} {_name(entry)}"
            for key in ("value_diff", "source_code_diff"):
                yield from (f"  {line}" for line in lines_of(entry.get(key) or ""))
    for part in ("messages", "context", "passages"):
        changes = difference[part]
        for mark, key in (("+", "added"), ("-", "removed")):
            if count := changes[key]["total"]:
                yield f"{mark} {part}: {count}"


def _name(entry: Any) -> str:
    return str(entry.get("label") or entry.get("name") or entry.get("id"))


def restore(
    agent: Agent,
    at: Annotated[str, Argument(help=f"As it was then: {MOMENT}.")],
    what: Annotated[
        list[str] | None,
        Option(help="blocks, configuration, context; all three without it. May be repeated."),
    ] = None,
) -> None:
    """Give an agent back what it had at a moment.

    Nothing is erased, and another restore undoes it.
    """
    agent_id = id_of(server(), AGENT, agent)
    body = {"at": at, "what": what or list(PARTS)}
    restored = server().post(f"/v1/agents/{agent_id}/restore", body)
    show(restored, columns("name", "id"))
    say(f"Restored {', '.join(body['what'])}.")


def fork(
    agent: Agent,
    at: Annotated[str | None, Option(help=f"As it was then: {MOMENT}.")] = None,
    name: Annotated[str | None, Option(help="What the new agent is called.")] = None,
) -> None:
    """Make an agent that is what another is, or was."""
    path = f"/v1/agents/{id_of(server(), AGENT, agent)}/fork"
    forking = server().post(path, given({"at": at, "name": name, "background": True}))
    [agent_id] = wait_for_import(forking, "Forking")["agent_ids"]
    show_made(server().get(f"/v1/agents/{agent_id}"))
