"""What every service reads from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from libs.eventstore.database import POOL_CONNECTIONS_MAX


class MissingSetting(Exception):
    """A variable that a service cannot do without is not set."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Where the store and the bus are, how much to log, how many connections to Postgres."""

    database_url: str
    nats_url: str
    log_level: str = "info"
    connections_max: int = POOL_CONNECTIONS_MAX

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ServiceSettings:
        """Read HEELER_DATABASE_URL, HEELER_NATS_URL and HEELER_LOG_LEVEL."""
        return cls(
            required(environment, "HEELER_DATABASE_URL"),
            required(environment, "HEELER_NATS_URL"),
            environment.get("HEELER_LOG_LEVEL", "info"),
        )


def required(environment: Mapping[str, str], name: str) -> str:
    """The value of a variable that must be set."""
    value = environment.get(name)
    if not value:
        raise MissingSetting(f"{name} is not set: start the services with `make up`")
    return value
