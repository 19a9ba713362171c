"""`heeler watch`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands import Commands

app = Commands()


@app.local_command(has_json=False)
def watch(
    everything: Annotated[
        bool, typer.Option("--all", help="Commands and deltas, too, not events alone.")
    ] = False,
    count: Annotated[int | None, typer.Option(help="Stop after so many messages.", min=1)] = None,
    request: Annotated[
        str | None, typer.Option(help="Only what belongs to this request: its correlation id.")
    ] = None,
) -> None:
    """Print the messages on the bus of the server on this machine, until Ctrl-C."""
    import asyncio

    from deploy.embedded.settings import read_settings_of_home
    from deploy.embedded.state import require_running
    from deploy.embedded.watch import watch as follow

    url = require_running(read_settings_of_home().home).urls["nats_watch"]
    followed = follow(url, everything=everything, count=count, correlation_id=request)
    raise typer.Exit(asyncio.run(followed))
