"""`heeler status`."""

from __future__ import annotations

import typer

from cli.commands import Commands
from cli.local.places import ChosenMode, Home, Mode, launch_variables
from cli.options import OPTIONS

app = Commands()


@app.local_command()
def status(mode: ChosenMode = Mode.EMBEDDED, home: Home = None) -> None:
    """Show what runs on this machine; the exit code is 0 if all of it is healthy."""
    with launch_variables(home):
        raise typer.Exit(status_of(mode))


def status_of(mode: Mode) -> int:
    """Print what runs; 0 if all of it is healthy."""
    from deploy.embedded.settings import read_settings_of_home

    if mode is Mode.COMPOSE:
        from deploy.containers.up import status as show
    else:
        from deploy.embedded.status import status as show
    return show(read_settings_of_home(), as_json=OPTIONS.json)
