"""Which variables of the person's environment each process gets: only those that it reads.

Whatever is not listed stays with the supervisor. So the keys of the providers are in the process
that asks the providers, the password is in the one that checks it, the keys of secrets are in those
that seal and open them, and Postgres and NATS have none of these.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from deploy.embedded.settings import ALL_SERVICES
from libs.contracts.configuration.catalogue import CONFIG_VARIABLE, KEYS
from libs.contracts.configuration.key import FILE_ENDING, Kind
from libs.contracts.service_registry import ENCRYPTION_KEYS, SERVICES, service_named

# LD_* and FAKETIME* are for machines with libraries in unusual places, and for turning clocks.
EVERY_PROCESS = (
    *("PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TMPDIR"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "FAKETIME*"),
)
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
EVERY_SERVICE = (*EVERY_PROCESS, *CERTIFICATES, "HEELER_*", "OTEL_*", "LETTA_OTEL_*")
CONTENT_BYTES_MAX = 1 << 20  # of a file that a variable names
NAME_FILES = frozenset(
    key.variable for key in KEYS if key.kind is Kind.PATH and key.name.endswith(FILE_ENDING)
)
SECRETS = ("HEELER_PASSWORD", "LETTA_SERVER_PASSWORD", ENCRYPTION_KEYS)


def of_server(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of Postgres, NATS and the programs that set them up."""
    return select_variables(environment, EVERY_PROCESS)


def of_service(service: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a service's process, without the name of the configuration file, which the
    launcher has read. All services in one process share one environment."""
    services = SERVICES if service == ALL_SERVICES else (service_named(service),)
    own = tuple(name for each in services for name in each.environment)
    shared = select_variables(environment, EVERY_SERVICE)
    unwanted = {name for name in (*SECRETS, CONFIG_VARIABLE) if name not in own}
    return {name: shared[name] for name in shared if name not in unwanted} | select_variables(
        environment, own
    )


def fingerprints(environment: Mapping[str, str], key: str) -> dict[str, str]:
    """The variables that processes of services are given, each with what tells whether it has
    another value; which value it has cannot be seen without the key. What a file says that a
    variable names is a part of the value."""
    own = {name for service in SERVICES for name in service.environment}
    given = select_variables(environment, ("HEELER_*", *EVERY_SERVICE[len(EVERY_PROCESS) :], *own))
    return {
        name: hashlib.blake2b(
            value.encode() + (content_of(value) if name in NAME_FILES else b""),
            key=key.encode()[:64],
            digest_size=8,
        ).hexdigest()
        for name, value in given.items()
        if value and name not in ("HEELER_HOME", CONFIG_VARIABLE)
    }


def content_of(path: str) -> bytes:
    """The content of a file; empty where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return b"\0" + file.read(CONTENT_BYTES_MAX)
    except OSError:
        return b""


def changed_variables(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The variables whose fingerprints differ."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def select_variables(environment: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    """The variables whose names match one of the patterns."""
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
