"""The sandbox of containers, with a real engine: what programs get, and what nobody gets out."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.containers.engine import images
from deploy.embedded.settings import CHECKOUT
from services.tools.adapters.agent_sandbox_sessions import AgentSandboxSessions
from services.tools.adapters.agent_workspaces import AgentWorkspaces
from services.tools.adapters.container_engine import LABEL, ContainerEngine
from services.tools.adapters.container_process import ContainerProcess
from services.tools.adapters.container_sandbox import ContainerSandbox
from services.tools.sandbox.ports import Limits, Outcome, Program
from tests.engine import require_containers
from tests.integration.sandbox_sessions import ORG, SessionCases, shell
from tests.waiting import wait_for

IMAGE = images()["HEELER_PYTHON_IMAGE"]
SHORT = Limits(seconds=60, cpu_seconds=20)
ENGINE_SECONDS_MAX = 60.0


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    require_containers()


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[ContainerSandbox]:
    """One for all tests here."""
    made = ContainerSandbox(IMAGE)
    await made.start()
    assert made.refusal == ""
    yield made
    await made.close()
    assert containers() == []


async def python(
    sandbox: ContainerSandbox, source: str, function: str = "", limits: Limits = SHORT, **arguments
) -> Outcome:
    return await sandbox.run(
        Program("python", source, function=function, arguments=arguments, limits=limits)
    )


def docker(*words: str) -> str:
    done = subprocess.run(
        ["docker", *words], capture_output=True, text=True, check=True, timeout=ENGINE_SECONDS_MAX
    )
    return done.stdout


def containers() -> list[str]:
    """Those that this process has started."""
    mine = ContainerEngine(IMAGE, "none").owner
    return docker("ps", "-a", "-q", "--filter", f"label={LABEL}={mine}").split()


def server_of(script: Path) -> subprocess.Popen[bytes]:
    """A process that has a sandbox of its own."""
    return subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )


def size(path: Path) -> int:
    return path.stat().st_size


async def one_used(sandbox: ContainerSandbox) -> ContainerProcess:
    """The container of the one call that runs, once the idle ones have started again."""
    pool = sandbox.pool
    assert pool is not None
    await wait_for("the call", lambda: len(pool.used) == 1 and not pool.starting, 60)
    return next(iter(pool.used))


ATTEMPTS = """
import ctypes, os, socket
def attempt(name, what):
    try:
        found = what()
        print(name, "GOT", found)
    except BaseException as error:
        print(name, "refused", type(error).__name__)
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
"""


async def attempted(sandbox: ContainerSandbox, source: str) -> str:
    """What an attacker's code found out, each try on a line."""
    outcome = await python(sandbox, ATTEMPTS + source)
    assert outcome.status == "success", outcome
    return outcome.stdout


class TestPrograms:
    """TOOL-21"""

    async def test_a_function_gets_its_arguments_and_gives_json(self, sandbox):
        source = "import sys\ndef add(a, b=2):\n  print('out ü')\n  print('err', file=sys.stderr)\n"
        source += "  sum(range(3_000_000))\n"  # CPU time is counted in ticks of 10 ms
        outcome = await python(sandbox, f"{source}  return {{'sum': a + b}}", "add", a=40)
        assert (outcome.status, outcome.value) == ("success", {"sum": 42})
        assert (outcome.stdout, outcome.stderr) == ("out ü\n", "err\n")
        assert outcome.started
        assert outcome.cpu_seconds > 0
        assert outcome.memory_bytes_max > 1 << 20

    async def test_a_shell_and_what_the_image_lacks(self, sandbox):
        outcome = await sandbox.run(Program("shell", "echo $ARGUMENTS; exit 3", limits=SHORT))
        assert (outcome.status, outcome.stdout) == ("error", "{}\n")
        assert outcome.reason == "The program ended with exit status 3"
        if sandbox.runtimes.node is None:
            refused = await sandbox.run(Program("javascript", "1"))
            assert not refused.started
            assert refused.reason == (
                f"JavaScript needs Node, which is not installed in the image {IMAGE}"
            )

    async def test_a_program_calls_tools_and_imports_packages(self, sandbox, tmp_path):
        tmp_path.chmod(0o755)
        (tmp_path / "lucky.py").write_text("number = 7")
        prelude = """
import json, os
def names():
    def double(number):
        data = json.dumps({"call": "double", "arguments": {"number": number}}).encode()
        os.write(3, len(data).to_bytes(4, "big") + data)
        size = int.from_bytes(os.read(11, 4), "big")
        return json.loads(os.read(11, size))["value"]
    return {"double": double}
"""

        async def answer(name, arguments):
            return {"value": arguments["number"] * 2}

        source = "import lucky\ndef f():\n  open('/packages/x', 'w')"
        outcome = await sandbox.run_calling(
            Program(
                "python",
                "import lucky\ndef f():\n  return double(double(lucky.number))",
                function="f",
                prelude=prelude,
                packages=str(tmp_path),
                limits=SHORT,
            ),
            answer,
        )
        assert outcome.value == 28, outcome
        written = await sandbox.run(
            Program("python", source, function="f", packages=str(tmp_path), limits=SHORT)
        )
        assert "Read-only file system" in written.reason

    async def test_idle_ones_wait_and_each_is_used_once(self, sandbox):
        await wait_for("idle ones", lambda: len(sandbox.pool.idle) >= 2, ENGINE_SECONDS_MAX)
        names = {idle.name for idle in sandbox.pool.idle}
        await python(sandbox, "open('/tmp/left', 'w').write('x')")
        found = await python(sandbox, "import os\ndef f():\n  return os.listdir('/tmp')", "f")
        assert found.value == []
        assert len({idle.name for idle in sandbox.pool.idle} & names) <= len(names) - 2


class TestWalls:
    """SBX-03"""

    async def test_it_is_nobody_without_rights_on_a_root_that_cannot_be_written(self, sandbox):
        told = await attempted(
            sandbox,
            """
for path in ("/x", "/etc/x", "/usr/bin/x", "/proc/sys/kernel/core_pattern", "/dev/mem"):
    attempt(path, lambda: open(path, "wb").write(b"x"))
attempt("root", lambda: os.setuid(0))
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("mount", lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0))
attempt("namespace", lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else 1 / 0)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(os.getuid(), *(status[name].strip() for name in ("CapBnd", "NoNewPrivs", "Seccomp")))
print(sorted(os.environ))
""",
        )
        assert "GOT" not in told
        assert told.splitlines()[-2].split()[:3] == ["65534", "0" * 16, "1"]
        assert told.splitlines()[-2].split()[3] == "2"
        assert told.splitlines()[-1] == "['HOME', 'LANG', 'PATH', 'TMPDIR']"

    async def test_there_is_no_network_and_no_process_of_others(self, sandbox):
        told = await attempted(
            sandbox,
            """
for host in ("127.0.0.1", "169.254.169.254", "172.17.0.1", "1.1.1.1"):
    attempt(host, lambda: socket.create_connection((host, 80), timeout=2))
print(sorted(os.listdir("/sys/class/net")))
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()) == [1, os.getpid()])
""",
        )
        assert "GOT" not in told
        assert told.splitlines()[-2:] == ["['lo']", "True"]

    async def test_its_first_process_can_neither_be_looked_into_nor_ended(self, sandbox):
        told = await attempted(
            sandbox,
            """
import signal
for name in ("mem", "environ", "fd/0", "fd/1", "root/etc/passwd"):
    attempt(name, lambda: open(f"/proc/1/{name}", "rb").read(1))
attempt("ptrace", lambda: call(101, 16, 1, 0, 0))
attempt("pidfd_getfd", lambda: call(438, os.pidfd_open(1), 1, 0))
for number in signal.valid_signals():
    try:
        os.kill(1, number)
    except PermissionError:
        pass
print("lives", os.getppid())
""",
        )
        assert "GOT" not in told
        assert "lives" in told

    async def test_what_looks_like_an_end_is_only_printed(self, sandbox):
        forged = "X\\0\\0\\0\\x02{}"
        outcome = await python(sandbox, f"print('{forged}' * 3)\nraise SystemExit(3)")
        assert outcome.status == "error"
        assert outcome.reason == "The code ended itself with 3"
        assert outcome.stdout.startswith("X\0")


BOMBS = {
    "time": ("while True: pass", Limits(seconds=1), "timeout", "It ran longer than 1 seconds"),
    "cpu": (
        "import os\nos.fork(); os.fork()\nwhile True: pass",
        Limits(seconds=120, cpu_seconds=1),
        "killed",
        "seconds of CPU",
    ),
    "memory of many": (
        "import os, time\nfor _ in range(6): os.fork()\nx = bytearray(60 << 20)\ntime.sleep(100)",
        SHORT,
        "killed",
        "memory",
    ),
    "files": (
        "for i in range(10**9): open(f'/tmp/{i}', 'w')",
        SHORT,
        "error",
        "No space left on device",
    ),
    "output": ("while True: print('x' * 10000)", SHORT, "killed", "It printed more than 16 MiB"),
    "processes": ("import os\nwhile True: os.fork()", SHORT, "error", "BlockingIOError"),
}


class TestLimits:
    """SBX-05, SBX-12, SBX-13"""

    @pytest.mark.parametrize("bomb", BOMBS)
    async def test_it_ends_in_time_and_costs_others_nothing(self, sandbox, bomb):
        source, limits, status, reason = BOMBS[bomb]
        ended, other = await asyncio.gather(
            python(sandbox, source, limits=limits), python(sandbox, "def f(): return 1", "f")
        )
        assert (ended.status, other.value) == (status, 1), ended
        assert reason in ended.reason
        assert len(ended.stdout) < 200_000

    async def test_a_cancelled_call_ends_its_program(self, sandbox):
        call = asyncio.create_task(python(sandbox, "import time\ntime.sleep(600)"))
        running = await one_used(sandbox)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert running.ended

    async def test_containers_that_somebody_removes_are_told_and_replaced(self, sandbox):
        call = asyncio.create_task(python(sandbox, "import time\ntime.sleep(600)"))
        running = await one_used(sandbox)
        await asyncio.to_thread(docker, "rm", "-f", running.name)
        outcome = await call
        assert (outcome.status, outcome.reason) == ("killed", "It was ended by signal 9")
        for idle in list(sandbox.pool.idle):
            await asyncio.to_thread(docker, "rm", "-f", idle.name)
            await wait_for("its end", lambda idle=idle: idle.died)
        assert (await python(sandbox, "def f(): return 1", "f")).value == 1

    async def test_with_a_killed_server_its_containers_end(self, tmp_path):
        script = tmp_path / "server.py"
        script.write_text(f"""
import asyncio
from services.tools.adapters.container_process import ContainerProcess
from services.tools.adapters.container_sandbox import ContainerSandbox
from services.tools.sandbox.ports import Program
async def main():
    sandbox = ContainerSandbox({IMAGE!r})
    await sandbox.start()
    print(sandbox.pool.engine.owner, flush=True)
    await sandbox.run(Program("python", "import time\\ntime.sleep(600)"))
asyncio.run(main())
""")
        server = server_of(script)
        assert server.stdout is not None
        owner = (await asyncio.to_thread(server.stdout.readline)).decode().strip()
        listed = ("ps", "-a", "-q", "--filter", f"label={LABEL}={owner}")
        assert docker(*listed)
        server.send_signal(signal.SIGKILL)
        server.wait()
        server.stdout.close()
        await wait_for("the end", lambda: not docker(*listed), ENGINE_SECONDS_MAX)

    async def test_what_a_dead_server_has_left_is_removed_at_the_next_start(self):
        engine = ContainerEngine(IMAGE, "none")
        machine, pid, _ = engine.owner.split("/")
        left, other, mine = (
            docker("run", "-d", "--label", f"{LABEL}={whose}", IMAGE, "sleep", "600").strip()
            for whose in (f"{machine}/{pid}/1", f"elsewhere/{pid}/1", engine.owner)
        )
        try:
            await engine.sweep()
            there = docker("ps", "-a", "-q", "--no-trunc").split()
            assert (left in there, other in there, mine in there) == (False, True, True)
        finally:
            docker("rm", "-f", other, mine)


@pytest.fixture
async def workspaces(tmp_path: Path, sandbox: ContainerSandbox) -> AgentWorkspaces:
    made = AgentWorkspaces(str(tmp_path / "work, spaces"))
    made.prepare()
    made.own_users = sandbox.has_own_users
    return made


class TestContainerSessions(SessionCases):
    """SBX-01, SBX-09"""

    @pytest.fixture(autouse=True)
    async def given(self, sandbox: ContainerSandbox, workspaces: AgentWorkspaces) -> None:
        self.sessions = sandbox
        self.workspace = await workspaces.open(ORG, "agent-1")

    async def test_nothing_happens_in_it_while_it_is_frozen(self):
        session = await self.session()
        await session.exec(shell("while true; do echo x >> ticks; sleep 0.01; done & "))
        ticks = Path(self.workspace.path, "ticks")
        await wait_for("the first tick", ticks.exists)
        await session.pause()
        frozen, stats = size(ticks), session.stats()
        assert stats.state == "paused"
        assert stats.processes >= 3
        await asyncio.sleep(0.2)
        assert size(ticks) == frozen
        session.resume()
        await wait_for("more ticks", lambda: size(ticks) > frozen)
        await session.stop()
        ended = size(ticks)
        await asyncio.sleep(0.2)
        assert size(ticks) == ended

    async def test_an_agent_keeps_its_sandbox_and_another_has_another(self, sandbox, workspaces):
        agents = AgentSandboxSessions(sandbox, workspaces, sandbox.places)
        await agents.run(shell("echo tea > cup; echo mine > /tmp/note"))
        same = await agents.run(shell("cat cup /tmp/note; id -u"))
        other = await agents.run(shell("ls /tmp /workspace; id -u", agent_id="agent-2"))
        await agents.close()
        assert same.stdout.splitlines()[:2] == ["tea", "mine"]
        assert "cup" not in other.stdout
        assert "note" not in other.stdout
        if sandbox.has_own_users:
            assert same.stdout.split()[-1] != other.stdout.split()[-1]
