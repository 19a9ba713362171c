"""`heeler apply`: agents as their files say."""

from __future__ import annotations

from typing import Annotated

from typer import Exit, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.fleet_options import FleetCommand, fleet_options
from cli.output import confirm

app = Commands()


@app.command(cls=FleetCommand)
def apply(
    prune: Annotated[
        bool, Option("--prune", help="Delete the agents of this fleet whose files are gone.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would change.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Delete without asking.")] = False,
    watch: Annotated[
        bool, Option("--watch", help="Apply again whenever a file is saved, until Ctrl-C.")
    ] = False,
    poll: Annotated[
        bool,
        Option("--poll", help="With --watch: look at the files often, where no events come."),
    ] = False,
) -> None:
    """Make the server's agents what their TOML files say: create, change, and with --prune delete.

    Only what differs is sent, and a second time changes nothing. Memory that agents have written
    stays. A file that is wrong changes nothing; the others are applied, and the exit code is 4.
    With --watch a saved file counts from the agent's next run on.
    """
    from cli.fleet.command import (
        apply_with_progress,
        compare_files,
        end,
        new_run,
        show_plan,
        watch_files,
    )

    if watch and prune and not yes:
        text = "With --watch nobody is asked before agents are deleted: say so with --yes"
        raise CommandError(text, ExitCode.USAGE)
    run, fleet = new_run(fleet_options(), prune=prune)
    comparison = compare_files(run, fleet)
    if dry_run:
        show_plan(comparison)
        raise Exit(ExitCode.REFUSED if comparison.is_wrong else ExitCode.OK)
    if deletions := comparison.plan.deletions:
        names = ", ".join(agent.name for agent in deletions)
        confirm(f"Delete {len(deletions)} agents ({names})?", yes=yes)
    outcomes = apply_with_progress(run, comparison)
    if watch:
        watch_files(run, comparison, poll=poll)
    end(outcomes)
