"""`heeler admin`: what the operator of a server does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError
from cli.output import (
    columns,
    confirm,
    progress,
    say,
    show,
    show_lines,
    show_rows,
    show_text,
)
from cli.server import server
from cli.verbs import LIST_ENTRIES, Limit, Yes

if TYPE_CHECKING:
    from libs.eventstore.read_model_rebuild import Rebuilt

app = noun("The server's operator: read models, backups, dead letters.")
letters = noun("Messages that a service gave up.")
app.add_typer(letters, name="dead-letters")

POLL_SECONDS = 0.2
LETTERS = "/v1/admin/dead-letters"

Letter = Annotated[str, Argument(metavar="LETTER", help="Its id, as the list shows it.")]


@app.local_command()
def rebuild(
    service: Annotated[str | None, Option(help="The read models of this service alone.")] = None,
    table: Annotated[str | None, Option(help="This one alone; it goes with --service.")] = None,
    check: Annotated[
        bool, Option("--check", help="Compare, and change nothing; 1 if a row differs.")
    ] = False,
) -> None:
    """Write what clients read anew from the events, while the server on this machine serves."""
    from deploy.embedded.database_access import database_url
    from deploy.embedded.settings import read_settings_of_home
    from deploy.rebuild import owners, summary

    if table and not service:
        raise typer.BadParameter("--table goes with --service: name the service that has it")
    if service is not None and service not in owners():
        raise typer.BadParameter(f"--service is one of {', '.join(owners())}")
    url = database_url(read_settings_of_home())
    done = {
        name: _rebuilt(url, name, table, check=check)
        for name in ([service] if service else owners())
    }
    lines = (summary(name, rebuilt, only_compare=check) for name, rebuilt in done.items())
    show_lines(lines, [_as_json(name, rebuilt) for name, rebuilt in done.items()])
    if check and any(rebuilt.changed.total() for rebuilt in done.values()):
        raise CommandError("Rows differ from what the events say: run it without --check")


def _rebuilt(url: str, service: str, table: str | None, *, check: bool) -> Rebuilt:
    import psycopg

    from deploy import rebuild as rebuilding
    from libs.eventstore.event_decoding import UnknownEvent
    from libs.eventstore.read_model_rebuild import RebuildFailed

    with progress(f"Read the events of {service}", 100) as update:
        try:
            return rebuilding.rebuild(
                url,
                service,
                table,
                only_compare=check,
                advance=lambda events, in_all: update(100 * events // max(in_all, 1)),
            )
        except UnknownEvent as newer:
            raise CommandError(f"{newer} is for a newer Heeler: rebuild with that") from newer
        except (RebuildFailed, psycopg.Error) as problem:
            raise CommandError(f"{service}: the rebuild failed: {problem}") from problem


def _as_json(service: str, rebuilt: Rebuilt) -> dict[str, Any]:
    return {
        "service": service,
        "events": rebuilt.events,
        "seconds": round(rebuilt.seconds, 3),
        "changed": dict(rebuilt.changed),
    }


@app.local_command()
def backup(file: Annotated[Path, Argument(help="The file that is written.")]) -> None:
    """Write the database of the server on this machine into a file, while it serves."""
    from deploy.database_dumps import dump, unfinished_dump
    from deploy.embedded.database_access import postgres_programs
    from deploy.embedded.settings import read_settings_of_home

    programs = postgres_programs(read_settings_of_home())
    unfinished = unfinished_dump(file)

    def written() -> int:
        return unfinished.stat().st_size if unfinished.exists() else 0

    _shown("Write the database", None, written, lambda: dump(programs, file, say))
    show_text(str(file))


@app.local_command()
def restore(file: Annotated[Path, Argument(help="A file of `heeler admin backup`.")]) -> None:
    """Fill the database of a new server on this machine from such a file, and start it again."""
    from deploy import database_dumps
    from deploy.embedded.database_access import postgres_programs
    from deploy.embedded.settings import read_settings
    from deploy.embedded.up import down, up

    settings = read_settings()
    programs = postgres_programs(settings)
    opened: list[int] = []

    def read() -> int:
        try:
            return os.lseek(opened[-1], 0, os.SEEK_CUR) if opened else 0
        except OSError:  # it was closed meanwhile: all of it was read
            return 0

    size = file.stat().st_size if file.exists() else None
    _shown(
        "Read the file",
        size,
        read,
        lambda: database_dumps.restore(programs, file, say, opened.append),
    )
    down(settings)
    raise typer.Exit(up(settings))


def _shown(
    title: str, total: int | None, size: Callable[[], int], work: Callable[[], None]
) -> None:
    """Do work beside a bar that shows how far it is. Raises what the work raises."""
    problems: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=attempt)
    with progress(title, total) as update:
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            update(size())
    if problems:
        raise problems[0]


COLUMNS = columns("id", "service", message="name") | columns(
    "status", "attempts", last="last_at", error="error_text"
)
FIELDS = COLUMNS | columns("kind", "subject", correlation="correlation_id")
FIELDS |= columns("outcome", "payload")


@letters.command("list")
def list_(
    service: Annotated[str | None, Option(help="Of this service alone.")] = None,
    status: Annotated[str | None, Option(help="parked, replaying or replayed.")] = None,
    limit: Limit = LIST_ENTRIES,
) -> None:
    """List the messages that were given up, the latest first."""
    show_rows(server().pages(LETTERS, limit=limit, service=service, status=status), COLUMNS)


@letters.command("show")
def show_(letter: Letter) -> None:
    """Show a message, what is known of why it was given up, and what it says."""
    show(server().get(f"{LETTERS}/{letter}"), FIELDS)


@letters.command()
def replay(letter: Letter) -> None:
    """Have a message handled again, and show what came of it."""
    show(server().post(f"{LETTERS}/{letter}/replay"), FIELDS)


@letters.command()
def discard(letter: Letter, yes: Yes = False) -> None:
    """Delete a message: nothing is done about it any more."""
    confirm(f"Discard the dead letter {letter}?", yes=yes)
    server().delete(f"{LETTERS}/{letter}")
    say(f"Discarded {letter}.")
