"""`heeler create`: a new agent from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from cli.apply import FleetName
from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.output import say

app = Commands()


@app.command()
def create(
    config: Annotated[Path, Option("--config", help="The TOML file of the agent.")],
    fleet: FleetName = None,
) -> None:
    """Make a new agent of a TOML file. From then on `heeler apply` changes it."""
    from cli.fleet.command import apply_with_progress, compare_files, end, new_run

    if config.is_dir():
        raise CommandError(
            f"{config} is a folder: use `heeler apply -f {config}` for all agents in it",
            ExitCode.USAGE,
        )
    run, found = new_run([config], fleet)
    comparison = compare_files(run, found)
    for agent in comparison.plan.agents:
        if agent.agent_id is not None:
            raise CommandError(
                f"There is an agent '{agent.name}' ({agent.agent_id}): change it with"
                f" `heeler apply -f {config}`",
                ExitCode.REFUSED,
            )
    end(apply_with_progress(run, comparison))
    say(f"Talk to it: heeler agents chat {comparison.plan.agents[0].name!r}")
