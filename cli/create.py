"""`heeler create`: new agents from a file, or from a template."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.fleet_options import FleetOptions
from cli.output import say

app = Commands()

OwnFolder = Annotated[
    Path | None,
    Option("--templates", envvar="HEELER_TEMPLATES", help="A folder of your own with templates."),
]


@app.command()
def create(
    config: Annotated[Path | None, Option("--config", help="The TOML file of the agent.")] = None,
    template: Annotated[
        str | None,
        Option("--template", help="Copy this template instead: `heeler templates starters`."),
    ] = None,
    templates: OwnFolder = None,
    to: Annotated[
        Path | None,
        Option("--to", help="--template: the new folder; without it, named like the agent."),
    ] = None,
    name: Annotated[str | None, Option(help="--template: what the agent is called.")] = None,
    model: Annotated[str | None, Option(help="--template: its model, as provider/name.")] = None,
    files_only: Annotated[
        bool, Option("--files-only", help="--template: write the files, and make no agent.")
    ] = False,
    fleet: Annotated[
        str | None,
        Option(metavar="NAME", help="Which fleet the agent is of, as for `heeler apply`."),
    ] = None,
) -> None:
    """Make a new agent of a TOML file, or of a template, whose files are yours from then on.

    Edit the files, and `heeler apply` changes the agent.
    """
    if (config is None) == (template is None):
        raise CommandError("Say either --config FILE or --template NAME", ExitCode.USAGE)
    if config is not None:
        if to or name or model or files_only:
            raise CommandError(
                "--to, --name, --model and --files-only belong to --template", ExitCode.USAGE
            )
        _make([config], fleet)
        return
    from cli import starter_folders

    assert template is not None
    target = to or Path(name or template)
    found = starter_folders.starter(template, templates)
    files = starter_folders.copy(found, target, name=name, model=model)
    say(f"Wrote {', '.join(str(file) for file in files)}")
    if not files_only:
        _make(files, fleet)


def _make(files: list[Path], fleet: str | None) -> None:
    from cli.fleet.command import apply_with_progress, compare_files, end, new_run

    for file in files:
        if file.is_dir():
            raise CommandError(
                f"{file} is a folder: use `heeler apply -f {file}` for all agents in it",
                ExitCode.USAGE,
            )
    run, found = new_run(FleetOptions(file=tuple(files), fleet=fleet))
    comparison = compare_files(run, found)
    agents = [unit for unit in comparison.plan.units if unit.kind == "agent"]
    for agent in agents:
        if agent.id is not None:
            raise CommandError(
                f"There is an agent '{agent.name}' ({agent.id}): change it with"
                f" `heeler apply -f {files[0]}`, or give this one another name",
                ExitCode.REFUSED,
            )
    end(comparison.plan, apply_with_progress(run, comparison))
    say(f"Talk to it: heeler agents chat {agents[0].name!r}")
