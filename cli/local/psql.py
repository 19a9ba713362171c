"""`heeler psql`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands import Commands

app = Commands()

REST = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.local_command(has_json=False, context_settings=REST)
def psql(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Further words for psql, as -c 'select 1'."),
    ] = None,
) -> None:
    """Open the database of the server on this machine: every table can be read as SQL."""
    import os
    import subprocess

    from deploy.embedded.database_access import postgres_programs
    from deploy.embedded.settings import read_settings_of_home

    programs = postgres_programs(read_settings_of_home())
    command = [*programs.command("psql"), *(words or [])]
    raise typer.Exit(
        subprocess.run(command, env={**os.environ, **programs.environment}, check=False).returncode
    )
