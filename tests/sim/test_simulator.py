"""A small dose of what `make sim` and `make sim-score` do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import count

import pytest

from libs.eventstore.ports import StoreUnavailable
from services.api.adapters.conversations.run_follower import RunInbox
from tests.histories import of_machine
from tests.quick_plugin import WORLDS_OF_A_DOSE
from tests.sim.bus import SimBus
from tests.sim.conversation_mutants import OF_HISTORIES, ONLY_OF_HISTORIES
from tests.sim.mutants import MUTANTS, planted
from tests.sim.plan import PROCESSES, plan_of
from tests.sim.processes import WIRED
from tests.sim.score import found_by
from tests.sim.shrink import command, shrunk
from tests.sim.world import Outcome, run

WORLDS_FOR_A_MUTANT = 100
HISTORIES_FOR_A_MUTANT = 200
RARELY_FOUND = {  # it may take hundreds: `make sim-score`
    "late-try-replaces",
    "lease-only-forgotten",
    "moves-first",
    "nobody-suspected",  # whoever takes over looks at everybody
    "numbers-used-twice",
}
DOSE = range(1, 41)
pytestmark = pytest.mark.timeout(900)  # the worlds of the dose are run by whoever comes first
TRACED = (3, 4, 5, 20)  # in 20 an api dies that has many requests
TRACES = (
    "from tests.sim.plan import plan_of; from tests.sim.world import run;"
    f"print(*[run(plan_of(seed)).trace for seed in {TRACED[::-1]}][::-1])"
)


@pytest.fixture(scope="module")
def dose(request: pytest.FixtureRequest) -> list[Outcome]:
    seeds = DOSE[:WORLDS_OF_A_DOSE] if request.config.getoption("--quick") else DOSE
    return [run(plan_of(seed)) for seed in seeds]


def test_r38_nothing_is_lost_doubled_or_stuck_in_any_world(dose: list[Outcome]) -> None:
    failed = {outcome.seed: outcome.problems for outcome in dose if outcome.problems}
    assert failed == {}, [command(plan_of(seed)) for seed in failed]


def test_r38_the_faults_really_happen(dose: list[Outcome]) -> None:
    happened: Counter[str] = sum((outcome.happened for outcome in dose), Counter())
    for kind in ("crash", "crash at", "freeze", "partition", "weather", "wipe", "store down"):
        assert happened[kind], kind
    for what in ("loss", "duplicate", "commit unknown", "store fails", "disk full"):
        assert happened[what], what


def test_tools_are_called_in_some_worlds_and_fare_badly(dose: list[Outcome]) -> None:
    """Calls of custom tools and of MCP servers, R30's faults among them (see R27 for deaths)."""
    did: Counter[str] = sum((outcome.did for outcome in dose), Counter())
    for what in ("code run", "code lost", "mcp call", "mcp crash in call", "agents answered"):
        assert did[what], what
    if len(dose) == len(DOSE):
        for what in ("code slow", "code hang", "code killed", "mcp slow", "mcp hang"):
            assert did[what], what
        for what in ("mcp crash in start", "mcp garbage", "mcp too large"):
            assert did[what], what


def test_batches_are_answered_in_some_worlds(dose: list[Outcome]) -> None:
    """Across deaths, cancelled ones among them: see `tests/sim/batches.py` for what must hold."""
    did: Counter[str] = sum((outcome.did for outcome in dose), Counter())
    for what in ("batch items completed", "batch items cancelled", "batches ended"):
        assert did[what], what


def test_files_are_uploaded_in_some_worlds_and_end_in_every_way(dose: list[Outcome]) -> None:
    """Read and embedded across deaths, refused, deleted, and left by those who hang up."""
    did: Counter[str] = sum((outcome.did for outcome in dose), Counter())
    for what in ("files completed", "files error", "files deleted", "uploads left"):
        assert did[what], what


def test_groups_answer_in_some_worlds(dose: list[Outcome]) -> None:
    """While their members leave and come back, and their processes die."""
    did: Counter[str] = sum((outcome.did for outcome in dose), Counter())
    for what in ("groups", "hops of groups"):
        assert did[what], what


def test_r38_a_seed_has_one_trace_whatever_the_hash_seed_and_the_worlds_before() -> None:
    here = [run(plan_of(seed)).trace for seed in TRACED]
    for hash_seed in ("0", "4711"):
        there = subprocess.run(
            [sys.executable, "-c", TRACES],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.split() == here
    assert len(set(here)) == len(TRACED)


def test_a_quiet_world_answers_everything() -> None:
    plan = plan_of(3)
    outcome = run(plan.only([say.name for say in plan.says]))
    assert outcome.problems == []
    assert not outcome.happened


@pytest.mark.parametrize("kind", ["agent", "memory", "api"])
def test_a_process_that_cannot_start_fails_its_world_with_what_it_raised(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise LookupError(f"the wiring of {kind} is broken")

    if kind == "api":
        monkeypatch.setattr(RunInbox, "open", broken)
    else:
        monkeypatch.setitem(WIRED, kind, (broken, WIRED[kind][1]))
    [problem] = run(plan_of(3)).problems
    assert f"{kind}-1 could not start" in problem or f"{kind}-2 could not start" in problem
    assert f"LookupError: the wiring of {kind} is broken" in problem


def test_a_process_that_cannot_stop_fails_its_world_with_what_it_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(_: object) -> None:
        raise LookupError("this never stops")

    monkeypatch.setattr(SimBus, "stop_serving", broken)
    seed = next(
        seed for seed in count(1) if any(fault.kind == "restart" for fault in plan_of(seed).faults)
    )
    [problem] = run(plan_of(seed)).problems
    assert "could not stop" in problem
    assert "LookupError: this never stops" in problem


def test_an_outage_at_the_start_of_a_process_is_no_surprise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire, project = WIRED["memory"]
    starts = count(1)

    async def away_at_first(runtime: object) -> None:
        if next(starts) == 1:
            raise StoreUnavailable("away")
        await wire(runtime)

    monkeypatch.setitem(WIRED, "memory", (away_at_first, project))
    assert run(plan_of(3)).problems == []


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - RARELY_FOUND - ONLY_OF_HISTORIES))
def test_r38_a_planted_bug_is_found(name: str) -> None:
    found_it = found_by().get(name, 1)  # most likely it still does, and the others are not needed
    seeds = [found_it, *(seed for seed in range(1, WORLDS_FOR_A_MUTANT) if seed != found_it)]
    with planted(name):
        assert any(run(plan_of(seed)).problems for seed in seeds)


@pytest.mark.parametrize("name", OF_HISTORIES)
def test_a_planted_bug_is_found_by_few_random_histories(name: str) -> None:
    with planted(name):
        _, failures = of_machine(1, HISTORIES_FOR_A_MUTANT, small=False)
    assert failures, "and the command that repeats it"
    assert "python -m tests.histories --only machine --first 1" in failures[0]


def test_a_failing_world_is_made_small() -> None:
    with planted("no-sweeper"):
        seed = next(seed for seed in count(1) if run(plan_of(seed)).problems)
        small, outcome = shrunk(plan_of(seed))
        assert outcome.problems
        assert len(small.parts) < len(plan_of(seed).parts) / 2
        assert command(small).startswith(f"python -m tests.sim --seed {small.seed} --plan ")
    assert run(small).problems == []


def test_every_process_is_simulated_at_least_twice() -> None:
    kinds = Counter(name.rpartition("-")[0] for name in PROCESSES)
    assert set(kinds.values()) == {2}
