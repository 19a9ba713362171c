"""`heeler validate`: what is wrong with the files of agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from cli.commands import Commands
from cli.exit_codes import ExitCode

app = Commands()


@app.command()
def validate(
    paths: Annotated[list[Path], Argument(help="TOML files, or folders of them.")],
    strict: Annotated[bool, Option("--strict", help="Take warnings for errors.")] = False,
    environment: Annotated[
        str | None,
        Option(
            "--environment",
            "-e",
            metavar="NAME",
            help="Whose security rules hold: development, staging or production; without it, what"
            " each file says.",
        ),
    ] = None,
    rules: Annotated[
        Path | None, Option("--rules", metavar="FILE", help="Security rules of your own, as TOML.")
    ] = None,
    on_server: Annotated[
        bool,
        Option("--on-server", help="Ask the server, too, whether it has the models and tools."),
    ] = False,
) -> None:
    """Check the files of agents: all that is wrong in each, with its line and how to mend it.

    No server is needed. The exit code is 4 if there is an error.
    """
    from cli.agent_file_checks import check_files, rule_set, show_problems

    catalogue = None
    if on_server:
        from cli.server import server
        from cli.server_catalogue import catalogue_of

        catalogue = catalogue_of(server())
    problems, count = check_files(paths, rule_set(rules, environment), catalogue)
    if strict:
        problems = [problem.model_copy(update={"severity": "error"}) for problem in problems]
    show_problems(problems, count)
    if any(problem.severity == "error" for problem in problems):
        raise Exit(ExitCode.REFUSED)
