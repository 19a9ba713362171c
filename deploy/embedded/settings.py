"""Settings of one embedded instance: its state folder, its address, its code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from libs.bus.configuration_file import Configuration, read_configuration
from libs.contracts.configuration.catalogue import CONFIG_FILE
from libs.contracts.environment_parsing import WrongSetting, host, one_of, seconds, whole_number
from libs.contracts.listening_address import HOST_DEFAULT, PORT_DEFAULT, is_loopback, port
from libs.contracts.service_registry import names

CHECKOUT = Path(__file__).resolve().parents[2]
IS_CHECKOUT = (CHECKOUT / "pyproject.toml").is_file()  # else CHECKOUT is a folder of packages
SERVICES = names()  # start order
PARTS = ("postgres", "nats", *SERVICES)
ALL_SERVICES = "services"  # the part that all services are, in one process
PROCESSES = ("each", "one")  # a process for each service, or one for all of them
DATABASE = "heeler"
REPLICAS_MAX = 16

STALLED_SECONDS_MAX = 60.0  # `up` and `down` give up when there was no progress for so long
FROZEN_SECONDS_MAX = 6.0  # a process without a sign of life is replaced after this
HEALTH_POLL_SECONDS = 0.05


class LaunchError(Exception):
    """Something the person at the keyboard can fix; the message says what and how."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One instance. `environment` is that of the person, with what the configuration file adds."""

    home: Path
    host: str
    port: int
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    processes: str = PROCESSES[0]
    replicas: int = 1
    frozen_seconds_max: float = FROZEN_SECONDS_MAX
    services_package: str = "services"
    migrations_module: str = "deploy.migrate"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def services(self) -> tuple[str, ...]:
        """Every process of every service in start order: memory, memory-2, agent, agent-2, ...
        or, where one process is all services: services, services-2, ..."""
        programs = (ALL_SERVICES,) if self.processes == "one" else SERVICES
        numbers = range(1, self.replicas + 1)
        return tuple(replica_name(program, n) for program in programs for n in numbers)

    @property
    def parts(self) -> tuple[str, ...]:
        return ("postgres", "nats", *self.services)

    @property
    def reach_host(self) -> str:
        """The host a client on this machine uses; a wildcard bind is reached by loopback."""
        return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def api_url(self) -> str:
        host = f"[{self.reach_host}]" if ":" in self.reach_host else self.reach_host
        return f"http://{host}:{self.port}"

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"


def replica_name(service: str, number: int) -> str:
    return service if number == 1 else f"{service}-{number}"


def service_of(part: str) -> str:
    """The service (or all services) that a part is a replica of; Postgres and NATS are their
    own."""
    return part.partition("-")[0]


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The instance that the environment and the configuration file ask for. Raises LaunchError."""
    configuration = launch_configuration(environment)
    try:
        return settings_of(configuration.environment)
    except WrongSetting as problem:
        raise LaunchError(f"{configuration.explain(problem)}.") from problem


def read_settings_of_home(environment: Mapping[str, str] = os.environ) -> Settings:
    """The same for what an instance that was started is asked: a configuration that cannot be used
    by now is no reason not to stop it."""
    try:
        return read_settings(environment)
    except LaunchError:
        return Settings(home=home_of(environment), host=HOST_DEFAULT, port=PORT_DEFAULT)


def launch_configuration(environment: Mapping[str, str] = os.environ) -> Configuration:
    """The environment and the file of HEELER_CONFIG, or else of the home. Raises LaunchError."""
    try:
        return read_configuration(environment, home_of(environment) / CONFIG_FILE)
    except WrongSetting as problem:
        raise LaunchError(str(problem)) from problem


def home_of(environment: Mapping[str, str]) -> Path:
    """The state folder that an environment names, or that of the checkout. Raises LaunchError."""
    named = Path(environment.get("HEELER_HOME") or default_home(environment))
    try:
        home = named.expanduser()
    except RuntimeError as problem:
        raise LaunchError(f"{named}: this user has no home; set HEELER_HOME") from problem
    return home if home.is_absolute() else (Path.cwd() / home)


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings of the environment. Raises WrongSetting."""
    return Settings(
        home=home_of(environment),
        environment=environment,
        host=host(environment, "HEELER_HOST", HOST_DEFAULT),
        port=port(environment),
        processes=one_of(environment, "HEELER_PROCESSES", PROCESSES, PROCESSES[0]),
        replicas=whole_number(environment, "HEELER_REPLICAS", 1, most=REPLICAS_MAX),
        frozen_seconds_max=seconds(environment, "HEELER_FROZEN_SECONDS_MAX", FROZEN_SECONDS_MAX),
        services_package=environment.get("HEELER_SERVICES_PACKAGE") or "services",
        migrations_module=environment.get("HEELER_MIGRATIONS_MODULE") or "deploy.migrate",
    )


def default_home(environment: Mapping[str, str]) -> Path:
    """In a checkout its `.heeler`; of an installed command the user's folder for data."""
    if IS_CHECKOUT:
        return CHECKOUT / ".heeler"
    return Path(environment.get("XDG_DATA_HOME") or "~/.local/share") / "heeler"


def open_home(settings: Settings) -> None:
    """Create the state folder, or say in one sentence why it cannot be used."""
    try:
        for folder in (settings.home, settings.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise no_write_access(settings, error) from error
    if not os.access(settings.home, os.W_OK | os.X_OK):
        raise no_write_access(settings, None)


def close_home(settings: Settings) -> None:
    """Take from others what an earlier release let them read. Postgres sees to its own folder."""
    private = [settings.home, settings.logs, settings.home / "nats"]
    private += [path for path in settings.home.iterdir() if path.is_file()]
    for folder in private[1:3]:
        private += folder.rglob("*")
    for path in private:
        if path.exists() and not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)


def require_password(settings: Settings) -> None:
    """Raise LaunchError where anybody could come in: say at once what the api would say."""
    passwords = ("HEELER_PASSWORD", "LETTA_SERVER_PASSWORD")
    if not any(map(settings.environment.get, passwords)) and not is_loopback(settings.host):
        raise LaunchError(
            f"HEELER_HOST={settings.host} can be reached from other machines, and there is no "
            "password: set HEELER_PASSWORD, or leave HEELER_HOST at 127.0.0.1"
        )


def no_write_access(settings: Settings, error: OSError | None) -> LaunchError:
    reason = f" ({error.strerror})" if error and error.strerror else ""
    return LaunchError(
        f"Cannot write to the state folder {settings.home}{reason}. "
        "Set HEELER_HOME to a folder that you may write to."
    )
