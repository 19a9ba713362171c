"""Real servers for tests: Postgres alone, NATS alone, or a whole Heeler under its supervisor.

All of them run on free loopback ports in a temporary folder that `close()` deletes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import psycopg

from deploy.embedded import postgres_location
from deploy.embedded.api_health import read_health
from deploy.embedded.leftovers import kill_leftovers
from deploy.embedded.nats_server import Nats, nats_url
from deploy.embedded.process_activity import Allowance
from deploy.embedded.service_commands import service_command
from deploy.embedded.settings import ALL_SERVICES, CHECKOUT, SERVICES, Settings, service_of
from deploy.embedded.state import (
    HomeLock,
    InstanceState,
    ProcessMark,
    open_secrets,
    read_state,
    write_ports,
)
from deploy.embedded.subprocesses import Command, signal_group, spawn, tail, wait_within
from deploy.embedded.supervised_process import SERVER_STARTS_WITHIN
from deploy.migrate import migrate_all
from libs.contracts.nats_permissions import SYSTEM, users
from libs.contracts.service_registry import database_role, names
from tests.ports import free_port
from tests.waiting import BUSY_MACHINE_FACTOR, pause

FOREIGN = ("HEELER_", "OPENAI_", "ANTHROPIC_", "ARGS")  # settings of somebody else's server
DOWN_SECONDS_MAX = 45.0
KILLED_SECONDS_MAX = 30.0
SERVICE_PASSWORD = "secret"  # of each service's role in a migrated database
MIGRATED = "migrated_first"  # the database that others are copies of
# How NATS logs a refused "Publish Violation" or "Subscription Violation".
VIOLATION = " Violation - "


def temporary_home() -> Path:
    """A new folder that the account Postgres runs under may enter; pytest's own is closed to it."""
    home = Path(tempfile.mkdtemp(prefix="heeler-test-"))
    home.chmod(0o755)
    return home


def delete_home(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    for folder in postgres_location.folders_outside(home):
        shutil.rmtree(folder, ignore_errors=True)


def wipe(folder: Path) -> None:
    """Delete a folder at once, as a lost disk would, even one in which a server still writes:
    under its new name nothing new comes to it."""
    shutil.rmtree(folder.rename(folder.with_name(f"{folder.name}-gone")))


def wait_until(what: str, condition: Callable[[], bool], seconds_max: float) -> None:
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > BUSY_MACHINE_FACTOR * seconds_max:
            raise AssertionError(f"{what}: not within {waited:.0f} s")
        time.sleep(pause(waited))


def permission_violations(log: str) -> list[str]:
    """The lines in which a NATS server says that a user may not do what it tried."""
    return [line for line in log.splitlines() if VIOLATION in line]


class _Server:
    """One server process; `start` after `stop` or `kill9` keeps port, password and data."""

    def __init__(self) -> None:
        self.home = temporary_home()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        self._prepare()
        command, began = self._command(), time.monotonic()
        self._process = process = spawn(command)
        allowance = Allowance(SERVER_STARTS_WITHIN, has_children=command.works_in_children)
        while not self._ready():
            if process.poll() is not None or allowance.is_spent(process.pid):
                self.kill9()
                raise AssertionError(f"{command.name} did not get ready\n{tail(command.log)}")
            time.sleep(pause(time.monotonic() - began))
        return self

    def stop(self) -> None:
        if self._process:
            signal_group(self._process.pid, self._command().stop_signal)
            wait_within(self._process, SERVER_STARTS_WITHIN)
        self._process = None

    def kill9(self) -> None:
        """Like a power cut: its children too, of which one might still answer."""
        if self._process and self._process.poll() is None:
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            self._process.wait()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self._process = None

    @property
    def pid(self) -> int:
        assert self._process, "not running"
        return self._process.pid

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped as by a debugger: connections stay, nothing answers."""
        threads = Path(f"/proc/{self.pid}/task")

        def stopped() -> bool:
            states = [
                path.read_text().rpartition(")")[2].split()[0] for path in threads.glob("*/stat")
            ]
            return set(states) == {"T"}

        os.kill(self.pid, signal.SIGSTOP)
        try:
            wait_until("every thread stopped", stopped, 5.0)
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.stop()
        delete_home(self.home)

    def _prepare(self) -> None:
        raise NotImplementedError

    def _command(self) -> Command:
        raise NotImplementedError

    def _ready(self) -> bool:
        raise NotImplementedError


class PostgresServer(_Server):
    """Postgres without fsync: it survives `kill9`, not a power cut."""

    _has_migrated = False

    def __init__(self, *, fsync: bool = False) -> None:
        super().__init__()
        log = self.home / "postgres.log"
        placed = postgres_location.place(self.home, log_file=log, port=free_port(), password="test")
        self.server = replace(placed, fsync=fsync)

    @property
    def url(self) -> str:
        """The superuser's url of the database `postgres`."""
        return self.server.url("postgres")

    def create_database(self, name: str) -> str:
        """Create it unless it exists; the superuser's url of it."""
        return self.server.create_database(name)

    def create_migrated_database(self, name: str) -> str:
        """A new database with the tables of all services: a copy of the first one that had them."""
        if not self._has_migrated:
            migrate_all(self.create_database(MIGRATED), dict.fromkeys(names(), SERVICE_PASSWORD))
            self._has_migrated = True
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"drop database if exists {name} with (force)".encode())
            connection.execute(f"create database {name} template {MIGRATED}".encode())
            for service in names():  # another test may have changed it
                role = f"alter role {database_role(service)} password '{SERVICE_PASSWORD}'"
                connection.execute(role.encode())
        return self.server.url(name)

    def _prepare(self) -> None:
        self.server.prepare()

    def _command(self) -> Command:
        return self.server.command()

    def _ready(self) -> bool:
        return self.server.ready()


class NatsServer(_Server):
    def __init__(self) -> None:
        super().__init__()
        self.server = Nats(
            folder=self.home / "nats",
            log=self.home / "nats.log",
            port=free_port(),
            passwords=dict.fromkeys(users(), "test"),
        )

    @property
    def url(self) -> str:
        """For the user who may do everything."""
        return self.server.url

    def logged(self) -> str:
        """What the server has logged."""
        return self.server.log.read_text()

    def wipe_store(self) -> None:
        """Delete all streams, as a lost disk would; the server must be stopped."""
        assert self._process is None, "stop the server before wiping its store"
        shutil.rmtree(self.server.store, ignore_errors=True)

    def _prepare(self) -> None:
        self.server.prepare()

    def _command(self) -> Command:
        return self.server.command()

    def _ready(self) -> bool:
        return self.server.ready()


class HeelerInstance:
    """A whole Heeler in a home of its own: `with HeelerInstance() as heeler: heeler.base_url`."""

    def __init__(
        self,
        *,
        env: Mapping[str, str] | None = None,
        home: Path | None = None,
        port: int | None = None,
        checkout: Path = CHECKOUT,
    ) -> None:
        self.home = home or temporary_home()
        self.port = port or free_port()
        if home is None:
            write_ports(self.home, {"postgres": free_port(), "nats": free_port()})
        self.checkout = checkout
        self.env: dict[str, str] = dict(env or {})
        self._replicas: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        violations = [] if error else permission_violations(self.nats_log())
        self.close()
        assert not violations, f"NATS refused what nats_permissions.py does not list: {violations}"

    # -- the commands a person types

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`python -m deploy.embedded <words>` for this home, with its output."""
        return self._ended("deploy.embedded", *words)

    def heeler(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`heeler <words>` for this home, with its output."""
        return self._ended("cli", *words)

    def _ended(self, module: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-m", module, *words],
            cwd=self.checkout,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """The same, left running with its output in a pipe."""
        return subprocess.Popen(
            [self.python, "-m", "deploy.embedded", *words],
            cwd=self.checkout,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def up(self) -> str:
        """Start, wait until all is healthy; what `up` printed."""
        done = self.command("up")
        assert done.returncode == 0, f"up failed:\n{done.stdout}{done.stderr}"
        return done.stdout

    def down(self) -> str:
        self.stop_replicas()
        done = self.command("down")
        assert done.returncode == 0, f"down failed:\n{done.stdout}{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.command("status", "--json").stdout)
        return document

    def close(self) -> None:
        """Stop everything as `down` does, without a Python of its own, and delete the home."""
        self.stop_replicas()
        supervisor = HomeLock(self.home).holder() if self.home.exists() else None
        if supervisor:
            with suppress(ProcessLookupError):
                os.kill(supervisor.pid, signal.SIGTERM)
            if not supervisor.wait_gone(DOWN_SECONDS_MAX):
                with suppress(ProcessLookupError):
                    os.kill(supervisor.pid, signal.SIGKILL)
        kill_leftovers(read_state(self.home))
        delete_home(self.home)

    def environment(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(FOREIGN) or key == "HEELER_PROCESSES"
        }
        ours = {"HEELER_HOME": str(self.home), "HEELER_PORT": str(self.port)}
        return kept | ours | self.env

    @property
    def python(self) -> str:
        """The interpreter of the checkout: of ours, the one that runs this."""
        theirs = self.checkout / ".venv" / "bin" / "python"
        return sys.executable if self.checkout == CHECKOUT else str(theirs)

    # -- where things are

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def nats_url(self) -> str:
        return self.state().urls["nats"]

    @property
    def nats_system_url(self) -> str:
        """For the user who sees the state of the server."""
        password = open_secrets(self.home).of_nats[SYSTEM]
        return nats_url(port=self.state().ports["nats"], user=SYSTEM, password=password)

    @property
    def database_url(self) -> str:
        """The superuser's url of the database `heeler`."""
        return self.state().urls["database"]

    def state(self) -> InstanceState:
        state = read_state(self.home)
        assert state, f"no state in {self.home}"
        return state

    def log(self, name: str, lines: int = 50) -> str:
        return tail(self.home / "logs" / f"{self.part(name)}.log", lines)

    def nats_log(self) -> str:
        """Everything that NATS has logged since its log was rotated."""
        log = self.home / "logs" / "nats.log"
        return log.read_text() if log.exists() else ""

    def psql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement as superuser; its rows, or none."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    # -- its processes: postgres, nats, memory, agent, api (one process or three), supervisor

    def part(self, name: str) -> str:
        """The part that a service is, or is in."""
        service = service_of(name)
        in_one = service in SERVICES and ALL_SERVICES in self.state().parts
        return ALL_SERVICES + name.removeprefix(service) if in_one else name

    def pid(self, name: str) -> int:
        return self.running_mark(name).pid

    def kill9(self, name: str) -> int:
        """Kill it like a power cut would, and wait until it is gone; its pid."""
        mark = self.running_mark(name)
        os.kill(mark.pid, signal.SIGKILL)
        assert mark.wait_gone(KILLED_SECONDS_MAX), f"{name} outlived SIGKILL"
        return mark.pid

    def wait_restarted(self, name: str, old_pid: int, seconds_max: float = 30.0) -> int:
        """The pid of the process that took the place of the killed one."""

        def replaced() -> bool:
            mark = self.mark(name)
            return mark is not None and mark.pid != old_pid

        wait_until(f"{name} restarted", replaced, seconds_max)
        return self.pid(name)

    def wait_healthy(self, timeout: float = 30.0) -> None:
        """Return when all parts run and `/v1/health` says ok of every one."""
        wait_until("healthy", self.is_healthy, timeout)

    def is_healthy(self) -> bool:
        marks = [part.mark for part in self.state().parts.values()]
        if not all(mark and mark.process() for mark in marks):
            return False
        return read_health("127.0.0.1", self.port).all_ok

    def service_command(self, name: str, *, port: int | None = None) -> Command:
        """How one more process of a service is started; an api listens on its own `port`."""
        settings = Settings(
            home=self.home,
            host="127.0.0.1",
            port=port or self.port,
            services_package=self.env.get("HEELER_SERVICES_PACKAGE", "services"),
        )
        command = service_command(settings, open_secrets(self.home), self.state().ports, name)
        nobody = {"HEELER_INSTANCE": ""}  # no supervisor starts another in its place
        return replace(command, environment={**command.environment, **self.env, **nobody})

    def spawn_service(
        self, name: str, extra_env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """One more process of a service, outside the supervisor; stopped by `down`."""
        command = self.service_command(name)
        log = self.home / "logs" / f"{name}-replica-{len(self._replicas) + 1}.log"
        environment = {**command.environment, **(extra_env or {})}
        process = spawn(replace(command, log=log, environment=environment))
        self._replicas.append(process)
        return process

    def stop_replicas(self) -> None:
        for process in self._replicas:
            process.terminate()
        for process in self._replicas:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._replicas.clear()

    def running_mark(self, name: str) -> ProcessMark:
        mark = self.mark(name)
        assert mark, f"{name} is not running"
        return mark

    def mark(self, name: str) -> ProcessMark | None:
        """The process of a part, or None while it has none."""
        if name == "supervisor":
            return HomeLock(self.home).holder()
        return self.state().parts[self.part(name)].mark
