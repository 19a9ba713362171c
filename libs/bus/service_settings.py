"""Settings of every service, from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from libs.bus.erasure import ERASE_AFTER_HOURS
from libs.contracts.environment_parsing import (
    address,
    database_address,
    one_of,
    require,
    whole_number,
    word,
)
from libs.contracts.service_registry import POOL_CONNECTIONS_MAX

ERASE_AFTER = "HEELER_ERASE_AFTER_HOURS"
ERASE_AFTER_HOURS_MAX = 24 * 3_660
LOG_LEVEL = "HEELER_LOG_LEVEL"
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
NATS_SCHEMES = ("nats", "tls", "ws", "wss")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Where the store and the bus are, how much to log, how many connections to Postgres."""

    database_url: str
    nats_url: str
    log_level: str = "info"
    connections_max: int = POOL_CONNECTIONS_MAX
    instance: str = ""
    erase_after_seconds: float = ERASE_AFTER_HOURS * 3_600.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ServiceSettings:
        """Read HEELER_DATABASE_URL, HEELER_NATS_URL, HEELER_LOG_LEVEL and HEELER_INSTANCE, which
        names what this process is until it dies, and nobody else meanwhile: a container, or a part
        that a supervisor restarts; HEELER_ERASE_AFTER_HOURS: how long what was deleted can be had
        back. Raises WrongSetting."""
        require(environment, "HEELER_NATS_URL")
        return cls(
            database_address(environment, "HEELER_DATABASE_URL"),
            address(environment, "HEELER_NATS_URL", NATS_SCHEMES),
            log_level(environment),
            instance=word(environment, "HEELER_INSTANCE"),
            erase_after_seconds=erase_after_seconds(environment),
        )


def log_level(environment: Mapping[str, str] = os.environ) -> str:
    """HEELER_LOG_LEVEL in small letters. Raises WrongSetting."""
    given = environment.get(LOG_LEVEL, "").lower()
    return one_of({LOG_LEVEL: given}, LOG_LEVEL, LOG_LEVELS, "info")


def erase_after_seconds(environment: Mapping[str, str] = os.environ) -> float:
    """HEELER_ERASE_AFTER_HOURS in seconds. Raises WrongSetting."""
    hours = whole_number(
        environment, ERASE_AFTER, ERASE_AFTER_HOURS, least=0, most=ERASE_AFTER_HOURS_MAX
    )
    return 3_600.0 * hours
