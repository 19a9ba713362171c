"""What the commands that speak of fleets have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import typer

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.apply import Outcome
from cli.fleet.checks import ServerChecks, rule_set
from cli.fleet.files import Fleet, files_of, fleet_of, read_agents
from cli.fleet.journal import journal_of
from cli.fleet.plan_parts import Policy
from cli.fleet.run import Comparison, Run
from cli.fleet.server_transport import ServerTransport
from cli.fleet.view import (
    counts_of_outcomes,
    counts_of_plan,
    outcome_document,
    outcome_line,
    plan_document,
    plan_lines,
    problem_lines,
    summary,
    warnings_of,
)
from cli.fleet.wakeups import wakeups
from cli.fleet.watching import Watcher
from cli.fleet_options import FleetOptions
from cli.options import OPTIONS
from cli.output import progress, say, show_json, show_line, warn, write
from cli.server import server


def new_run(asked: FleetOptions, *, prune: bool = False) -> tuple[Run, Fleet]:
    """What compares and applies the files that were asked for, and the fleet that they are."""
    fleet = fleet_of(asked.file, asked.fleet)
    policy = Policy(fleet=fleet.name, adopt=asked.adopt, reset_memory=asked.reset_memory)
    where = server()
    transport = ServerTransport(where)
    checks = ServerChecks(transport, rule_set(asked.rules, asked.environment))
    journal = journal_of(where.where.url, fleet.root)
    return Run(transport, policy, checks, prune=prune, journal=journal), fleet


def compare_files(run: Run, fleet: Fleet) -> Comparison:
    """The files against the server, with what is wrong told on stderr."""
    files = files_of(fleet)
    comparison = run.compare(fleet, read_agents(fleet, files, run.checks.current()))
    if not OPTIONS.json:
        for line in problem_lines(comparison):
            warn(line)
    return comparison


def show_plan(comparison: Comparison) -> None:
    """Show what would change on the server."""
    if OPTIONS.json:
        show_json(plan_document(comparison))
        return
    for line in plan_lines(comparison.plan):
        write(line)
    write(summary(counts_of_plan(comparison)))


def apply_with_progress(run: Run, comparison: Comparison) -> list[Outcome]:
    """Send it all, and show what came of each agent."""
    total = len(comparison.plan.agents) + len(comparison.plan.deletions)
    outcomes: list[Outcome] = []
    lock = threading.Lock()
    with progress("Applying", total) as advance:

        def report(outcome: Outcome) -> None:
            with lock:
                outcomes.append(outcome)
                advance(len(outcomes))

        try:
            found = run.apply(comparison, report=report)
        except CommandError:
            say(
                f"{len(outcomes)} of {total} agents were done. Run it again: it goes on from there."
            )
            raise
    if OPTIONS.json:
        show_json(outcome_document(comparison, found))
        return found
    for outcome in found:
        if outcome.failed:
            warn(outcome_line(outcome))
        elif outcome.action != "unchanged" and not OPTIONS.quiet:
            write(outcome_line(outcome))
    write(summary(counts_of_outcomes(found)))
    return found


def watch_files(
    run: Run, comparison: Comparison, *, poll: bool, stop: threading.Event | None = None
) -> None:
    """Apply files whenever they are saved, until Ctrl-C or until `stop` is set."""

    told = set(warnings_of(comparison))

    def tell(comparison: Comparison, outcomes: Sequence[Outcome]) -> None:
        if OPTIONS.json:
            show_line(outcome_document(comparison, outcomes))
            return
        for line in problem_lines(comparison, without=told):
            warn(line)
        told.update(warnings_of(comparison))
        for outcome in outcomes:
            if outcome.failed:
                kept = f"; the agent {outcome.agent_id} is as before" if outcome.agent_id else ""
                warn(f"{outcome_line(outcome)}{kept}")
            elif outcome.action != "unchanged":
                write(f"{time.strftime('%H:%M:%S')} {outcome_line(outcome)}")

    again = replace(run, policy=replace(run.policy, reset_memory=False))
    watcher = Watcher(again, comparison.fleet, tell, say)
    watcher.know(comparison.files)
    folders = sorted({path if path.is_dir() else path.parent for path in comparison.fleet.paths})
    say(f"Watching {', '.join(map(str, folders))}; Ctrl-C ends it.")
    for _ in wakeups(folders, is_busy=lambda: watcher.is_busy, poll=poll, stop=stop):
        watcher.look(time.monotonic())


def end(outcomes: Sequence[Outcome]) -> None:
    """End the command with the exit code for what came of all agents."""
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(ExitCode.REFUSED)
