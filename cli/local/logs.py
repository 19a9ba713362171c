"""`heeler logs`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS

app = Commands()


@app.local_command(has_json=False)
def logs(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PART]...", help="Of these alone: api, agent, postgres, ..."),
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", help="So many of each first.", min=0)] = 20,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Go on with what is written next.")
    ] = True,
) -> None:
    """Show what the parts of the server on this machine log, and go on until Ctrl-C."""
    import subprocess

    from deploy.embedded.settings import read_settings_of_home

    files = _files(read_settings_of_home().home / "logs", parts or [])
    alone = ["-q"] if OPTIONS.quiet else []  # no headings
    words = ["tail", "-n", str(lines), *alone, *(["-F"] if follow else []), *map(str, files)]
    raise typer.Exit(subprocess.run(words, check=False).returncode)


def _files(folder: Path, parts: list[str]) -> list[Path]:
    there = {file.stem: file for file in sorted(folder.glob("*.log"))}
    if not there:
        raise CommandError(f"There are no logs in {folder}: start with `heeler up`")
    for part in parts:
        if part not in there:
            close = difflib.get_close_matches(part, there, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(there)}"
            raise CommandError(f"No part '{part}' has a log: {hint}", ExitCode.NOT_FOUND)
    return [there[part] for part in parts] or list(there.values())
