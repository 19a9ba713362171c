"""`heeler down`."""

from __future__ import annotations

import typer

from cli.commands import Commands
from cli.local.places import ChosenMode, Home, Mode, launch_variables, notes_apart
from cli.local.status import status_of
from cli.options import OPTIONS

app = Commands()


@app.local_command()
def down(mode: ChosenMode = Mode.EMBEDDED, home: Home = None) -> None:
    """Stop the server on this machine; nothing happens when it does not run.

    With --json it prints what `heeler status --json` does.
    """
    from deploy.embedded.settings import read_settings_of_home

    with launch_variables(home):
        if mode is Mode.COMPOSE:
            from deploy.containers.up import down as stop
        else:
            from deploy.embedded.up import down as stop
        with notes_apart():
            code = stop(read_settings_of_home())
        if OPTIONS.json:
            status_of(mode)
        raise typer.Exit(code)
