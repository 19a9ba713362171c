"""`heeler test`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS
from cli.output import say, show_json
from cli.server import server

if TYPE_CHECKING:
    from cli.agent_tests.cases import Result
    from cli.agent_tests.scenario_files import ScenarioFile

WORKERS_MAX = 32

app = Commands()


@app.command()
def try_scenarios(
    paths: Annotated[
        list[Path] | None, Argument(help="Scenario files, or folders of them; else this folder.")
    ] = None,
    only: Annotated[
        str | None, Option("-k", metavar="TEXT", help="Only scenarios whose file or name has it.")
    ] = None,
    workers: Annotated[int, Option("-n", help="So many at a time.", min=1, max=WORKERS_MAX)] = 1,
    junit: Annotated[
        Path | None, Option(metavar="FILE", help="Write the results as JUnit's XML.")
    ] = None,
) -> None:
    """Try scenarios on fresh agents: what they say, call, remember and cost."""
    from cli.agent_tests.fresh_agents import FreshAgents
    from cli.agent_tests.reports import document_of, write_junit
    from cli.agent_tests.runner import run_all

    files = choose(paths or [Path()], only)
    results = run_all(files, FreshAgents(server()), workers, after_each=tell)
    if junit:
        write_junit(junit, results)
    if OPTIONS.json:
        show_json(document_of(results))
    failed = sum(result.status != "passed" for result in results)
    say(f"{len(results) - failed} passed, {failed} did not")
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def choose(paths: list[Path], only: str | None) -> list[ScenarioFile]:
    """The scenarios to try. Raises CommandError."""
    from cli.agent_tests.scenario_files import WrongScenario, found_in, read

    for path in paths:
        if not path.exists():
            raise CommandError(f"There is no {path}", ExitCode.USAGE)
    files, wrong = [], []
    for path in found_in(paths):
        try:
            files.append(read(path))
        except WrongScenario as problem:
            wrong.append(str(problem))
    if wrong:
        raise CommandError("\n".join(wrong), ExitCode.USAGE)
    if only:
        files = [file for file in files if only in f"{file.path} {file.scenario.scenario.name}"]
    if not files:
        raise CommandError("There are no scenarios to try", ExitCode.USAGE)
    return files


def tell(result: Result) -> None:
    """Print what came of a case."""
    from cli.agent_tests.reports import details_of, line_of

    if OPTIONS.json or (OPTIONS.quiet and result.status == "passed"):
        return
    print(line_of(result))
    if result.status != "passed":
        print(details_of(result), end="\n\n")
