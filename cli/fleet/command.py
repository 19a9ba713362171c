"""Common parts of the commands about fleets."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from cli.agent_file_checks import rule_set
from cli.exit_codes import CommandError, ExitCode
from cli.fleet.checks import ServerChecks
from cli.fleet.files import Fleet, UnsetVariables, files_of, fleet_of, read_agents
from cli.fleet.run import Asked, Comparison, FleetServer, Outcome, Plan, Run
from cli.fleet.server_transport import Transport
from cli.fleet.settings import values_of
from cli.fleet.view import (
    counts_of_outcomes,
    counts_of_plan,
    outcome_document,
    outcome_line,
    plan_document,
    plan_lines,
    planned_summary,
    problem_lines,
    summary,
    warnings_of,
    ways_back,
)
from cli.fleet.wakeups import wakeups
from cli.fleet.watching import Watcher
from cli.fleet_options import FleetOptions
from cli.options import OPTIONS
from cli.output import confirm, progress, say, show_json, show_line, warn, write
from cli.server import server, server_at
from libs.agent_toml.tables import ENVIRONMENTS
from libs.contracts.outside_texts import decode_text


def new_run(
    asked: FleetOptions, *, prune: bool = False, needs_secrets: bool = True
) -> tuple[Run, Fleet]:
    """The run that compares and applies the wanted files, and their fleet. Where no secrets are
    needed, those that are not set count as unchanged. Raises CommandError."""
    fleet = fleet_of(asked.file, asked.fleet)
    for option, is_asked in (("--prune", prune), ("--adopt", asked.adopt)):
        if is_asked:
            fleet.fleet.require(option)
    known = fleet.environment(asked.environment)
    transport = Transport(server_at(known.server) if known.server else server())
    values = values_of(known, os.environ)
    checks = ServerChecks(
        transport,
        rule_set(asked.rules, rules_of(fleet, asked.environment)),
        values if needs_secrets else UnsetVariables(values),
    )
    most = known.prune_max if asked.prune_max is None else asked.prune_max
    wanted = Asked(adopt=asked.adopt, prune=prune, prune_max=most, reset_memory=asked.reset_memory)
    return Run(FleetServer.of(transport, fleet), wanted, checks), fleet


def rules_of(fleet: Fleet, environment: str | None) -> str | None:
    """The name of the security rules of an environment, which a fleet's environment may set."""
    named = fleet.settings.environments if fleet.settings else {}
    if environment is None or environment not in named:
        return environment
    return named[environment].rules or (environment if environment in ENVIRONMENTS else None)


def compare_files(run: Run, fleet: Fleet) -> Comparison:
    """The files against the server, with what is wrong told on stderr."""
    files = files_of(fleet)
    if not files:
        warn(f"There is no TOML file of an agent in {', '.join(map(str, fleet.paths))}")
    fleet.refuse_others(files)
    comparison = run.compare(fleet, read_agents(fleet, files, run.checks.current()))
    if not OPTIONS.json:
        for line in problem_lines(comparison):
            warn(line)
    return comparison


def show_plan(comparison: Comparison) -> None:
    """Show what is to change on the server."""
    if OPTIONS.json:
        show_json(plan_document(comparison))
        return
    for line in plan_lines(comparison.plan):
        write(line)
    write(planned_summary(counts_of_plan(comparison)))


def write_plan(run: Run, comparison: Comparison, file: Path) -> None:
    """Write which plan it is, for `heeler apply FILE`: there are no secrets in it."""
    plan = comparison.plan
    document = {"server": run.server.where, "fleet": plan.fleet_id, "plan": plan.document}
    file.write_text(json.dumps(document, indent=2) + "\n")
    say(f"Wrote {file}. Apply it within a day: heeler apply {file}")


def read_plan(file: Path) -> tuple[FleetServer, Plan]:
    """The plan of a file, and the server that keeps it. Raises CommandError."""
    if not file.exists():
        raise CommandError(f"There is no file {file}", ExitCode.NOT_FOUND)
    try:
        document = json.loads(decode_text(file.read_bytes()))
        plan = Plan.of(document["plan"])
        place = str(document["server"])
    except (OSError, ValueError, KeyError, TypeError):
        words = f"{file} is no plan of `heeler diff -o`: name files and folders of agents with -f"
        raise CommandError(words, ExitCode.USAGE) from None
    return FleetServer(Transport(server_at(place)), plan.fleet_id), plan


def apply_written_plan(file: Path, *, yes: bool) -> None:
    """Apply the plan of a file, as it was made."""
    fleet, plan = read_plan(file)
    name = fleet.transport.get(fleet.path)["name"]
    if not OPTIONS.json:
        for line in plan_lines(plan):
            write(line)
    confirm_deletions(fleet, name, plan, yes=yes)
    found = fleet.apply_all(plan)
    show_outcomes(name, plan, found)
    end(plan, found)


def confirm_deletions(run: FleetServer, fleet: str, plan: Plan, *, yes: bool) -> None:
    """Ask before agents are deleted, with their names and ids, the fleet and the server. Raises
    CommandError, also for a plan that cannot be applied."""
    if plan.problem:
        raise CommandError(plan.problem, ExitCode.REFUSED)
    if deletions := plan.deletions:
        for unit in deletions:
            say(f"- {unit.name} ({unit.id})")
        what = "agent" if len(deletions) == 1 else "agents"
        confirm(f"Delete {len(deletions)} {what} of the fleet '{fleet}' on {run.where}?", yes=yes)


def apply_with_progress(run: Run, comparison: Comparison) -> list[Outcome]:
    """Have it all applied, and show what came of each thing."""
    total = sum(unit.action != "unchanged" for unit in comparison.plan.units)
    done = 0
    with progress("Applying", total) as advance:

        def report(_: Outcome) -> None:
            nonlocal done
            done += 1
            advance(done)

        try:
            found = run.apply(comparison, report=report)
        except (CommandError, KeyboardInterrupt) as problem:
            if getattr(problem, "code", ExitCode.UNREACHABLE) == ExitCode.UNREACHABLE:
                say(f"{done} of {total} were done, and the server goes on: heeler fleet history")
            raise
    show_outcomes(comparison.fleet.fleet.name, comparison.plan, found, comparison)
    return found


def show_outcomes(
    fleet: str, plan: Plan, found: Sequence[Outcome], comparison: Comparison | None = None
) -> None:
    """Print the outcome of each thing, remarks, and the ways to restore deleted things.

    Args:
        comparison: the files, if their problems were told already.
    """
    if OPTIONS.json:
        rejected = comparison.rejected_files if comparison else ()
        show_json(outcome_document(fleet, plan, found, rejected))
        return
    for outcome in found:
        if outcome.failed:
            if comparison is None or not outcome.plan.problems:
                warn(outcome_line(outcome))
        elif outcome.action != "unchanged" and not OPTIONS.quiet:
            write(outcome_line(outcome))
    for note in plan.notes:
        warn(f"! {note}")
    write(summary(counts_of_outcomes(found)))
    for number, line in enumerate(ways_back(found)):
        say(line if number else f"To have again what was deleted, as it was:\n{line}")


def watch_files(
    run: Run, comparison: Comparison, *, poll: bool, stop: threading.Event | None = None
) -> None:
    """Apply files whenever they are saved, until Ctrl-C or until `stop` is set."""

    shown_warnings = set(warnings_of(comparison))

    def tell(comparison: Comparison, outcomes: Sequence[Outcome]) -> None:
        if OPTIONS.json:
            name, rejected = comparison.fleet.fleet.name, comparison.rejected_files
            show_line(outcome_document(name, comparison.plan, outcomes, rejected))
            return
        for line in problem_lines(comparison, without=shown_warnings):
            warn(line)
        shown_warnings.update(warnings_of(comparison))
        for outcome in outcomes:
            if outcome.failed:
                kept = f"; the agent {outcome.agent_id} is as before" if outcome.agent_id else ""
                warn(f"{outcome_line(outcome)}{kept}")
            elif outcome.action != "unchanged":
                write(f"{time.strftime('%H:%M:%S')} {outcome_line(outcome)}")

    again = replace(run, asked=replace(run.asked, reset_memory=()))
    watcher = Watcher(again, comparison.fleet, tell, say)
    watcher.know(comparison.files)
    folders = sorted({path if path.is_dir() else path.parent for path in comparison.fleet.paths})
    say(f"Watching {', '.join(map(str, folders))}; Ctrl-C ends it.")
    for _ in wakeups(folders, is_busy=lambda: watcher.is_busy, poll=poll, stop=stop):
        watcher.look(time.monotonic())


def end(plan: Plan, outcomes: Sequence[Outcome]) -> None:
    """End the command with the exit code for what came of all agents; the notes of a plan say what
    is not pruned."""
    if plan.notes or any(outcome.failed for outcome in outcomes):
        raise typer.Exit(ExitCode.REFUSED)
