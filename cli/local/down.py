"""`heeler down`."""

from __future__ import annotations

import typer

from cli.commands import Commands

app = Commands()


@app.command()
def down() -> None:
    """Stop the server on this machine; nothing happens when it does not run."""
    from deploy.embedded.settings import read_settings_of_home
    from deploy.embedded.up import down as stop

    raise typer.Exit(stop(read_settings_of_home()))
