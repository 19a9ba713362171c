"""`heeler doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.local.places import Home, launch_variables
from cli.options import OPTIONS

app = Commands()


@app.local_command()
def doctor(
    checks: Annotated[
        list[str] | None, typer.Argument(metavar="CHECK", help="Make these checks alone.")
    ] = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Ask models for a tool call, too, which may cost a little."),
    ] = False,
    home: Home = None,
) -> None:
    """Look at everything that the server needs, and say how to mend what is wrong.

    Run it where the server runs, with the same environment. The server may run or not. Nothing is
    changed, and no key or password is shown. The exit code is 1 if there is a problem.
    """
    from deploy.doctor.examination import CHECKS
    from deploy.doctor.examined import Examined
    from deploy.doctor.report import doctor as examine

    chosen = checks or []
    if unknown := [name for name in chosen if name not in CHECKS]:
        raise CommandError(
            f"No such check: {', '.join(unknown)}. There are {', '.join(CHECKS)}", ExitCode.USAGE
        )
    with launch_variables(home):
        examined = Examined(deep=deep)
        raise typer.Exit(examine(examined, chosen, as_json=OPTIONS.json, quiet=OPTIONS.quiet))
