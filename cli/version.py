"""`heeler version`."""

from __future__ import annotations

from cli.commands import Commands
from cli.output import show
from libs.contracts.version import HEELER_VERSION

app = Commands()


@app.command()
def version() -> None:
    """Show the version of this command."""
    show({"version": HEELER_VERSION}, {"heeler": "version"})
