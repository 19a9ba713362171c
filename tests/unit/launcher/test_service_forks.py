"""Processes that are forked from one that has imported what they need: each is as if it had been
started by itself, and the supervisor is their parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.embedded import process_activity, service_forks
from deploy.embedded.process_activity import OwnTime
from deploy.embedded.service_commands import FORK_SERVER, fork_server_command
from deploy.embedded.service_forks import ForkedProcess, ServiceForks, can_fork
from deploy.embedded.settings import CHECKOUT, read_settings
from deploy.embedded.subprocesses import Command
from tests.servers import wait_until
from tests.waiting import wait_for

MODULE = "tests.dummies.process_facts"
pytestmark = pytest.mark.skipif(not can_fork(), reason="Linux 5.3 forks services")


def command(folder: Path, name: str, wish: str = "run", **environment: str) -> Command:
    return Command(
        name=name,
        argv=[sys.executable, "-m", MODULE],
        environment={"WISH": wish, "PYTHONPATH": str(CHECKOUT), **environment},
        folder=folder,
        log=folder / f"{name}.log",
    )


@pytest.fixture
async def forks(tmp_path: Path) -> AsyncIterator[ServiceForks]:
    server = Command(
        name="forks",
        argv=[sys.executable, "-m", FORK_SERVER, "asyncio", "no.such.module", MODULE],
        environment={"PYTHONPATH": str(CHECKOUT)},
        folder=CHECKOUT,
        log=tmp_path / "forks.log",
    )
    made = ServiceForks(server)
    yield made
    made.close()


async def facts(started: Command) -> dict[str, Any]:
    """What a process has told."""
    text = await wait_for("the process to tell", lambda: said(started).partition("{")[2])
    told: dict[str, Any] = json.loads("{" + text.splitlines()[0])
    return told


def said(started: Command) -> str:
    return started.log.read_text() if started.log.exists() else ""


async def end(process: ForkedProcess) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    assert process.returncode == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


async def test_a_process_has_what_its_command_says_and_nothing_of_another(
    forks: ServiceForks, tmp_path: Path
) -> None:
    with socket.socket() as listener:
        number = listener.fileno()
        first = command(tmp_path, "first", KEY="secret", ÜBER="\udcff")
        first = Command(**{**vars(first), "descriptors": (number,)})
        second = command(tmp_path, "second")
        processes = await asyncio.gather(forks.start(first), forks.start(second))
        told = [await facts(each) for each in (first, second)]

        for process, started, found in zip(processes, (first, second), told, strict=True):
            assert found["environment"] == started.environment
            assert found["argv"] == [str(CHECKOUT / "tests/dummies/process_facts.py")]
            assert found["folder"] == str(tmp_path)
            assert found["files"] == [0, 1, 2, *started.descriptors]
            assert (found["group"], found["parent"]) == (process.pid, os.getpid())
            assert (found["umask"], found["stdin"]) == (0o077, "null")
            hangs_up = signal.getsignal(signal.SIGHUP) == signal.SIG_DFL  # as under nohup
            assert found["signals"] == [True, True, hangs_up]
            assert (found["threads"], found["frozen"]) == (1, True)
            shown = psutil.Process(process.pid)
            assert shown.cmdline() == started.argv
            assert shown.environ() == started.environment
            assert started.log.stat().st_mode & 0o777 == 0o600
        assert told[0]["random"] != told[1]["random"]
        for process in processes:
            await end(process)


async def test_how_a_process_ends_is_seen(forks: ServiceForks, tmp_path: Path) -> None:
    for wish, words in (("end", "HEELER_WISH is wrong"), ("fail", "ValueError: a bug")):
        started = command(tmp_path, wish, wish)
        process = await forks.start(started)
        assert await process.wait() == 1
        assert said(started).rstrip().endswith(words)


async def test_what_was_forked_outlives_the_fork_server(
    forks: ServiceForks, tmp_path: Path
) -> None:
    first = await forks.start(command(tmp_path, "first"))
    server = forks._server.program
    assert server is not None
    server.kill()
    server.wait()

    second = await forks.start(command(tmp_path, "second"))

    assert forks._server.program is not server
    assert {psutil.Process(each.pid).ppid() for each in (first, second)} == {os.getpid()}
    await end(first)
    await end(second)


async def test_a_frozen_fork_server_is_replaced(
    forks: ServiceForks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await forks.start(command(tmp_path, "first"))
    for module in (service_forks, process_activity):
        monkeypatch.setattr(module, "LOOK_AGAIN_SECONDS", 0.01)
    assert forks._server.program is not None
    os.kill(forks._server.program.pid, signal.SIGSTOP)
    with monkeypatch.context() as soon:
        soon.setattr(service_forks, "FIRST_ANSWER_WITHIN", OwnTime(60.0, 0.1))
        with pytest.raises(OSError, match="ended meanwhile"):
            await forks.start(command(tmp_path, "second"))

    second = await forks.start(command(tmp_path, "second"))

    assert first.returncode is None
    await end(first)
    await end(second)


def test_nobody_is_left_of_a_supervisor_that_dies(tmp_path: Path) -> None:
    program = f"""
import asyncio, pathlib, sys
from tests.unit.launcher.test_service_forks import command
from deploy.embedded.service_forks import ServiceForks
from deploy.embedded.service_commands import fork_server_command
from deploy.embedded.settings import read_settings
async def main():
    home = pathlib.Path({str(tmp_path)!r})
    server = fork_server_command(read_settings({{"HEELER_HOME": str(home)}}))
    server.argv[3:] = []
    (home / "logs").mkdir()
    forks = ServiceForks(server)
    process = await forks.start(command(home, "first"))
    print(process.pid, forks._server.program.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(word) for word in supervisor.stdout.readline().split()]
        supervisor.kill()

    def all_ended() -> bool:
        states = [psutil.Process(pid).status() for pid in pids if psutil.pid_exists(pid)]
        return all(state == psutil.STATUS_ZOMBIE for state in states)

    assert len(pids) == 2
    wait_until("all of them end", all_ended, 10.0)


def test_nothing_reads_the_settings_of_a_service_while_it_is_imported() -> None:
    modules = fork_server_command(read_settings({"HEELER_HOME": "/tmp/any"})).argv[3:]
    program = f"""
import os, sys, threading
from importlib import import_module
read = set()
class Watched(type(os.environ)):
    def __getitem__(self, name):
        read.add(name)
        return super().__getitem__(name)
    def __contains__(self, name):
        read.add(name)
        return super().__contains__(name)
os.environ.__class__ = Watched
for module in {modules}:
    import_module(module)
ours = [name for name in read if name.startswith(("HEELER_", "LETTA_", "OPENAI_", "OTEL_"))]
print(ours, threading.active_count())
"""
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": os.defpath}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] 1\n"


async def test_where_forks_fail_again_and_again_a_process_is_started_as_any_program(
    forks: ServiceForks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: int) -> None:
        raise OSError("nothing can be forked")

    monkeypatch.setattr(forks._server, "send", fails)
    for _ in range(2):
        with pytest.raises(OSError, match="nothing can be forked"):
            await forks.start(command(tmp_path, "failed"))
    started = command(tmp_path, "started", KEY="mine")
    process = await forks.start(started)
    assert (await facts(started))["environment"].items() >= {("KEY", "mine")}
    process.kill() if isinstance(process, asyncio.subprocess.Process) else pytest.fail(
        "it is forked"
    )
    assert await process.wait() == -signal.SIGKILL


async def test_children_that_nobody_waits_for_are_reaped(
    forks: ServiceForks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_forks, "REAP_SECONDS", 0.0)
    child = os.fork()
    if not child:
        os._exit(0)
    await wait_for("its end", lambda: psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    for _ in range(2):
        await forks.reap()
    assert not psutil.pid_exists(child)
