"""One case: an agent made for it, the turns of its scenario, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cli.agent_tests.agent_under_test import AgentUnderTest
from cli.agent_tests.answers import Answer
from cli.agent_tests.expectations import Failure, check
from cli.agent_tests.fresh_agents import FreshAgents
from cli.agent_tests.mocks import WrongMock
from cli.agent_tests.scenario_files import ScenarioFile
from cli.agent_tests.scenarios import ModelKind, Turn
from cli.exit_codes import CommandError


@dataclass(frozen=True)
class Result:
    """What came of a case. It is an `error` where it could not be tried."""

    name: str
    file: Path
    kind: ModelKind
    status: Literal["passed", "failed", "error"]
    seconds: float
    failures: Sequence[Failure] = ()
    answers: Sequence[Answer] = ()
    memory_before: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def run_ids(self) -> list[str]:
        """The runs of all turns."""
        return [run for answer in self.answers for run in answer.run_ids]

    @property
    def memory_after(self) -> Mapping[str, str]:
        """The blocks after the last turn."""
        return self.answers[-1].memory if self.answers else self.memory_before

    @property
    def tokens(self) -> int:
        """The tokens of all turns."""
        return sum(answer.tokens for answer in self.answers)

    @property
    def cost_usd(self) -> float | None:
        """What all turns cost, if that is known."""
        costs = [answer.cost_usd for answer in self.answers]
        return None if None in costs else sum(cost or 0 for cost in costs)


def run_case(file: ScenarioFile, agents: FreshAgents) -> Result:
    """Try a scenario on an agent of its own, which is gone afterwards. Stops at the first turn in
    which something does not hold."""
    began = time.perf_counter()
    scenario = file.scenario
    under_test: AgentUnderTest | None = None
    failures: list[Failure] = []
    error = ""
    try:
        with agents.fresh(file) as under_test:
            for number, turn in enumerate(scenario.turns):
                failures = take(under_test, turn, number)
                if failures:
                    break
    except (CommandError, WrongMock) as problem:
        error = str(problem)
    status: Literal["passed", "failed", "error"] = "passed"
    if error or failures:
        status = "error" if error else "failed"
    return Result(
        name=scenario.scenario.name,
        file=file.path,
        kind=agents.kind_of(scenario),
        status=status,
        seconds=time.perf_counter() - began,
        failures=[replace(failure, line=file.line_of(failure.path)) for failure in failures],
        answers=under_test.answers if under_test else (),
        memory_before=under_test.memory_before if under_test else {},
        error=error,
    )


def take(under_test: AgentUnderTest, turn: Turn, number: int) -> list[Failure]:
    """Take one turn; what does not hold after it."""
    path = ("turns", number)
    if turn.message is not None:
        answer = under_test.say(turn.message)
    elif under_test.answers and under_test.answers[-1].waiting:
        answer = under_test.approve(bool(turn.approve), turn.reason)
    else:
        return [Failure((*path, "approve"), "no call waits for an approval")]
    found = check(answer, turn.expect, (*path, "expect"))
    return found + [Failure((*path,), note) for note in answer.notes]
