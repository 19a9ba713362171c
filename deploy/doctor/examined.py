"""Subject of the examination: the environment, the home, and the servers that run or are named."""

from __future__ import annotations

import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from deploy.embedded import typed_json
from deploy.embedded.command_name import command_name
from deploy.embedded.nats_server import nats_url
from deploy.embedded.settings import LaunchError, Settings, launch_configuration, settings_of
from deploy.embedded.state import HomeLock, InstanceState, ProcessMark, Secrets, read_state
from deploy.embedded.up import home_prefix
from libs.bus.configuration_file import Configuration
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.nats_permissions import SYSTEM

DATABASE_VARIABLES = ("HEELER_ADMIN_DATABASE_URL", "HEELER_DATABASE_URL")
BUS_VARIABLE = "HEELER_NATS_URL"


def variables_of(wrong: WrongSetting, environment: Mapping[str, str]) -> list[str]:
    """The variables of which it says that they are wrong."""
    return [name for name in environment if re.search(rf"\b{re.escape(name)}\b", str(wrong))]


@dataclass(frozen=True)
class Examined:
    """One installation. Nothing here is cached for longer than one examination."""

    given: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    deep: bool = False  # requests that cost something may be made, too
    now: Callable[[], float] = time.time
    _kept: dict[str, Any] = field(default_factory=dict)
    _making: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def configuration(self) -> Configuration:
        """The environment and the configuration file; without a file that cannot be used."""
        try:
            return launch_configuration(self.given)
        except LaunchError:  # `settings` tells of it
            return Configuration(self.given, self.given)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment, with the additions of the configuration file."""
        return self.configuration.environment

    @cached_property
    def settings(self) -> Settings:
        """As the environment asks for, without what cannot be used, of which `settings` tells."""
        left = dict(self.environment)
        while True:
            try:
                return settings_of(left)
            except WrongSetting as wrong:
                for name in variables_of(wrong, left) or list(left):
                    del left[name]

    @property
    def home(self) -> Path:
        """The state folder of the installation."""
        return self.settings.home

    @cached_property
    def state(self) -> InstanceState | None:
        """The state that the launcher wrote last, if it can be read."""
        return read_state(self.home)

    @cached_property
    def holder(self) -> ProcessMark | None:
        """The supervisor that holds the home now."""
        try:
            return HomeLock(self.home).holder()
        except OSError:
            return None

    @property
    def running(self) -> InstanceState | None:
        """The state of a server that runs in this home now."""
        return self.state if self.holder else None

    @cached_property
    def secrets(self) -> Secrets | None:
        """The passwords of the home, if they can be read."""
        try:
            return typed_json.read(Secrets, (self.home / "secrets.json").read_bytes())
        except (OSError, ValueError):
            return None

    @property
    def named_database(self) -> str:
        """The variable that names a database besides the one of the home; empty without one."""
        return next((name for name in DATABASE_VARIABLES if self.environment.get(name)), "")

    @property
    def database_url(self) -> str | None:
        """The database: the one that a variable names, or that of the running server."""
        if self.named_database:
            return self.environment[self.named_database]
        return self.running.urls.get("database") if self.running else None

    @property
    def bus_url(self) -> str | None:
        """NATS: the one that a variable names, or that of the running server."""
        if named := self.environment.get(BUS_VARIABLE):
            return named
        return self.running.urls.get("nats") if self.running else None

    @property
    def bus_system_url(self) -> str | None:
        """NATS of this home, for the user who sees how the server itself is."""
        if self.environment.get(BUS_VARIABLE) or not self.running or not self.secrets:
            return None
        port, password = self.running.ports.get("nats"), self.secrets.of_nats.get(SYSTEM)
        return nats_url(port=port, user=SYSTEM, password=password) if port and password else None

    def once[T](self, name: str, make: Callable[[], T]) -> T:
        """The value, made when it is first asked for; another check waits for it."""
        with self._making:
            if name not in self._kept:
                self._kept[name] = make()
        kept: T = self._kept[name]
        return kept

    def command(self, words: str) -> str:
        """A command of `heeler` for this home."""
        return f"{home_prefix(self.settings, self.given)}{command_name()} {words}"

    @property
    def restart(self) -> str:
        """The command that stops this server and starts it again."""
        return f"{self.command('down')} && {self.command('up')}"

    @property
    def migrate(self) -> str:
        """The command that brings database and streams up to date."""
        if not self.named_database:
            return self.restart
        given = {
            DATABASE_VARIABLES[0]: "<url of a superuser>",
            "HEELER_SERVICE_PASSWORDS": "<JSON: a password of each service>",
        }
        missing = [name for name in given if not self.environment.get(name)]
        settings = "".join(f"{name}='{given[name]}' " for name in missing)
        return f"{settings}{shlex.quote(sys.executable)} -m deploy.migrate"
