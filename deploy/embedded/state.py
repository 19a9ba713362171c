"""State of the instance on disk: its processes, ports and passwords."""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

from deploy.embedded import typed_json
from deploy.embedded.command_name import launch_words
from deploy.embedded.settings import SERVICES, LaunchError
from libs.contracts.nats_permissions import ADMIN, users

STATE_FILE = "state.json"
PORTS_FILE = "ports.json"
CREATE_TIME_TOLERANCE_SECONDS = 2.0  # the kernel derives it from the wall clock, which is adjusted
GONE_POLL_SECONDS = 0.02
LOCK_TRIES_MAX = 10
PORT_TRIES_MAX = 200
# Below the kernel's ephemeral range, so no outgoing connection takes our port between restarts.
PORT_RANGE = (20000, 32000)


@dataclass(frozen=True)
class ProcessMark:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except (psutil.Error, OSError):
            return None

    def process(self) -> psutil.Process | None:
        """The live process, or None when it is gone or the pid is somebody else's by now."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < CREATE_TIME_TOLERANCE_SECONDS
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:
            return None

    def wait_gone(self, seconds_max: float) -> bool:
        """Whether it ended in time. A zombie has ended: in a container nobody may reap it."""
        deadline = time.monotonic() + seconds_max
        while self.process():
            if time.monotonic() > deadline:
                return False
            time.sleep(GONE_POLL_SECONDS)
        return True


@dataclass
class PartState:
    name: str
    state: str = "waiting"  # waiting, running, restarting, stopped
    mark: ProcessMark | None = None
    restarts: int = 0
    started_at: float | None = None
    last_exit: int | None = None


@dataclass
class InstanceState:
    phase: str  # starting, migrating, running, stopping, stopped, failed
    supervisor: ProcessMark | None
    problem: str | None = None
    problem_part: str | None = None
    notices: list[str] = field(default_factory=list)  # what was mended at this start
    has_database: bool = False  # there has been one in this home
    variables: dict[str, str] = field(default_factory=dict)  # their fingerprints, by name
    urls: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    parts: dict[str, PartState] = field(default_factory=dict)


def read_state(home: Path) -> InstanceState | None:
    """The last written state, or None when there is none that can be read."""
    try:
        return typed_json.read(InstanceState, (home / STATE_FILE).read_bytes())
    except (OSError, ValueError):
        return None


def write_state(home: Path, state: InstanceState) -> None:
    write_private(home / STATE_FILE, json.dumps(asdict(state), indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; only its owner may read it. A folder in its place, which is none
    of ours, is put aside."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        if path.is_dir():
            path.rename(path.with_name(f"{path.name}.damaged-{time.time_ns()}"))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def new_password() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Secrets:
    """The passwords of a home; what an earlier release did not know is rolled."""

    postgres_password: str
    nats_password: str
    nats_passwords: dict[str, str] = field(default_factory=dict)  # of its other users
    service_passwords: dict[str, str] = field(default_factory=dict)

    @property
    def of_nats(self) -> dict[str, str]:
        """The password of each user of NATS."""
        return {**self.nats_passwords, ADMIN: self.nats_password}

    def complete(self) -> Secrets:
        """The same, with a password for everybody."""
        return replace(
            self,
            nats_passwords=passwords(name for name in users() if name != ADMIN)
            | self.nats_passwords,
            service_passwords=passwords(SERVICES) | self.service_passwords,
        )


def passwords(names: Iterable[str]) -> dict[str, str]:
    return {name: new_password() for name in names}


def open_secrets(home: Path) -> Secrets:
    """The passwords of this home: rolled at the first start, the same ever after."""
    path = home / "secrets.json"
    try:
        known = typed_json.read(Secrets, path.read_bytes())
    except FileNotFoundError:
        known = Secrets(new_password(), new_password())
    except (OSError, ValueError) as error:
        raise LaunchError(
            f"{path} is damaged; the database needs the password in it. Put the file back, or "
            "delete the data with `make wipe`."
        ) from error
    complete = known.complete()
    if complete != known or not path.exists():
        write_private(path, json.dumps(asdict(complete), indent=2) + "\n")
    return complete


def choose_ports(home: Path) -> dict[str, int]:
    """Loopback ports for Postgres and NATS: those of the last start, unless taken by now."""
    try:
        remembered = typed_json.read(dict[str, int], (home / PORTS_FILE).read_bytes())
    except (OSError, ValueError):
        remembered = {}
    chosen: dict[str, int] = {}
    for name in ("postgres", "nats"):
        port = remembered.get(name, 0)
        usable = port in range(1, 65536) and port_is_free("127.0.0.1", port)
        chosen[name] = port if usable else free_port(apart_from=chosen.values())
    if chosen != remembered:
        write_ports(home, chosen)
    return chosen


def write_ports(home: Path, ports: Mapping[str, int]) -> None:
    write_private(home / PORTS_FILE, json.dumps(ports, indent=2) + "\n")


def free_port(*, apart_from: Collection[int] = ()) -> int:
    for _ in range(PORT_TRIES_MAX):
        port = random.SystemRandom().randrange(*PORT_RANGE)
        if port not in apart_from and port_is_free("127.0.0.1", port):
            return port
    raise LaunchError(f"No free port on 127.0.0.1 between {PORT_RANGE[0]} and {PORT_RANGE[1]}.")


def port_is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class HomeLock:
    """One supervisor per home. The kernel drops the lock when its holder dies, however it dies."""

    def __init__(self, home: Path) -> None:
        self._path = home / "lock"
        self._descriptor: int | None = None

    def take(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(LOCK_TRIES_MAX):
            if _lock(descriptor, fcntl.LOCK_EX):
                break
            time.sleep(GONE_POLL_SECONDS)  # it may only be a `status` that looks
        else:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._descriptor = descriptor
        return True

    def holder(self) -> ProcessMark | None:
        """The supervisor that holds the lock, or None when nobody does."""
        try:
            descriptor = os.open(self._path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            if _lock(descriptor, fcntl.LOCK_SH):
                return None
            text = os.read(descriptor, 32).decode()
            return ProcessMark.of(int(text)) if text.isdecimal() else None
        finally:
            os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def require_running(home: Path) -> InstanceState:
    state = read_state(home)
    if state is None or not state.urls or HomeLock(home).holder() is None:
        raise LaunchError(f"Heeler is not running. Start it with `{launch_words('up')}`.")
    return state
