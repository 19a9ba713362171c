"""`heeler apply`: agents as their files say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.fleet_options import FleetCommand, FleetOptions, fleet_options

app = Commands()


@app.command(cls=FleetCommand)
def apply(
    plan: Annotated[
        Path | None, Argument(metavar="PLAN", help="A plan that `heeler diff -o` wrote.")
    ] = None,
    prune: Annotated[
        bool, Option("--prune", help="Delete the agents of this fleet whose files are gone.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would change.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Delete without asking.")] = False,
    watch: Annotated[
        bool, Option("--watch", help="Apply again whenever a file is saved, until Ctrl-C.")
    ] = False,
    poll: Annotated[
        bool, Option("--poll", help="With --watch: look at the files often, where no events come.")
    ] = False,
) -> None:
    """Make the server's agents what their TOML files say: create, change, and with --prune delete.

    The server plans it and applies the plan, one of a fleet at a time; a second time changes
    nothing. Memory that agents have written stays. A file that is wrong changes nothing; the others
    are applied, and the exit code is 4. With --watch a saved file counts from the agent's next run
    on.
    """
    from cli.fleet import command

    options = fleet_options()
    if plan is not None:
        if options != FleetOptions() or prune or dry_run or watch or poll:
            words = "A plan says all: give it alone, or name files and folders with -f"
            raise CommandError(words, ExitCode.USAGE)
        command.apply_written_plan(plan, yes=yes)
        return
    if not options.file:
        raise CommandError("Say which files: -f FILE or -f FOLDER", ExitCode.USAGE)
    if watch and prune and not yes:
        text = "With --watch nobody is asked before agents are deleted: say so with --yes"
        raise CommandError(text, ExitCode.USAGE)
    run, fleet = command.new_run(options, prune=prune)
    comparison = command.compare_files(run, fleet)
    if dry_run:
        command.show_plan(comparison)
        raise Exit(ExitCode.REFUSED if comparison.is_wrong else ExitCode.OK)
    command.confirm_deletions(run.server, fleet.fleet.name, comparison.plan, yes=yes)
    outcomes = command.apply_with_progress(run, comparison)
    if watch:
        command.watch_files(run, comparison, poll=poll)
    command.end(comparison.plan, outcomes)
