"""`heeler up`."""

from __future__ import annotations

import typer

from cli.commands import Commands

app = Commands()


@app.command()
def up() -> None:
    """Start the server on this machine, and return when all of it is healthy."""
    from deploy.embedded.settings import read_settings
    from deploy.embedded.up import up as start

    raise typer.Exit(start(read_settings()))
