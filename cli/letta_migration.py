"""`heeler migrate letta`: the agents of a Letta server, from its database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cli.exit_codes import CommandError
from cli.output import progress, say, show_lines
from cli.server import address

if TYPE_CHECKING:
    from deploy.letta_migration.migration import Migration
    from deploy.letta_migration.report import Report
    from deploy.letta_migration.secrets import Opener


def letta(
    source: Annotated[str, Argument(help="The old server's database: postgres://...")],
    organisation: Annotated[
        str | None, Option(help="Which one, where there are several: id or name.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Read and report, send nothing.")] = False,
    last: Annotated[
        bool, Option("--last", help="The old server has stopped: end its runs.")
    ] = False,
    file: Annotated[Path | None, Option(help="Write an agent file instead of sending it.")] = None,
    state: Annotated[
        Path | None, Option(help="The folder that remembers what was taken over.")
    ] = None,
    unencrypted: Annotated[
        bool, Option("--unencrypted", help="The old server had no LETTA_ENCRYPTION_KEY.")
    ] = False,
) -> None:
    """Take over the agents of a Letta server 0.16, with their ids, memory and messages.

    It may be run again, and takes over what is new; see docs/moving-in.md.
    """
    from deploy.letta_migration.secrets import Opener

    opener = Opener(os.environ.get("LETTA_ENCRYPTION_KEY"), assume_plain=unencrypted)
    with _explained(), progress("Import", 100) as update:
        migration = _migration(source, organisation, state, opener, is_last=last, update=update)
        report = _run(migration, file, dry_run=dry_run)
    show_lines([report.as_text()], report.as_json())


def _migration(
    source: str,
    organisation: str | None,
    state: Path | None,
    opener: Opener,
    *,
    is_last: bool,
    update: Callable[[int], None],
) -> Migration:
    from deploy.embedded.settings import read_settings_of_home
    from deploy.letta_migration.__main__ import FOLDER, sealer_of
    from deploy.letta_migration.migration import Migration
    from deploy.letta_migration.target import Target

    home, where = read_settings_of_home().home, address()
    return Migration(
        source=source,
        organisation=organisation,
        folder=state or home / FOLDER,
        target=Target(where.url, where.key),
        opener=opener,
        sealer=sealer_of(home),
        is_last=is_last,
        tell=say,
        advance=lambda done, total: update(100 * done // max(total, 1)),
    )


def _run(migration: Migration, file: Path | None, *, dry_run: bool) -> Report:
    if dry_run:
        return migration.dry_run()
    return migration.write(file) if file else migration.run()


@contextmanager
def _explained() -> Iterator[None]:
    """Puts what a migration raises into words."""
    import psycopg

    from deploy.letta_migration.target import TargetProblem
    from deploy.letta_migration.versions import UnknownDatabase

    try:
        yield
    except (UnknownDatabase, TargetProblem) as problem:
        raise CommandError(str(problem)) from problem
    except psycopg.Error as problem:
        raise CommandError(f"The database of the old server: {problem}") from problem
