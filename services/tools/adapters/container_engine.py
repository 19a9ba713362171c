"""The container engine as its command reaches it: what it can, one container, what is left over."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import shutil
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from services.tools.adapters.running_sandbox import NotStarted
from services.tools.sandbox.confinement import (
    DEVICES,
    NOBODY,
    PROGRAM_EXECUTOR,
    SCRATCH_BYTES,
    SHARED_MEMORY_BYTES,
    files,
)
from services.tools.sandbox.ports import Limits, Workspace
from services.tools.sandbox.spawner_protocol import PACKAGES_PATH, WORKSPACE_PATH

log = logging.getLogger(__name__)

COMMAND = "docker"
INIT = PROGRAM_EXECUTOR.with_name("container_init.py")
# Which process a container belongs to: its machine, its number, and when it began.
LABEL = "heeler.sandbox"
ASK_SECONDS_MAX = 30.0
SAID_BYTES_MAX = 1 << 20
WORDS_MAX = 500
HELP = ("--help'.", "--help' for more information")
REMOVED_AT_ONCE = 50
# One container: what its program may use, and the processes around that.
OWN_MEMORY_BYTES = 64 << 20
OWN_PROCESSES = 8
CPUS = 1
FILES_MAX = 50_000
# What the engine has to be able to bound, as `docker info` says it, and how that is called.
BOUNDS = {"MemoryLimit": "memory", "PidsLimit": "processes", "CpuCfsQuota": "CPU"}
PASSED_ON = ("PATH", "HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")


class ContainerEngine:
    """Starts containers of one image, and removes them. All of it goes through the engine's
    command, so that contexts, other machines and their keys work as operators know them."""

    def __init__(self, image: str, network: str) -> None:
        self.image = image
        self.network = network
        self.rules = files(["/"], ["/dev/shm", WORKSPACE_PATH, *DEVICES])
        self.program = [INIT.read_text(), PROGRAM_EXECUTOR.read_text(), self.rules]
        self.owner = owner(os.getpid())

    async def problem(self) -> str:
        """The missing parts without which no container runs here; empty for none."""
        if shutil.which(COMMAND) is None:
            return f"there is no `{COMMAND}` command where the server runs"
        try:
            info = json.loads(await self.ask("info", "--format", "{{json .}}"))
            missing = [name for key, name in BOUNDS.items() if not info.get(key)]
            if info.get("OSType") != "linux":
                return "the engine runs no Linux containers"
            if missing:
                return f"the engine cannot bound {' and '.join(missing)} on its machine"
            if not any("seccomp" in option for option in info.get("SecurityOptions") or []):
                return "the engine has no filter of system calls (seccomp) on its machine"
        except (NotStarted, ValueError, AttributeError) as problem:
            return f"no container engine answers: {problem}"
        try:
            await self.ask("image", "inspect", "--format", "{{.Id}}", self.image)
        except NotStarted:
            return f"the engine has no image {self.image!r}: `{COMMAND} pull {self.image}` gets one"
        return ""

    def words(self, name: str, workspace: Workspace | None, packages: str) -> list[str]:
        """The command that runs a container, of which nothing is left when it has ended."""
        limits = Limits()
        memory = str(limits.memory_bytes + OWN_MEMORY_BYTES)
        scratch = f"rw,nosuid,nodev,exec,mode=1777,size={SCRATCH_BYTES},nr_inodes={FILES_MAX}"
        words = [
            *("run", "--rm", "--interactive", "--pull", "never", "--name", name),
            *("--label", f"{LABEL}={self.owner}", "--log-driver", "none", "--no-healthcheck"),
            *("--network", self.network, "--hostname", "sandbox", "--ipc", "private"),
            *("--user", user_of(workspace), "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", "--read-only"),
            *("--memory", memory, "--memory-swap", memory, "--cpus", str(CPUS)),
            *("--pids-limit", str(limits.processes + OWN_PROCESSES)),
            *("--ulimit", "core=0", "--ulimit", "nofile=1024", "--ulimit", "memlock=0"),
            *("--tmpfs", f"/tmp:{scratch}", "--shm-size", str(SHARED_MEMORY_BYTES)),
            *("--workdir", "/tmp", "--entrypoint", "python3"),
        ]
        if workspace is not None:
            words += ["--mount", mount(workspace.path, WORKSPACE_PATH)]
        if packages:
            words += ["--mount", f"{mount(packages, PACKAGES_PATH)},readonly"]
        return [*words, self.image, "-I", "-S", "-c", *self.program]

    async def run(
        self, name: str, workspace: Workspace | None, packages: str
    ) -> asyncio.subprocess.Process:
        """The command that runs a container, which has begun to. Raises OSError."""
        return await asyncio.create_subprocess_exec(
            COMMAND,
            *self.words(name, workspace, packages),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=passed_on(),
            start_new_session=True,  # what interrupts the service leaves it to clean up
        )

    async def ask(self, *words: str) -> str:
        """The output of a short command of the engine. Raises NotStarted with its words if it
        failed, or did not end in time."""
        process = await asyncio.create_subprocess_exec(
            COMMAND,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=SAID_BYTES_MAX,
            env=passed_on(),
        )
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                printed, errors = await process.communicate()
        except TimeoutError:
            why = f"`{COMMAND} {words[0]}` did not end within {ASK_SECONDS_MAX:g} seconds"
            raise NotStarted(why) from None
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            raise NotStarted(last_line(errors) or f"it ended with status {process.returncode}")
        return printed.decode("utf-8", "replace")

    async def remove(self, *names: str) -> None:
        """Kill and remove containers. Safe to repeat; what cannot be removed is logged."""
        for start in range(0, len(names), REMOVED_AT_ONCE):
            some = names[start : start + REMOVED_AT_ONCE]
            try:
                await self.ask("rm", "--force", "--volumes", *some)
            except (NotStarted, OSError) as problem:
                log.warning("Containers of sandboxes could not be removed: %s", problem)

    async def sweep(self) -> None:
        """Remove the containers of processes of this machine that have died."""
        shown = f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}'
        listed = await self.ask("ps", "--all", "--filter", f"label={LABEL}", "--format", shown)
        pairs = [line.split(" ", 1) for line in listed.splitlines() if " " in line]
        left = [name for name, whose in pairs if is_dead(whose)]
        if left:
            log.info("%d containers are left of a process that has died: removed", len(left))
            await self.remove(*left)


class Cleanup:
    """The clean-up after a container has been used, besides the requested one."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Do it, while others go on."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def below(self, count: int) -> None:
        """Until fewer than so many are under way."""
        while len(self.tasks) >= count:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)


def container_name() -> str:
    """A name that no other container has."""
    return f"heeler-sandbox-{token_hex(8)}"


def mount(source: str, target: str) -> str:
    """A folder of the machine in a container; a path may have commas and quotation marks."""
    quoted = f"source={source}".replace('"', '""')
    return f'type=bind,"{quoted}",target={target}'


def user_of(workspace: Workspace | None) -> str:
    """As whom a container runs: nobody, or the user whose a workspace is."""
    if workspace is None:
        return f"{NOBODY}:{NOBODY}"
    if workspace.uid is not None:
        return f"{workspace.uid}:{workspace.uid}"
    return f"{os.getuid()}:{os.getgid()}"


def owner(pid: int) -> str:
    """The name of a process on all machines that share an engine; empty if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return f"{platform.node()}/{pid}/{int(fields[19])}"


def is_dead(whose: str) -> bool:
    """Whether a container belongs to a process of this machine that is no more."""
    machine, _, rest = whose.partition("/")
    pid = rest.partition("/")[0]
    return machine == platform.node() and pid.isdigit() and owner(int(pid)) != whose


def passed_on() -> dict[str, str]:
    """The environment of the engine's command: nothing that it does not need."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith("DOCKER_")
    }


def last_line(printed: bytes | bytearray) -> str:
    """The last line that a command printed, if any; not that it has a page of help."""
    lines = [line.strip() for line in printed.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.endswith(HELP)]
    return lines[-1][:WORDS_MAX] if lines else ""


async def ends_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether a command ends within so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    return process.returncode is not None
