"""A NATS server with JetStream from the wheel: loopback only, its store under one folder."""

from __future__ import annotations

import hashlib
import shutil
import signal
import socket
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy import container_health
from deploy.embedded import service_environment
from deploy.embedded.process_activity import Allowance, OwnTime
from deploy.embedded.settings import LaunchError
from deploy.embedded.state import write_private
from deploy.embedded.subprocesses import Command
from deploy.embedded.supervised_process import SERVER_STARTS_WITHIN, Failed, Part
from deploy.nats_configuration import configuration, quote
from libs.contracts.nats_permissions import ADMIN, SYSTEM

# Go collects garbage when the heap has grown by so many percent, its own figure being 100: with a
# heap of a few MB that is all the time. The limit keeps a large heap from growing fivefold.
GARBAGE_COLLECTION = {"GOGC": "400", "GOMEMLIMIT": "768MiB"}
CONNECT_SECONDS_MAX = 1.0
UNWELL_WITHIN = OwnTime(processor_seconds=10.0, idle_seconds=1.0)  # by its own word
FREE_BYTES_MIN = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Nats:
    folder: Path
    log: Path
    port: int
    passwords: Mapping[str, str]  # of every user

    @property
    def url(self) -> str:
        """For the user who may do everything."""
        return self.url_of(ADMIN)

    def url_of(self, user: str) -> str:
        return nats_url(port=self.port, user=user, password=self.passwords[user])

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def server_name(self) -> str:
        """Names this folder, so that a stranger on our port is not taken for us."""
        return f"heeler-{hashlib.sha256(bytes(self.folder)).hexdigest()[:12]}"

    def prepare(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.folder / "nats.conf", self._configuration())

    @property
    def is_prepared(self) -> bool:
        """Whether what it is started with is there."""
        return (self.folder / "nats.conf").exists()

    def command(self) -> Command:
        return Command(
            name="nats",
            argv=[str(server_binary()), "--config", str(self.folder / "nats.conf")],
            environment=GARBAGE_COLLECTION | service_environment.of_server(),
            folder=self.folder,
            log=self.log,
            orphan_signal=signal.SIGTERM,
        )

    def ready(self) -> bool:
        """Whether it is this server that answers, with JetStream open and its streams in order."""
        try:
            return self.problem() is None
        except (OSError, ValueError, KeyError):
            return False

    def listens(self) -> bool:
        """Whether it hears clients, which it does once it has read its store."""
        try:
            socket.create_connection(("127.0.0.1", self.port), CONNECT_SECONDS_MAX).close()
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True

    def set_aside_store(self) -> Path | None:
        """Move the store out of the way, so that the next start begins with an empty one, and
        delete what was put aside before; where it is now. It holds nothing that Postgres has not.
        None where there is no store, or a full disk, which no other store would mend."""
        if not self.store.exists() or disk_is_full(self.folder):
            return None
        for older in self.folder.glob(f"{self.store.name}.damaged-*"):
            delete(older)
        aside = self.store.with_name(f"{self.store.name}.damaged-{time.time_ns()}")
        self.store.rename(aside)
        return aside

    def problem(self) -> str | None:
        """The problem that this server reports. Raises OSError where it says nothing, and
        ValueError or KeyError where that is no server of NATS."""
        return container_health.nats_problem(self.url_of(SYSTEM), self.server_name)

    def _configuration(self) -> str:
        return configuration(
            server_name=quote(self.server_name),
            host="127.0.0.1",
            port=self.port,
            store=str(self.store),
            passwords={user: quote(password) for user, password in self.passwords.items()},
        )


class NatsStart:
    """Whether a server that starts is ready. Raises Failed once it has said for a while that
    it is not, or has said nothing useful for long though it listens: then it has read its store,
    and waits for nothing. The time is its own."""

    def __init__(self, nats: Nats, part: Part) -> None:
        self._nats = nats
        self._part = part
        self._silent: Allowance | None = None
        self._unwell: Allowance | None = None

    def ready(self) -> bool:
        """Ask NATS once whether it serves clients; returns whether it does."""
        try:
            problem = self._nats.problem()
        except ConnectionRefusedError:  # it reads its store, or has ended
            self._silent = self._unwell = None
            return False
        except (OSError, ValueError, KeyError) as error:
            problem = f"{type(error).__name__} {error}"
            allowance = self._silent = self._silent or self._part.allowance(SERVER_STARTS_WITHIN)
        else:
            allowance = self._unwell = self._unwell or self._part.allowance(UNWELL_WITHIN)
        if problem is not None and allowance.is_spent(self._part.pid):
            raise Failed("nats", f"nats did not get ready: {problem}.")
        return problem is None


def disk_is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < FREE_BYTES_MIN


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def nats_url(*, port: int, user: str, password: str) -> str:
    return f"nats://{user}:{password}@127.0.0.1:{port}"


def server_binary() -> Path:
    binary = Path(sysconfig.get_path("scripts")) / "nats-server"
    if not binary.exists():
        raise LaunchError(f"{binary} is missing. Run deploy/bootstrap.sh.")
    return binary
