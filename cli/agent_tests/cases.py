"""One case: an agent made for it, the turns of its scenario, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cli.agent_tests.agent_under_test import AgentUnderTest
from cli.agent_tests.answers import Answer
from cli.agent_tests.cassettes import (
    Cassette,
    first_departure,
    read_cassette,
    recorded_from,
    write_cassette,
)
from cli.agent_tests.expectations import Failure, check
from cli.agent_tests.fresh_agents import FreshAgents, Wanted
from cli.agent_tests.mocks import WrongMock
from cli.agent_tests.scenario_files import ScenarioFile
from cli.agent_tests.scenarios import ModelKind, Scenario, Turn
from cli.exit_codes import CommandError

type Status = Literal["passed", "failed", "error", "skipped"]


@dataclass(frozen=True)
class Result:
    """The result of a case. It is an `error` where it could not be tried, and `skipped` where it
    asks a real model and nobody allowed that."""

    name: str
    file: Path
    kind: ModelKind
    status: Status
    seconds: float
    failures: Sequence[Failure] = ()
    answers: Sequence[Answer] = ()
    memory_before: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    is_kept: bool = False  # whether its agent is still there

    @property
    def is_good(self) -> bool:
        """Whether nothing is to be looked into."""
        return self.status in ("passed", "skipped")

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
        """The cost of all turns, if that is known."""
        costs = [answer.cost_usd for answer in self.answers]
        return None if None in costs else sum(cost or 0 for cost in costs)


@dataclass(frozen=True)
class Mode:
    """The mode of all scenarios, where it is not their own: on the agents' own models, and whether
    cassettes are recorded on them."""

    real: bool = False
    record: bool = False

    def kind_of(self, scenario: Scenario) -> ModelKind:
        """Which model answers in a scenario."""
        is_recorded = self.record and scenario.kind == "cassette"
        return "real" if self.real or is_recorded else scenario.kind

    def skips(self, scenario: Scenario) -> bool:
        """Whether a scenario asks a real model of its own accord, which costs."""
        return scenario.kind == "real" and not self.real


def run_case(file: ScenarioFile, agents: FreshAgents, mode: Mode) -> Result:
    """Try a scenario on an agent of its own, which is gone afterwards. Stops at the first turn in
    which something does not hold."""
    from letta_client import APIStatusError

    from cli.api_problems import explanation

    if mode.skips(file.scenario):
        return Result(file.scenario.scenario.name, file.path, "real", "skipped", 0.0)
    began = time.perf_counter()
    case = Case(file, agents, mode)
    error = ""
    try:
        case.run()
    except (CommandError, WrongMock) as problem:
        error = str(problem)
    except APIStatusError as problem:
        error = f"the server refused it: {explanation(problem) or problem}"
    status: Status = "failed" if case.failures else "passed"
    under_test = case.under_test
    return Result(
        name=file.scenario.scenario.name,
        file=file.path,
        kind=case.kind,
        status="error" if error else status,
        seconds=time.perf_counter() - began,
        failures=[file.with_line(failure) for failure in case.failures],
        answers=under_test.answers if under_test else (),
        memory_before=under_test.memory_before if under_test else {},
        error=error,
        is_kept=agents.keep,
    )


class Case:
    """A scenario that is tried: its agent, and what does not hold."""

    def __init__(self, file: ScenarioFile, agents: FreshAgents, mode: Mode) -> None:
        self.file = file
        self.scenario = file.scenario
        self.agents = agents
        self.kind = mode.kind_of(self.scenario)
        self.is_recorded = mode.record and self.scenario.kind == "cassette"
        self.under_test: AgentUnderTest | None = None
        self.failures: list[Failure] = []

    def run(self) -> None:
        """Take all turns, and record them. Raises CommandError and WrongMock."""
        cassette = self._cassette() if self.kind == "cassette" else None
        wanted = Wanted(
            agent=self.file.agent,
            kind=self.kind,
            replies=cassette.replies if cassette else self.scenario.model,
            mocks=self.scenario.mocks,
            memory=self.scenario.memory,
        )
        with self.agents.fresh(wanted) as self.under_test:
            for number, turn in enumerate(self.scenario.turns):
                self._take(self.under_test, turn, number, cassette)
                if self.failures:
                    return
            if self.is_recorded:
                runs = [answer.run_ids for answer in self.under_test.answers]
                write_cassette(self.file.cassette_file, recorded_from(self.agents.server, runs))

    def _cassette(self) -> Cassette:
        runs = self.scenario.scenario.runs
        if not runs:
            return read_cassette(self.file.cassette_file)
        recorded = recorded_from(self.agents.server, [[run] for run in runs])
        return recorded.model_copy(update={"exact": False})

    def _take(
        self, under_test: AgentUnderTest, turn: Turn, number: int, cassette: Cassette | None
    ) -> None:
        path = ("turns", number)
        if turn.message is not None:
            answer = under_test.say(turn.message)
        elif under_test.answers and under_test.answers[-1].waiting:
            answer = under_test.approve(bool(turn.approve), turn.reason)
        else:
            self.failures.append(Failure((*path, "approve"), "no call waits for an approval"))
            return
        if cassette:
            departure = first_departure(self.agents.server, cassette, number, answer.run_ids)
            self.failures += [departure] if departure else []
        self.failures += [Failure(path, note) for note in answer.notes]
        self.failures += check(answer, turn.expect, (*path, "expect"))
