"""`heeler diff`: how the server's agents differ from their files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.fleet_options import FleetCommand, fleet_options

app = Commands()


@app.command(cls=FleetCommand)
def diff(
    prune: Annotated[
        bool, Option("--prune", help="Show also which agents would be deleted.")
    ] = False,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Write the plan to a file, for `heeler apply FILE`."),
    ] = None,
) -> None:
    """Show what `heeler apply` would change, field by field, and change nothing.

    Secrets need not be set: those that are not count as unchanged. The exit code is 0 where nothing
    differs, 1 where something does, and 4 where a file is wrong.
    """
    from cli.fleet.command import compare_files, new_run, show_plan, write_plan

    options = fleet_options()
    if not options.file:
        raise CommandError("Say which files: -f FILE or -f FOLDER", ExitCode.USAGE)
    run, fleet = new_run(options, prune=prune, needs_secrets=False)
    comparison = compare_files(run, fleet)
    show_plan(comparison)
    if output is not None:
        write_plan(run, comparison, output)
    if comparison.is_wrong:
        raise Exit(ExitCode.REFUSED)
    if comparison.differs:
        raise Exit(ExitCode.FAILED)
