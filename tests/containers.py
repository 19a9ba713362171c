"""The servers of `tests.servers` in containers of the real images: `TEST_SERVERS=containers`.

They have the same ports, passwords and data over `stop`, `kill9` and `start` as the others have.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from deploy.containers.engine import images
from deploy.embedded.nats_server import Nats
from deploy.embedded.postgres_server import SETTINGS, Postgres
from deploy.embedded.settings import CHECKOUT
from deploy.embedded.state import open_secrets, read_state
from deploy.nats_configuration import password_variable, quote
from libs.contracts.nats_permissions import users
from tests.ports import free_port
from tests.servers import (
    HeelerInstance,
    NatsServer,
    PostgresServer,
    _Server,
    delete_home,
    temporary_home,
    wait_until,
)

# `close` removes what a test made, so no container of somebody else's need watch over ours.
testcontainers_config.ryuk_disabled = True
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30
UP_SECONDS_MAX = 60
PASSWORD = "test"


class _ContainerServer(_Server):
    """One server container; made at the first start, and again after `forget`."""

    def __init__(self) -> None:
        self.home = temporary_home()
        self._container: DockerContainer | None = None

    def start(self) -> Self:
        if self._container is None:
            self._container = self._make()
            self._container.start()
        else:
            self._container.get_wrapped_container().start()
        try:
            wait_until(f"{type(self).__name__} ready", self._ready, START_SECONDS_MAX)
        except AssertionError as error:
            logged = self.logged()
            self.forget()
            raise AssertionError(f"{error}\n{logged[-4000:]}") from None
        return self

    def stop(self) -> None:
        if self._container:
            self._container.get_wrapped_container().stop(timeout=STOP_SECONDS_MAX)

    def kill9(self) -> None:
        if self._container:
            self._container.get_wrapped_container().kill(signal="SIGKILL")
            self._container.get_wrapped_container().wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        assert self._container, "not running"
        container = self._container.get_wrapped_container()
        container.pause()
        try:
            yield
        finally:
            container.unpause()

    def forget(self) -> None:
        """Remove the container with its data."""
        if self._container:
            self._container.stop()
        self._container = None

    def logged(self) -> str:
        """What the server has printed since the container was made."""
        if self._container is None:
            return ""
        stdout, stderr = self._container.get_logs()
        return (stdout + stderr).decode()

    def close(self) -> None:
        self.forget()
        delete_home(self.home)

    def _make(self) -> DockerContainer:
        raise NotImplementedError


def published(image: str, ports: dict[int, int]) -> DockerContainer:
    """A container whose ports are on loopback only; testcontainers itself has no way to say so."""
    container = DockerContainer(image)
    for inside, outside in ports.items():
        container.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)  # type: ignore[assignment]
    return container


class PostgresContainer(_ContainerServer, PostgresServer):
    def __init__(self, *, password: str = PASSWORD, fsync: bool = False) -> None:
        _ContainerServer.__init__(self)
        self.server = Postgres(
            binaries=Path("/usr/lib/postgresql/17/bin"),
            data=Path("/var/lib/postgresql/data"),
            log=self.home / "postgres.log",
            port=free_port(),
            password=password,
            account=None,
            fsync=fsync,
        )

    def _make(self) -> DockerContainer:
        # The image knows better, and its Postgres 17 knows no `io_method`.
        inside = {"listen_addresses", "unix_socket_directories", "io_method"}
        options = {name: value for name, value in SETTINGS.items() if name not in inside}
        options |= {} if self.server.fsync else {"fsync": "off"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        image = images()["HEELER_POSTGRES_IMAGE"]
        return (
            published(image, {5432: self.server.port})
            .with_env("POSTGRES_PASSWORD", self.server.password)
            .with_command(["postgres", *words])
        )


class NatsContainer(_ContainerServer, NatsServer):
    """The official image with the configuration that the compose project has."""

    def __init__(self, *, passwords: Mapping[str, str] | None = None) -> None:
        _ContainerServer.__init__(self)
        self.server = Nats(
            folder=self.home / "nats",
            log=self.home / "nats.log",
            port=free_port(),
            passwords=passwords or dict.fromkeys(users(), PASSWORD),
        )

    def wipe_store(self) -> None:
        self.forget()

    def _make(self) -> DockerContainer:
        container = (
            published(images()["HEELER_NATS_IMAGE"], {4222: self.server.port})
            .with_copy_into_container(CHECKOUT / "deploy" / "nats.conf", "/heeler.conf")
            .with_env("HEELER_NATS_NAME", self.server.server_name)
            .with_command(["--config", "/heeler.conf"])
        )
        for user, password in self.server.passwords.items():
            container.with_env(password_variable(user), quote(password))
        return container


class ContainersInstance(HeelerInstance):
    """A whole Heeler: its services here under a supervisor, Postgres and NATS in containers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        secrets = open_secrets(self.home)
        self.postgres = PostgresContainer(password=secrets.postgres_password, fsync=True)
        self.nats = NatsContainer(passwords=secrets.of_nats)
        self._supervisor: subprocess.Popen[bytes] | None = None

    def up(self) -> str:
        if self._supervisor is None:
            self.postgres.start()
            self.nats.start()
            self._supervisor = self._supervise()
            wait_until("all is healthy", self._is_up, UP_SECONDS_MAX)
        return f"Heeler is up: {self.base_url}"

    def down(self) -> str:
        self.stop_replicas()
        if self._supervisor:
            self._supervisor.terminate()
            self._supervisor.wait(STOP_SECONDS_MAX)
        self._supervisor = None
        self.nats.stop()
        self.postgres.stop()
        return "Heeler is stopped."

    def nats_log(self) -> str:
        return self.nats.logged()

    def close(self) -> None:
        try:
            self.down()
            super().close()
        finally:
            self.nats.close()
            self.postgres.close()

    def _supervise(self) -> subprocess.Popen[bytes]:
        ports = {
            "postgres": self.postgres.server.port,
            "nats": self.nats.server.port,
        }
        log = self.home / "logs" / "supervisor.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.services_only", json.dumps(ports)],
                cwd=CHECKOUT,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _is_up(self) -> bool:
        assert self._supervisor
        assert self._supervisor.poll() is None, self.log("supervisor")
        state = read_state(self.home)
        ours = state and state.supervisor and state.supervisor.pid == self._supervisor.pid
        return bool(ours and state and state.phase == "running" and self.is_healthy())
