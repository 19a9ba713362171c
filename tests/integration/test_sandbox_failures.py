"""What goes wrong around the sandbox: little granted, killed processes, no places."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from services.tools.adapters import process_sandbox
from services.tools.adapters.process_sandbox import CONFINED, OFF, UNCONFINED, ProcessSandbox
from services.tools.sandbox.ports import Limits, Program
from tests.waiting import wait_for

CHECKOUT = Path(__file__).parents[2]
SLEEP = Program("python", "import time\ntime.sleep(60)")
ECHO = Program("python", "def f(n):\n  return n", "f", {"n": 1})


async def started(**options: object) -> ProcessSandbox:
    sandbox = ProcessSandbox(**options)
    await sandbox.start()
    if sandbox.refusal:
        pytest.skip(sandbox.refusal)
    return sandbox


class TestMachinesThatGrantLittle:
    async def test_without_namespaces_code_is_refused_and_the_way_out_named(self, monkeypatch):
        monkeypatch.setattr(process_sandbox, "bubblewrap", lambda: "/bin/false")
        sandbox = ProcessSandbox()
        await sandbox.start()
        outcome = await sandbox.run(ECHO)
        assert not outcome.started
        assert outcome.reason.startswith("This machine grants no sandbox for the code of tools")
        assert "HEELER_SANDBOX=process-unconfined" in outcome.reason
        await sandbox.close()

    async def test_what_bubblewrap_says_is_passed_on(self, monkeypatch, tmp_path):
        program = tmp_path / "bwrap"
        program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1")
        program.chmod(0o755)
        tmp_path.chmod(0o755)
        monkeypatch.setattr(process_sandbox, "bubblewrap", lambda: str(program))
        sandbox = ProcessSandbox()
        await sandbox.start()
        assert "No permissions to create new namespace" in sandbox.refusal
        await sandbox.close()

    async def test_where_nobody_could_watch_it_says_so(self, monkeypatch):
        monkeypatch.setattr(process_sandbox, "LISTED_CHILDREN", "/proc/nothing")
        for mode in (CONFINED, UNCONFINED):
            sandbox = ProcessSandbox(mode)
            await sandbox.start()
            assert "CONFIG_PROC_CHILDREN" in sandbox.refusal
            await sandbox.close()

    async def test_without_bubblewrap_it_says_so(self, monkeypatch):
        monkeypatch.setattr(process_sandbox, "bubblewrap", lambda: None)
        sandbox = ProcessSandbox()
        await sandbox.start()
        assert "bwrap (bubblewrap) is not installed" in sandbox.refusal
        await sandbox.close()

    @pytest.mark.parametrize(
        ("mode", "why"), [(OFF, "runs no code of tools"), ("dockr", "'dockr': it must be process")]
    )
    async def test_modes_without_a_sandbox(self, mode, why):
        sandbox = ProcessSandbox(mode)
        await sandbox.start()
        assert why in (await sandbox.run(ECHO)).reason
        await sandbox.close()

    async def test_the_weaker_mode_limits_clears_and_kills(self, monkeypatch):
        monkeypatch.setenv("HEELER_SECRET_OF_THE_SERVER", "xyzzy")
        sandbox = await started(mode=UNCONFINED)
        assert "no wall" in sandbox.describe_confinement()
        source = "import os\ndef f():\n  open('x', 'w').write('1')\n  return dict(os.environ)"
        environment = (await sandbox.run(Program("python", source, "f"))).value
        assert set(environment) == {"PATH", "HOME", "TMPDIR", "LANG"}
        assert not exists(environment["HOME"])
        limits = Limits(20.0, cpu_seconds=2, memory_bytes=128 << 20, processes=16)
        for bomb, seconds, status in (
            (
                "import os, time\nif os.fork(): time.sleep(9)\nos.setsid()\ntime.sleep(99)",
                0.5,
                "timeout",
            ),
            ("x = bytearray(1 << 30)", 20.0, "error"),
            ("while True: print('x' * 10000)", 20.0, "killed"),
        ):
            program = Program("python", bomb, limits=replace(limits, seconds=seconds))
            assert (await sandbox.run(program)).status == status
        folder = sandbox.folder
        await sandbox.close()
        assert not exists(folder)

    async def test_in_the_weaker_mode_landlock_keeps_files_and_processes(self, tmp_path):
        sandbox = await started(mode=UNCONFINED)
        if not sandbox.pool.locked:
            pytest.skip("this kernel has no Landlock")
        (tmp_path / "secret").write_text("secret")
        source = f"""
import os, subprocess
refused = []
def attempt(name, what):
    try:
        what()
    except (PermissionError, FileNotFoundError):
        refused.append(name)
attempt("secret", lambda: open({str(tmp_path / "secret")!r}).read())
attempt("list", lambda: os.listdir({str(tmp_path)!r}))
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("environ", lambda: open("/proc/{os.getpid()}/environ").read())
attempt("write", lambda: open({str(tmp_path / "new")!r}, "w"))
attempt("kill", lambda: os.kill({os.getpid()}, 0))
open("mine", "w").write("x")
os.rename("mine", "yours")
def f():
    return [refused, subprocess.run(["ls"], capture_output=True, text=True).stdout]
"""
        outcome = await sandbox.run(Program("python", source, "f"))
        assert outcome.value == [
            ["secret", "list", "shadow", "environ", "write", "kill"],
            "yours\n",
        ]
        await sandbox.close()


class TestProcessesThatDie:
    """SBX-04, SBX-12: the pool never hands out what is dead, and what dies leaves nothing."""

    async def test_the_spawner_is_killed(self):
        sandbox = await started()
        task = asyncio.create_task(sandbox.run(SLEEP))
        pool = sandbox.pool
        await wait_for("the call", lambda: pool.used and not pool.starting and len(pool.idle) == 2)
        before = orphans("bwrap")
        os.kill(sandbox.pool.spawner.process.pid, signal.SIGKILL)
        outcome = await asyncio.wait_for(task, 10)
        assert outcome.status == "killed"
        assert (await sandbox.run(ECHO)).value == 1
        await sandbox.close()
        await wait_for("the end", lambda: not set(orphans("bwrap")) - set(before))

    async def test_what_is_stopped_while_it_starts_leaves_nothing(self):
        first = await started()
        await first.close()
        before = {*tree(os.getpid()), *orphans("bwrap")}
        for wait in range(12):
            sandbox = ProcessSandbox()
            start = asyncio.create_task(sandbox.start())
            await asyncio.sleep(0.005 * wait)
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            await sandbox.close()
        await wait_for("the end", lambda: not {*tree(os.getpid()), *orphans("bwrap")} - before)

    async def test_a_spawner_that_is_killed_in_mid_start_leaves_nothing(self, monkeypatch):
        monkeypatch.setattr("services.tools.adapters.process_sandbox_pool.RESTARTS_MAX", 100)
        sandbox = await started(idle_min=0, idle_max=0)
        before = set(orphans("bwrap"))
        for wait in range(30):
            spawner = await sandbox.pool.living_spawner()
            starts = [asyncio.create_task(sandbox.pool.cold()) for _ in range(3)]
            await asyncio.sleep(0.0002 * wait)
            os.kill(spawner.process.pid, signal.SIGKILL)
            await asyncio.gather(*starts, return_exceptions=True)
        await wait_for("the end", lambda: not set(orphans("bwrap")) - before)
        await sandbox.close()

    async def test_idle_ones_that_died_are_not_handed_out(self):
        sandbox = await started()
        await wait_for("idle ones", lambda: len(sandbox.pool.idle) == 2)
        for idle in sandbox.pool.idle:
            os.kill(idle.init, signal.SIGKILL)
        await wait_for("their end", lambda: all(idle.died for idle in sandbox.pool.idle))
        outcomes = [await sandbox.run(ECHO) for _ in range(3)]
        assert [outcome.value for outcome in outcomes] == [1, 1, 1]
        await sandbox.close()

    @pytest.mark.parametrize("seconds", [0, 0.01, 0.2])
    async def test_with_a_killed_server_everything_ends(self, tmp_path, seconds):
        sandbox = await started()
        await sandbox.close()
        before = orphans("bwrap")
        script = tmp_path / "server.py"
        script.write_text(f"""
import asyncio
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.sandbox.ports import Program
async def main():
    sandbox = ProcessSandbox()
    await sandbox.start()
    source = "import os, time\\nos.fork()\\nos.setsid()\\ntime.sleep(600)"
    task = asyncio.create_task(sandbox.run(Program("python", source)))
    while not sandbox.pool.used:
        await asyncio.sleep(0.01)
    await asyncio.sleep({seconds})
    print("runs", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
""")
        server = server_of(script)
        assert await asyncio.to_thread(server.stdout.readline) == b"runs\n"
        started_by_it = tree(server.pid)
        assert len(started_by_it) >= 4
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        server.stdout.close()
        await wait_for("the end", lambda: not [pid for pid in started_by_it if runs(pid)])
        await wait_for("nothing", lambda: not set(orphans("bwrap")) - set(before))


def orphans(name: str) -> list[int]:
    """The processes of a name that this checkout left to the machine."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            stat = Path(f"/proc/{entry}/stat").read_text() if entry.isdigit() else ""
            if f"({name})" in stat and int(stat.rpartition(")")[2].split()[1]) == 1:
                seen = Path(f"/proc/{entry}/mountinfo").read_text()
                seen += Path(f"/proc/{entry}/cmdline").read_text()
                found += [int(entry)] if str(CHECKOUT) in seen else []
        except OSError:
            continue
    return found


def exists(path: str) -> bool:
    return os.path.exists(path)


def server_of(script: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(CHECKOUT)},
        start_new_session=True,
    )


def tree(pid: int) -> list[int]:
    """The descendants of a process."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    return [node for child in children for node in (int(child), *tree(int(child)))]


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class TestFairSemaphore:
    """SBX-13: the places of a process, and who is next."""

    async def test_one_organisation_never_takes_all_places(self):
        places = FairSemaphore(3, of_organisation_max=2, of_agent_max=1, wait_seconds_max=30)
        await places.take("a", "agent-1")
        await places.take("a", "agent-2")
        third = asyncio.create_task(places.take("a", "agent-3"))
        await asyncio.sleep(0)
        assert not third.done()
        await asyncio.wait_for(places.take("b", "agent-4"), 10)
        places.leave("a", "agent-1")
        await asyncio.wait_for(third, 10)
        assert places.free == 0

    async def test_one_agent_never_takes_all_of_its_organisation(self):
        places = FairSemaphore(3, of_organisation_max=3, of_agent_max=1, wait_seconds_max=0.01)
        await places.take("a", "agent-1")
        with pytest.raises(NoPlace, match="No sandbox was free for"):
            await places.take("a", "agent-1")
        await places.take("a", "agent-2")
        assert (places.free, places.waiting) == (1, [])

    async def test_the_one_with_fewest_is_next(self):
        places = FairSemaphore(2, of_organisation_max=2, of_agent_max=9, wait_seconds_max=30)
        await places.take("a", "")
        await places.take("a", "")
        order: list[str] = []

        async def take(org: str) -> None:
            await places.take(org, "")
            order.append(org)

        tasks = [asyncio.create_task(take(org)) for org in ("a", "a", "b")]
        await asyncio.sleep(0)
        places.leave("a", "")
        await asyncio.wait_for(tasks[2], 10)
        assert order == ["b"]
        for task in tasks:
            task.cancel()

    async def test_who_stops_waiting_costs_no_place(self):
        places = FairSemaphore(1, of_organisation_max=1, of_agent_max=1, wait_seconds_max=30)
        await places.take("a", "x")
        waiting = [asyncio.create_task(places.take("b", "y")) for _ in range(2)]
        await asyncio.sleep(0)
        places.leave("a", "x")  # the first of them has its turn ...
        waiting[0].cancel()  # ... and is cancelled before it knows
        await asyncio.wait_for(waiting[1], 10)
        places.leave("b", "y")
        assert (places.free, dict(places.of_agent), dict(places.of_organisation)) == (1, {}, {})

    async def test_the_line_has_an_end(self):
        places = FairSemaphore(0, wait_seconds_max=30, of_organisation_waiting_max=2)
        waiting = [asyncio.create_task(places.take("a", "x")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(NoPlace, match="2 tools of this organisation wait"):
            await places.take("a", "x")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert places.waiting == []
