"""`--workers N`: the tests are collected once, and run by N forks of the process that did so.

Each worker takes the next group of tests when it comes to the last test of its group. A group is a
file, or the files that share a Heeler (`tests/scheduling.py`), in the order of what takes longest.
"""

from __future__ import annotations

import os
import random
import signal
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.capture import CaptureManager

from tests.scheduling import longest_first, together

WORKER = "TEST_WORKER"  # its number, in the environment of a worker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run the tests in so many forks")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("workers"):
        longest_first(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    if not options.workers or options.collectonly or session.testsfailed:
        return None  # pytest's own loop says what was wrong
    Forks(session).run()
    return True


@dataclass
class Worker:
    """A fork, as the process that collected sees it."""

    pid: int
    link: Connection
    shown_as: SimpleNamespace
    at: tuple[str, Any] | None = None  # the test that it runs, and where that stands
    problem: str = ""  # the exception that ended it


@dataclass
class Forks:
    """Hands out the groups, and reports what the workers report."""

    session: pytest.Session
    groups: deque[list[pytest.Item]] = field(default_factory=deque)
    workers: list[Worker] = field(default_factory=list)

    def run(self) -> None:
        by_name: dict[str, list[pytest.Item]] = {}
        for item in self.session.items:
            by_name.setdefault(together(item.nodeid.partition("::")[0]), []).append(item)
        self.groups.extend(by_name.values())
        numbers = {id(group): number for number, group in enumerate(self.groups)}
        everything = list(self.groups)
        folders(self.session.config).getbasetemp()  # the same one for all
        for number in range(min(self.session.config.option.workers, len(everything))):
            self._fork(number, everything)
        try:
            while self.workers:
                for link in wait([worker.link for worker in self.workers]):
                    [worker] = [worker for worker in self.workers if worker.link is link]
                    try:
                        self._hear(worker, numbers)
                    except EOFError:
                        self._bury(worker)
        finally:
            for worker in self.workers:  # Ctrl-C has reached them, too
                os.waitpid(worker.pid, 0)

    def _fork(self, number: int, groups: list[list[pytest.Item]]) -> None:
        ours, theirs = Pipe()
        if pid := os.fork():
            theirs.close()
            name = f"w{number}"  # where pytest looks for the name of a worker
            shown_as = SimpleNamespace(gateway=SimpleNamespace(id=name), _workerinfocache=name)
            self.workers.append(Worker(pid, ours, shown_as))
            return
        code = 1
        try:
            for link in (ours, *(worker.link for worker in self.workers)):
                link.close()
            work(self.session, number, theirs, groups)
            code = 0
        except BaseException:
            theirs.send(("broken", traceback.format_exc()))
        finally:
            os._exit(code)

    def _hear(self, worker: Worker, numbers: dict[int, int]) -> None:
        kind, said = worker.link.recv()
        hook = self.session.config.hook
        if kind == "next":
            goes_on = self.groups and not (self.session.shouldfail or self.session.shouldstop)
            worker.link.send(numbers[id(self.groups.popleft())] if goes_on else None)
        elif kind == "begin":
            worker.at = said
        elif kind == "broken":
            worker.problem = said
        else:
            report = hook.pytest_report_from_serializable(config=self.session.config, data=said)
            report.node = worker.shown_as  # results come from several files at a time
            hook.pytest_runtest_logreport(report=report)

    def _bury(self, worker: Worker) -> None:
        """A worker has ended: well, or in the middle of a test, which has failed then."""
        self.workers.remove(worker)
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            name, place = worker.at or ("the first test", ("", None, ""))
            died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            why = f"the worker {worker.shown_as.gateway.id} died of {died} while it ran {name}"
            why += f"\n{worker.problem}"
            report = pytest.TestReport(name, place, {}, "failed", why, "call")
            self.session.config.hook.pytest_runtest_logreport(report=report)


def work(
    session: pytest.Session, number: int, link: Connection, groups: list[list[pytest.Item]]
) -> None:
    """Run groups, in a fork, until there are no more."""
    os.environ[WORKER] = str(number)
    become_alone(session.config, number)
    session.config.pluginmanager.unregister(name="terminalreporter")
    session.config.pluginmanager.register(Reports(session.config, link))
    items = given(link, groups)
    item = next(items, None)
    while item is not None and not session.shouldfail:
        following = next(items, None)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


def given(link: Connection, groups: list[list[pytest.Item]]) -> Iterator[pytest.Item]:
    while True:
        link.send(("next", None))
        number = link.recv()
        if number is None:
            return
        yield from groups[number]


def become_alone(config: pytest.Config, number: int) -> None:
    """Have no file, folder or seed in common with the other forks."""
    random.seed()
    factory = folders(config)
    factory._basetemp = factory.mktemp(f"worker{number}", numbered=False)
    capture: CaptureManager | None = config.pluginmanager.get_plugin("capturemanager")
    if capture and capture.is_globally_capturing():
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()


def folders(config: pytest.Config) -> pytest.TempPathFactory:
    """What makes `tmp_path`."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    return factory


@dataclass(eq=False)
class Reports:
    """Sends what a worker finds to the process that forked it."""

    config: pytest.Config
    link: Connection

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.link.send(("begin", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.link.send(("report", data))
