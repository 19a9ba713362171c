"""`heeler up`."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from cli.commands import Commands
from cli.local.places import ChosenMode, Home, Mode, launch_variables, notes_apart
from cli.local.status import status_of
from cli.options import OPTIONS

app = Commands()

Port = Annotated[int | None, Option("--port", help="Where the API listens (HEELER_PORT).")]
Processes = Annotated[
    str | None,
    Option("--processes", metavar="each|one", help="A process for each service, or one for all."),
]
Replicas = Annotated[int | None, Option("--replicas", help="Processes of each service.")]
Foreground = Annotated[
    bool, Option("--foreground", help="Stay, log to stderr, and stop on SIGTERM: for systemd.")
]


@app.local_command()
def up(
    mode: ChosenMode = Mode.EMBEDDED,
    home: Home = None,
    port: Port = None,
    processes: Processes = None,
    replicas: Replicas = None,
    foreground: Foreground = False,
) -> None:
    """Start the server on this machine, and return when all of it is healthy.

    With --json it prints what `heeler status --json` does.
    """
    with launch_variables(
        home, HEELER_PORT=port, HEELER_PROCESSES=processes, HEELER_REPLICAS=replicas
    ):
        with notes_apart():
            code = _start(mode, foreground=foreground)
        if OPTIONS.json and not foreground:
            code = status_of(mode) or code
        raise typer.Exit(code)


def _start(mode: Mode, *, foreground: bool) -> int:
    from deploy.embedded.settings import LaunchError, read_settings

    if mode is Mode.COMPOSE:
        from deploy.containers.up import up as start_containers

        if foreground:
            raise LaunchError("--foreground is for --mode embedded: the engine keeps containers up")
        return start_containers(read_settings())
    if foreground:
        from deploy.embedded.up import run

        return run(read_settings())
    from deploy.embedded.up import up as start

    return start(read_settings())
