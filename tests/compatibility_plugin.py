"""Collects which V1 operations passed their tests, for the compatibility page.

Mark a test with `@pytest.mark.operation("POST /v1/agents/")`, or with `differs="why"` where we
deliberately answer otherwise than the genuine server, or with `client="TypeScript 1.12.1"` where
another client than the Python SDK proves it. A run with `--write-compatibility` writes
the results; any other run checks nothing.
"""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPERATIONS = ROOT / "services/api/http/operations.tsv"
RESULTS = ROOT / "tests/compatibility.json"
PROVES = "proves operation"


@dataclass(frozen=True)
class Mark:
    """What a test says that it proves."""

    name: str
    differs: str | None = None
    client: str | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-compatibility",
        action="store_true",
        help="write which V1 operations passed their tests to tests/compatibility.json",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "operation(name, differs=None, client=None): the test proves this V1 operation"
    )
    if config.getoption("--write-compatibility"):
        config.pluginmanager.register(CompatibilityWriter(known_operations()))


def known_operations() -> frozenset[str]:
    """Every operation of the V1 API, as `<METHOD> <path>`."""
    with OPERATIONS.open() as table:
        rows = csv.DictReader(table, delimiter="\t")
        return frozenset(f"{row['method']} {row['path']}" for row in rows)


class CompatibilityWriter:
    """An operation counts if a test of it passed and none failed. What a test proves goes with its
    reports, which workers send to the process that writes."""

    def __init__(self, known: frozenset[str]) -> None:
        self.known = known
        self.failed: set[str] = set()
        self.passed: dict[str, dict[str, Mark]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("operation"):
                if mark.args[0] not in self.known:
                    raise pytest.UsageError(f"{item.nodeid}: '{mark.args[0]}' is no V1 operation")
                item.user_properties.append((PROVES, [mark.args[0], mark.kwargs]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        proven = (value for name, value in report.user_properties if name == PROVES)
        for mark in (Mark(name, **fields) for name, fields in proven):
            if report.failed:
                self.failed.add(mark.name)
            elif report.passed and report.when == "call":
                self.passed.setdefault(mark.name, {})[report.nodeid] = mark

    def pytest_sessionfinish(self) -> None:
        RESULTS.write_text(json.dumps(self.results(), indent=2) + "\n")

    def results(self) -> dict[str, dict[str, object]]:
        """The proven operations by name, each with its status, reasons and tests."""
        proven = {name: self.passed[name] for name in sorted(self.passed.keys() - self.failed)}
        return {name: _result(tests) for name, tests in proven.items()}


def _result(tests: dict[str, Mark]) -> dict[str, object]:
    whys = sorted({mark.differs for mark in tests.values() if mark.differs})
    return {
        "status": "differs" if whys else "works",
        "why": "; ".join(whys),
        "clients": sorted({mark.client for mark in tests.values() if mark.client}),
        "tests": sorted(tests),
    }
