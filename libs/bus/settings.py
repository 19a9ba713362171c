"""What every service reads from its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from libs.eventstore.database import POOL_CONNECTIONS_MAX


class MissingSetting(Exception):
    """A variable that a service cannot do without is not set."""


class WrongSetting(Exception):
    """A variable has a value that a service cannot do with."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Where the store and the bus are, how much to log, how many connections to Postgres."""

    database_url: str
    nats_url: str
    log_level: str = "info"
    connections_max: int = POOL_CONNECTIONS_MAX
    instance: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ServiceSettings:
        """Read HEELER_DATABASE_URL, HEELER_NATS_URL, HEELER_LOG_LEVEL and HEELER_INSTANCE, which
        names what this process is until it dies, and nobody else meanwhile: a container, or a part
        that a supervisor restarts. Raises MissingSetting and WrongSetting."""
        return cls(
            required(environment, "HEELER_DATABASE_URL"),
            required(environment, "HEELER_NATS_URL"),
            environment.get("HEELER_LOG_LEVEL", "info"),
            instance=word(environment, "HEELER_INSTANCE"),
        )


def required(environment: Mapping[str, str], name: str) -> str:
    """The value of a variable that must be set."""
    value = environment.get(name)
    if not value:
        raise MissingSetting(f"{name} is not set: start the services with `make up`")
    return value


def word(environment: Mapping[str, str], name: str) -> str:
    """The value of a variable that becomes a part of names on the bus; empty if it is not set."""
    value = environment.get(name, "")
    if re.fullmatch(r"[\w.-]*", value, re.ASCII) is None:
        raise WrongSetting(f"{name} is {value!r}: use letters, digits, '.', '-' and '_' only")
    return value
