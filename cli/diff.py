"""`heeler diff`: how the server's agents differ from their files."""

from __future__ import annotations

from typer import Exit

from cli.apply import Adopt, Files, FleetName, Prune, ResetMemory
from cli.commands import Commands
from cli.exit_codes import ExitCode

app = Commands()


@app.command()
def diff(
    file: Files,
    prune: Prune = False,
    adopt: Adopt = False,
    reset_memory: ResetMemory = False,
    fleet: FleetName = None,
) -> None:
    """Show what `heeler apply` would change, field by field, and change nothing.

    The exit code is 0 where nothing differs, 1 where something does, and 4 where a file is wrong.
    """
    from cli.fleet.command import compare_files, new_run, show_plan

    run, found = new_run(file, fleet, adopt=adopt, reset_memory=reset_memory, prune=prune)
    comparison = compare_files(run, found)
    show_plan(comparison)
    if comparison.rejected_files or any(agent.problems for agent in comparison.plan.agents):
        raise Exit(ExitCode.REFUSED)
    if comparison.differs:
        raise Exit(ExitCode.FAILED)
