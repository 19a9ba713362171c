"""`heeler migrate`: agents of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.letta_migration import letta
from cli.options import OPTIONS
from cli.output import say, show_json

app = noun("Move in: agents that other servers and tools keep.")
app.command()(letta)


@app.command("yaml")
def yaml_(
    paths: Annotated[list[Path], Argument(help="YAML files, or folders of them.")],
    to: Annotated[Path, Option("--to", help="The folder to write the TOML files into.")],
    force: Annotated[bool, Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write agents that are kept as YAML as TOML files.

    It knows fleets of lettactl, agents of CrewAI, `kind: Agent` with a `spec`, and single agents
    in these words. What it leaves out or changes, it says. No server is asked.
    """
    from cli.yaml_agents.migration import migrate

    done = list(migrate(paths, to, overwrite=force))
    if OPTIONS.json:
        show_json([each.as_json() for each in done])
    for each in done if not OPTIONS.json else ():
        print(f"{each.source} -> {each.written or 'not written'}")
        for line in (*each.problems, *each.remarks):
            print(f"    {line}")
    written = [each for each in done if each.written]
    say(f"Wrote {len(written)} agents into {to}. Look at them, then: heeler apply -f {to}")
    if any(each.problems for each in done):
        raise CommandError("Some agents cannot be applied as they are", ExitCode.REFUSED)
