"""`heeler status`."""

from __future__ import annotations

import typer

from cli.commands import Commands
from cli.options import OPTIONS

app = Commands()


@app.command()
def status() -> None:
    """Show what runs on this machine; the exit code is 0 if all of it is healthy."""
    from deploy.embedded.settings import read_settings
    from deploy.embedded.status import status as show

    raise typer.Exit(show(read_settings(), as_json=OPTIONS.json))
