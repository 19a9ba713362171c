"""Scenario files, and their problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cli.agent_tests.agent_files import reading_of
from cli.agent_tests.cassettes import SUFFIX
from cli.agent_tests.expectations import Failure
from cli.agent_tests.scenarios import Scenario
from libs.agent_toml.checked_file import document_in
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.form_checks import checked_form
from libs.agent_toml.problems import Problem
from libs.agent_toml.reporting import Reporter
from libs.agent_toml.toml_positions import Positions
from libs.contracts.outside_texts import decode_text


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario, the agent that it tests, its file, and where its keys stand there."""

    path: Path
    scenario: Scenario
    agent: AgentDefinition
    positions: Positions

    @property
    def cassette_file(self) -> Path:
        """Where its recorded replies are, or will be."""
        named = self.scenario.scenario.cassette
        name = named[0] if named else f"{self.path.stem}{SUFFIX}"
        return self.path.parent / name

    def with_line(self, failure: Failure) -> Failure:
        """The failure with the line of the expectation that does not hold."""
        return replace(failure, line=self.positions.of_key(failure.path).line)


class WrongScenario(Exception):
    """A file that is no scenario, or whose agent's file is none; `problems` say where and why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = tuple(problems)


def read(path: Path) -> ScenarioFile:
    """The scenario of a file. Raises WrongScenario."""
    file = str(path)
    try:
        text = decode_text(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        words = f"it cannot be read: {error}"
        raise WrongScenario([Problem(file=file, code="AGT004", message=words)]) from error
    document = document_in(text, file)
    if isinstance(document, Problem):
        raise WrongScenario([document])
    data, positions = document
    reporter = Reporter(file, positions)
    scenario = checked_form(data, reporter, Scenario)
    if scenario is None or reporter.found:
        raise WrongScenario(reporter.in_order())
    agent_file = path.parent / scenario.scenario.agent
    if not agent_file.is_file():
        reporter.error(
            ("scenario", "agent"),
            "AGT205",
            f"there is no file {scenario.scenario.agent}",
            expected="the agent's file, by its path from the folder of the scenario",
        )
        raise WrongScenario(reporter.in_order())
    agent = reading_of(agent_file.resolve())
    if agent.definition is None:
        raise WrongScenario(agent.errors)
    return ScenarioFile(path, scenario, agent.definition, reporter.positions)
