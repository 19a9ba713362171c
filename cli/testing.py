"""`heeler test`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cli.commands import Commands
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS
from cli.output import say, show_json
from cli.server import Server, server

if TYPE_CHECKING:
    from cli.agent_tests.cases import Result
    from cli.agent_tests.scenario_files import ScenarioFile
    from libs.agent_toml.problems import Problem

WORKERS_MAX = 32

app = Commands()

Paths = Annotated[
    list[Path] | None, Argument(help="Scenario files, or folders of them; else this folder.")
]
Only = Annotated[
    str | None, Option("-k", metavar="TEXT", help="Only scenarios whose file or name has it.")
]
Workers = Annotated[int, Option("-n", help="So many at a time.", min=1, max=WORKERS_MAX)]
Junit = Annotated[
    Path | None, Option("--junit", metavar="FILE", help="Write the results as JUnit's XML.")
]
Real = Annotated[
    bool | None,
    Option(
        "--real/--record",
        show_default=False,
        help="Ask the agents' own models, which costs: in all scenarios, or in those that have a "
        "cassette, to record it.",
    ),
]
Keep = Annotated[bool, Option("--keep", help="Keep the agents, to look into their runs.")]
Start = Annotated[bool, Option("--start", help="Start a server for the tests alone.")]
UpdateTools = Annotated[
    bool, Option("--update-tools", help="Change tools of the server into those of the files.")
]


@app.command()
def run_scenarios(
    paths: Paths = None,
    only: Only = None,
    workers: Workers = 1,
    junit: Junit = None,
    real: Real = None,
    keep: Keep = False,
    start: Start = False,
    update_tools: UpdateTools = False,
) -> None:
    """Try scenarios on fresh agents: what they say, call, remember and cost."""
    from cli.agent_tests.cases import Mode
    from cli.agent_tests.fresh_agents import FreshAgents
    from cli.agent_tests.runner import run_all

    files = choose(paths or [Path()], only)
    with (
        tested_server(start) as tested,
        FreshAgents(tested, keep=keep, update_tools=update_tools) as agents,
    ):
        results = run_all(
            files, agents, workers, Mode(real=real is True, record=real is False), after_each=tell
        )
    conclude(results, junit)


@contextmanager
def tested_server(start: bool) -> Iterator[Server]:
    """The server that the command is for, or one that is started for these tests alone. A signal
    that ends the command is an interruption, so that nothing is left behind."""
    import signal

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        if not start:
            yield server()
            return
        from cli.agent_tests.own_server import own_server

        say("Starting a server for these tests ...")
        with own_server() as started:
            yield started
    finally:
        signal.signal(signal.SIGTERM, before)


def conclude(results: list[Result], junit: Path | None) -> None:
    """Write and print what came of all cases. Raises Exit where one did not pass."""
    from cli.agent_tests.reports import document_of, write_junit

    if junit:
        try:
            write_junit(junit, results)
        except OSError as problem:
            raise CommandError(f"{junit} cannot be written: {problem}", ExitCode.USAGE) from None
    if OPTIONS.json:
        show_json(document_of(results))
    failed = sum(not result.is_good for result in results)
    skipped = sum(result.status == "skipped" for result in results)
    passed = len(results) - failed - skipped
    costs = sum(result.cost_usd or 0 for result in results)
    say(
        f"{passed} passed, {failed} did not pass"
        + (f", {skipped} skipped" if skipped else "")
        + (f"; {costs:.4f} USD" if costs else "")
    )
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def choose(paths: list[Path], only: str | None) -> list[ScenarioFile]:
    """The scenarios to try. Raises CommandError."""
    from cli.agent_tests.found_files import found_in
    from cli.agent_tests.scenario_files import WrongScenario, read
    from libs.agent_toml import to_text

    for path in paths:
        if not path.exists():
            raise CommandError(f"There is no {path}", ExitCode.USAGE)
    files: list[ScenarioFile] = []
    wrong: list[Problem] = []
    for path in found_in(paths):
        try:
            files.append(read(path))
        except WrongScenario as problem:
            wrong += problem.problems
    if wrong:
        raise CommandError("\n".join(map(to_text, dict.fromkeys(wrong))), ExitCode.USAGE)
    if only:
        files = [file for file in files if only in f"{file.path} {file.scenario.scenario.name}"]
    if not files:
        raise CommandError("There are no scenarios to try", ExitCode.USAGE)
    return files


def tell(result: Result) -> None:
    """Print what came of a case."""
    from cli.agent_tests.reports import details_of, line_of

    if OPTIONS.json or (OPTIONS.quiet and result.is_good):
        return
    print(line_of(result))
    if not result.is_good:
        print(details_of(result), end="\n\n")
