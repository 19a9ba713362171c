"""`heeler diff`: how the server's agents differ from their files."""

from __future__ import annotations

from typing import Annotated

from typer import Exit, Option

from cli.commands import Commands
from cli.exit_codes import ExitCode
from cli.fleet_options import FleetCommand, fleet_options

app = Commands()


@app.command(cls=FleetCommand)
def diff(
    prune: Annotated[
        bool, Option("--prune", help="Show also which agents would be deleted.")
    ] = False,
) -> None:
    """Show what `heeler apply` would change, field by field, and change nothing.

    The exit code is 0 where nothing differs, 1 where something does, and 4 where a file is wrong.
    """
    from cli.fleet.command import compare_files, new_run, show_plan

    run, fleet = new_run(fleet_options(), prune=prune)
    comparison = compare_files(run, fleet)
    show_plan(comparison)
    if comparison.is_wrong:
        raise Exit(ExitCode.REFUSED)
    if comparison.differs:
        raise Exit(ExitCode.FAILED)
