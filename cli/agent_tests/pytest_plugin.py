"""Tests of agents in pytest: the fixture `agent_under_test`, and scenario files as tests.

It is loaded wherever Heeler is installed, so it imports nothing of it before a test needs that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cli.agent_tests.agent_under_test import AgentUnderTest
    from cli.agent_tests.cases import Mode, Result
    from cli.agent_tests.fresh_agents import FreshAgents

AGENT = "agent_under_test"
MARKER = (
    "agent(file, replies=[], mocks=[], memory={}, real=False): the agent of `agent_under_test`, by "
    "its file's path from the folder of the test; the replies of its model, the mocks of its tools "
    "and the values of its blocks are tables as in a scenario file"
)
NOT_ALLOWED = "it asks a real model: allow it by --heeler-real"
AGENTS = pytest.StashKey["FreshAgents"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which server and which models tests of agents ask."""
    group = parser.getgroup("heeler", "tests of agents")
    group.addoption("--heeler-url", metavar="URL", help="the server that has the agents")
    group.addoption(
        "--heeler-real", action="store_true", help="ask the agents' own models; it costs"
    )
    group.addoption(
        "--heeler-keep", action="store_true", help="keep the agents, to look into their runs"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker that names an agent."""
    config.addinivalue_line("markers", MARKER)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete what the agents had in common."""
    if agents := config.stash.get(AGENTS, None):
        agents.__exit__(None, None, None)


@pytest.fixture
def agent_under_test(request: pytest.FixtureRequest) -> Iterator[AgentUnderTest]:
    """A fresh agent of the file that the marker `agent` names: `say(...)` gives what it did,
    `memory` what its blocks say, and `expect(...)` checks the last turn."""
    marker = request.node.get_closest_marker("agent")
    if marker is None or not marker.args:
        pytest.fail(f'mark the test with @pytest.mark.agent("agent.toml"): {MARKER}')
    with agents_of(request.config).fresh(_wanted(request, marker)) as agent:
        yield agent


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what was said to the agent of a test that fails."""
    report = yield
    agent: AgentUnderTest | None = getattr(item, "funcargs", {}).get(AGENT)
    if report.when == "call" and report.failed and agent and agent.answers:
        from cli.agent_tests.diagnostics import memory_change, transcript

        report.sections += [
            ("Transcript of the agent", transcript(agent.answers)),
            ("Memory of the agent", memory_change(agent.memory_before, agent.answers[-1].memory)),
        ]
    return report


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Take scenario files for tests."""
    if file_path.suffix != ".toml":
        return None
    from cli.agent_tests.found_files import is_test

    if not is_test(file_path):
        return None
    return ScenarioCollector.from_parent(parent, path=file_path)


class ScenarioCollector(pytest.File):
    """A scenario file, which is one test."""

    def collect(self) -> Iterator[ScenarioTest]:
        """The test of the file. Raises CollectError where it is wrong."""
        from cli.agent_tests.scenario_files import WrongScenario, read
        from libs.agent_toml import to_text

        try:
            scenario = read(self.path).scenario.scenario
        except WrongScenario as problem:
            raise self.CollectError("\n".join(map(to_text, problem.problems))) from None
        yield ScenarioTest.from_parent(self, name=scenario.name)


class CaseFailed(Exception):
    """A scenario that did not pass, with what came of it."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.name)
        self.result = result


class ScenarioTest(pytest.Item):
    """The test of a scenario."""

    def runtest(self) -> None:
        """Try the scenario. Raises CaseFailed."""
        from cli.agent_tests.cases import run_case
        from cli.agent_tests.scenario_files import read

        result = run_case(read(self.path), agents_of(self.config), _mode(self.config))
        if result.status == "skipped":
            pytest.skip(NOT_ALLOWED)
        if not result.is_good:
            raise CaseFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report on a case that did not pass."""
        if isinstance(excinfo.value, CaseFailed):
            from cli.agent_tests.reports import details_of

            return details_of(excinfo.value.result)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test stands, and its name."""
        return self.path, 0, self.name


def agents_of(config: pytest.Config) -> FreshAgents:
    """The maker of the agents of all tests of this session."""
    if AGENTS not in config.stash:
        from cli.agent_tests.fresh_agents import FreshAgents
        from cli.options import OPTIONS
        from cli.server import server

        OPTIONS.url = config.getoption("--heeler-url") or OPTIONS.url
        agents = FreshAgents(server(), keep=config.getoption("--heeler-keep"))
        config.stash[AGENTS] = agents.__enter__()
    return config.stash[AGENTS]


def _mode(config: pytest.Config) -> Mode:
    from cli.agent_tests.cases import Mode

    return Mode(real=config.getoption("--heeler-real"))


def _wanted(request: pytest.FixtureRequest, marker: pytest.Mark) -> Any:
    from cli.agent_tests.agent_files import definition_of
    from cli.agent_tests.fresh_agents import Wanted
    from cli.agent_tests.scenarios import Mock
    from libs.contracts.agent.scripted_replies import ScriptedReply

    given = dict(marker.kwargs)
    is_real = request.config.getoption("--heeler-real")
    if given.pop("real", False) and not is_real:
        pytest.skip(NOT_ALLOWED)
    wanted = Wanted(
        agent=definition_of((request.path.parent / marker.args[0]).resolve()),
        kind="real" if is_real else "scripted",
        replies=[ScriptedReply.model_validate(reply) for reply in given.pop("replies", [])],
        mocks=[Mock.model_validate(mock) for mock in given.pop("mocks", [])],
        memory=given.pop("memory", {}),
    )
    if given:
        pytest.fail(f"the marker `agent` takes no {', '.join(given)}: {MARKER}")
    return wanted
