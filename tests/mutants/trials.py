"""Runs each change in a fork of one process that has collected the tests: the tests that execute
the changed function, the quickest first, until one fails."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutants.changes import ROOT, Change, CodeKey, changed_functions

TOOL = sys.monitoring.COVERAGE_ID
SECONDS_MAX = 60.0  # how much longer the tests may take with a change
TIMES_SLOWER_MAX = 5.0
MEMORY_BYTES_MAX = 4 << 30
NOTICED, UNNOTICED = 0, 1  # how a fork ends; a fork that is killed has noticed
SURVIVED, NOT_EXECUTED = "survived", "executed by no test"

type Where = tuple[str, CodeKey]  # the file and the function


@dataclass
class Executed:
    """What the tests did to the code as it is, by the numbers of the tests."""

    tests_of: dict[Where, list[int]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trial:
    change: Change
    end: str  # what noticed it, or SURVIVED or NOT_EXECUTED
    seconds: float
    tests: int

    @property
    def is_found(self) -> bool:
        return self.end not in (SURVIVED, NOT_EXECUTED)


class Trials:
    """A plugin of pytest which, in place of running the tests once, tries the changes."""

    def __init__(self, changes: list[Change], count: int, jobs: int) -> None:
        self.changes = changes
        self.count = count
        self.jobs = jobs
        self.executed = Executed()
        self.ended: list[Trial] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        os.waitpid(forked(lambda: self._observe(session, folder / "executed")), 0)
        self.executed = pickle.loads((folder / "executed").read_bytes())
        print(f"{len(self.executed.seconds)} tests, {len(self.executed.failed)} of them left out")
        self._try_all(session, folder)
        return True

    def _try_all(self, session: pytest.Session, folder: Path) -> None:
        running: dict[int, tuple[Change, list[int], float, Path]] = {}
        todo, begun = iter(self.changes), 0
        while running or begun < self.count:
            while begun < self.count and len(running) < self.jobs:
                change = next(todo, None)
                if change is None:
                    begun = self.count
                    break
                tests = self._tests_of(change)
                if tests is None:
                    continue
                begun += 1
                file = folder / str(begun)
                if not tests:
                    self._end(Trial(change, NOT_EXECUTED, 0.0, 0))
                    continue
                pid = forked(lambda: try_change(session, change, tests, file))  # noqa: B023
                running[pid] = change, tests, time.monotonic(), file
            for pid, (change, tests, began, file) in list(running.items()):
                took = time.monotonic() - began
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and took < self._seconds_max(tests):
                    continue
                if not ended:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                noticed = file.read_text() if file.exists() else "it never ends, or dies"
                survived = ended and os.waitstatus_to_exitcode(status) == UNNOTICED
                self._end(Trial(change, SURVIVED if survived else noticed, took, len(tests)))
                del running[pid]
            time.sleep(0.02)

    def _end(self, trial: Trial) -> None:
        self.ended.append(trial)
        print(f"{len(self.ended):4} {trial.seconds:5.1f} s  {trial.change}  [{trial.end}]")

    def _tests_of(self, change: Change) -> list[int] | None:
        """Those that execute the function, the quickest first; None: it runs at import only."""
        [key] = changed_functions(change) or [None]
        if key is None:
            return None
        tests = self.executed.tests_of.get((str(ROOT / change.file), key), [])
        return sorted(tests, key=self.executed.seconds.__getitem__)

    def _seconds_max(self, tests: list[int]) -> float:
        return SECONDS_MAX + TIMES_SLOWER_MAX * sum(map(self.executed.seconds.get, tests))

    def _observe(self, session: pytest.Session, file: Path) -> None:
        """Run each test on the code as it is, and write down which functions it executes."""
        files = {str(ROOT / change.file) for change in self.changes}
        seen: set[Where] = set()

        def execute(code: CodeType, _: int) -> None:
            seen.add((code.co_filename, (code.co_qualname, code.co_firstlineno)))

        sys.monitoring.use_tool_id(TOOL, "mutants")
        sys.monitoring.register_callback(TOOL, sys.monitoring.events.PY_START, execute)
        for function in functions(lambda code: code.co_filename in files):
            sys.monitoring.set_local_events(TOOL, function.__code__, sys.monitoring.events.PY_START)
        executed = Executed()
        reports = Reports(session)
        for number, item in enumerate(session.items):
            seen.clear()
            began = time.monotonic()
            reports.run(item, None if item is session.items[-1] else session.items[number + 1])
            if reports.failures:
                executed.failed += reports.failures
                reports.failures.clear()
                continue
            executed.seconds[number] = time.monotonic() - began
            for where in seen:
                executed.tests_of.setdefault(where, []).append(number)
        file.write_bytes(pickle.dumps(executed))


class Reports:
    """Runs tests and keeps which failed, in place of showing them."""

    def __init__(self, session: pytest.Session) -> None:
        self.failures: list[str] = []
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.append(report.nodeid)

    def run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)


def try_change(session: pytest.Session, change: Change, tests: list[int], file: Path) -> int:
    """Whether any of these tests fails with the change: NOTICED, and writes its name."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    changed = changed_functions(change)
    path = str(ROOT / change.file)

    def key(code: CodeType) -> CodeKey:
        return code.co_qualname, code.co_firstlineno

    for function in functions(lambda code: code.co_filename == path and key(code) in changed):
        function.__code__ = changed[key(function.__code__)]
    reports = Reports(session)
    for place, test in enumerate(tests):
        following = session.items[tests[place + 1]] if place + 1 < len(tests) else None
        reports.run(session.items[test], following)
        if reports.failures:
            file.write_text(reports.failures[0])
            return NOTICED
    return UNNOTICED


def functions(wanted: Callable[[CodeType], bool]) -> list[FunctionType]:
    """All functions of this process whose code is wanted."""
    gc.unfreeze()
    return [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, FunctionType) and wanted(thing.__code__)
    ]


def forked(run: Callable[[], Any]) -> int:
    """The pid of a fork that runs this and ends with what it returns; an exception is noticed."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code = NOTICED
    try:
        code = run() or NOTICED
    finally:
        os._exit(code)
