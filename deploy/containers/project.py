"""The compose project of one home: its name, its passwords, and how compose is called for it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from deploy.containers.engine import docker, images
from deploy.embedded.encryption_keys import open_encryption_keys
from deploy.embedded.nats_server import nats_url
from deploy.embedded.settings import CHECKOUT, SERVICES, LaunchError, Settings, open_home
from deploy.embedded.state import free_port, open_secrets, port_is_free, write_private
from deploy.nats_configuration import password_variable
from libs.contracts.nats_permissions import WATCH
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.contracts.version import HEELER_VERSION

COMPOSE_FILE = CHECKOUT / "deploy" / "compose.yaml"
# Added where a person asks for the sandbox of processes: Docker has to grant it namespaces.
SANDBOX_FILE = COMPOSE_FILE.with_name("compose.sandbox.yaml")
SANDBOX, SANDBOX_OF_PROCESSES = "HEELER_SANDBOX", "process"
LISTS_SECONDS_MAX = 60


@dataclass(frozen=True)
class Container:
    """One container of the project, as `docker compose ps` sees it."""

    part: str
    name: str
    state: str  # running, exited, restarting, ...
    health: str  # healthy, unhealthy, starting, or nothing where there is no check
    exit_code: int
    since: str  # "Up 4 minutes", "Exited (0) 2 hours ago"

    @property
    def well(self) -> bool:
        """Whether it runs and is healthy, or has done its one job."""
        if self.part == "migrate":
            return self.state == "exited" and self.exit_code == 0
        return self.state == "running" and self.health == "healthy"


@dataclass(frozen=True)
class Project:
    settings: Settings

    @property
    def name(self) -> str:
        """Names this home, so that two homes run side by side."""
        path = str(self.settings.home.resolve())
        return f"heeler-{hashlib.sha256(path.encode()).hexdigest()[:12]}"

    @property
    def env_file(self) -> Path:
        return self.settings.home / "compose.env"

    @property
    def nats_watch_url(self) -> str:
        """For the user who only looks on."""
        known = read_env(self.env_file)
        port, password = int(known["HEELER_NATS_PORT"]), known[password_variable(WATCH)]
        return nats_url(port=port, user=WATCH, password=password)

    def prepare(self) -> None:
        """Write what compose.yaml asks for. Passwords and keys are made once for each home."""
        open_home(self.settings)
        self._require_known_password()
        secrets = open_secrets(self.settings.home)
        values = {
            "COMPOSE_PROJECT_NAME": self.name,
            "HEELER_VERSION": HEELER_VERSION,
            **images(),
            "HEELER_POSTGRES_PASSWORD": secrets.postgres_password,
            **{password_variable(user): word for user, word in secrets.of_nats.items()},
            "HEELER_NATS_PORT": str(self._nats_port()),
            ENCRYPTION_KEYS: open_encryption_keys(self.settings.home),
        }
        for service in SERVICES:
            values[f"HEELER_{service.upper()}_PASSWORD"] = secrets.service_passwords[service]
        text = "".join(f"{name}={value}\n" for name, value in values.items())
        write_private(self.env_file, text)

    def require_prepared(self) -> Self:
        """This project, or LaunchError when it was never started."""
        if not self.env_file.exists():
            raise LaunchError("Heeler is not running. Start it with `make up MODE=compose`.")
        return self

    def compose(self, *words: str) -> list[str]:
        """The command line of compose for this project."""
        where = ["--env-file", str(self.env_file), "--file", str(COMPOSE_FILE)]
        if self.settings.environment.get(SANDBOX) == SANDBOX_OF_PROCESSES:
            where += ["--file", str(SANDBOX_FILE)]
        return ["docker", "compose", *where, *words]

    def run(self, *words: str) -> int:
        """Run compose on this terminal; its exit code."""
        return subprocess.run(
            self.compose(*words), env=self.environment(), stdin=subprocess.DEVNULL, check=False
        ).returncode

    def replace_with(self, *words: str) -> NoReturn:
        """Become compose: it has the terminal and the exit code."""
        command = self.compose(*words)
        os.execvpe(command[0], command, self.environment())

    def environment(self) -> dict[str, str]:
        # An empty variable would reach the providers' SDKs as an empty address.
        given = {name: value for name, value in self.settings.environment.items() if value}
        host = {"localhost": "127.0.0.1"}.get(self.settings.host, self.settings.host)
        return given | {"HEELER_HOST": host, "HEELER_PORT": str(self.settings.port)}

    def containers(self) -> list[Container]:
        """All containers of the project, also those that ended."""
        done = self._read("ps", "--all", "--format", "json", errors=subprocess.PIPE)
        if done.returncode != 0:
            raise LaunchError(f"`docker compose ps` failed: {done.stderr.strip()}")
        return read_containers(done.stdout)

    def log_of(self, part: str) -> str:
        """The end of the log of a part."""
        words = ("logs", "--no-color", "--tail", "20", part)
        return self._read(*words, errors=subprocess.STDOUT).stdout

    def _read(self, *words: str, errors: int) -> subprocess.CompletedProcess[str]:
        """What compose prints, within a minute; `errors` is where its stderr goes."""
        return subprocess.run(
            self.compose(*words),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
            timeout=LISTS_SECONDS_MAX,
        )

    def volumes(self) -> list[str]:
        return docker("volume", "ls", "--quiet", "--filter", self._label).split()

    def wipe(self) -> None:
        """Remove everything of this project, data too. Needs no env file: it may be lost."""
        running = docker("ps", "--all", "--quiet", "--filter", self._label).split()
        for words, found in (
            (("rm", "--force", "--volumes"), running),
            (("volume", "rm"), self.volumes()),
            (("network", "rm"), self._networks()),
        ):
            if found:
                docker(*words, *found)
        self.env_file.unlink(missing_ok=True)

    @property
    def _label(self) -> str:
        return f"label=com.docker.compose.project={self.name}"

    def _networks(self) -> list[str]:
        return docker("network", "ls", "--quiet", "--filter", self._label).split()

    def _require_known_password(self) -> None:
        if (self.settings.home / "secrets.json").exists():
            return
        if volumes := self.volumes():
            raise LaunchError(
                f"{', '.join(volumes)} hold data of {self.settings.home}, but its secrets.json with"
                " the passwords is gone. Put it back, or delete the data: make wipe MODE=compose"
            )

    def _nats_port(self) -> int:
        """The one of the last start, unless it was taken by somebody else meanwhile."""
        port = int(read_env(self.env_file).get("HEELER_NATS_PORT", "0"))
        if port and (port_is_free("127.0.0.1", port) or self._runs("nats")):
            return port
        return free_port()

    def _runs(self, part: str) -> bool:
        return any(
            container.part == part and container.state == "running"
            for container in self.containers()
        )


def read_containers(text: str) -> list[Container]:
    """The output of `docker compose ps --format json`: one document a line, or a list of them."""
    documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    if len(documents) == 1 and isinstance(documents[0], list):
        [documents] = documents
    return [
        Container(
            part=document["Service"],
            name=document["Name"],
            state=document["State"],
            health=document.get("Health", ""),
            exit_code=document.get("ExitCode", 0),
            since=re.sub(r" \((health|un|healthy).*", "", document.get("Status", "")),
        )
        for document in documents
    ]


def read_env(path: Path) -> dict[str, str]:
    """The variables in a file that `prepare` wrote; none if there is no file."""
    try:
        return dict(line.split("=", 1) for line in path.read_text().splitlines())
    except FileNotFoundError:
        return {}
