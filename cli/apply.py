"""`heeler apply`: agents as their files say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.output import confirm

app = Commands()

Files = Annotated[
    list[Path], Option("--file", "-f", help="A TOML file, or a folder of them; may be repeated.")
]
FleetName = Annotated[
    str | None,
    Option(
        "--fleet",
        help="What the agents of these files are called together. Without it: the name of the"
        " repository, or of the folder.",
    ),
]
Adopt = Annotated[
    bool, Option("--adopt", help="Take over agents, tools and MCP servers that others have made.")
]
ResetMemory = Annotated[
    bool,
    Option(
        "--reset-memory",
        help="Write the values of the files over what agents made of their memory blocks.",
    ),
]
Prune = Annotated[
    bool, Option("--prune", help="Delete the agents of this fleet whose files are gone.")
]


@app.command()
def apply(
    file: Files,
    prune: Prune = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would change.")] = False,
    watch: Annotated[
        bool, Option("--watch", help="Apply again whenever a file is saved, until Ctrl-C.")
    ] = False,
    poll: Annotated[
        bool,
        Option("--poll", help="With --watch: look at the files often, where no events come."),
    ] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Delete without asking.")] = False,
    adopt: Adopt = False,
    reset_memory: ResetMemory = False,
    fleet: FleetName = None,
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
    run, found = new_run(file, fleet, adopt=adopt, reset_memory=reset_memory, prune=prune)
    comparison = compare_files(run, found)
    if dry_run:
        show_plan(comparison)
        is_wrong = comparison.rejected_files or any(a.problems for a in comparison.plan.agents)
        raise Exit(ExitCode.REFUSED if is_wrong else ExitCode.OK)
    if deletions := comparison.plan.deletions:
        names = ", ".join(agent.name for agent in deletions)
        confirm(f"Delete {len(deletions)} agents ({names})?", yes=yes)
    outcomes = apply_with_progress(run, comparison)
    if watch:
        watch_files(run, comparison, poll=poll)
    end(outcomes)
