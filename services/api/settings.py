"""The environment of the api, frozen at start."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

PORT_DEFAULT = 8283
HOSTS_KNOWN_MAX = 256
CONNECTIONS_MAX_DEFAULT = 2_000
PING_SECONDS_DEFAULT = "20"


class UnsafeSettings(Exception):
    """Starting like this would let anybody in."""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where the api listens, who and how many may come in, and after which silence a stream sends
    a ping.

    With a listen descriptor the socket is open already, and other replicas accept from it too.
    """

    host: str
    port: int
    password: str | None
    ping_seconds: float
    listen_descriptor: int | None = None
    connections_max: int = CONNECTIONS_MAX_DEFAULT

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ApiSettings:
        """HEELER_HOST, HEELER_PORT, HEELER_PASSWORD or LETTA_SERVER_PASSWORD,
        HEELER_PING_SECONDS, HEELER_LISTEN_DESCRIPTOR and HEELER_HTTP_CONNECTIONS_MAX. In a
        container HEELER_PUBLISHED_ON is the address of the machine that leads to it: who can
        reach that can reach us.

        Raises UnsafeSettings for an address that others can reach, without a password.
        """
        host = environment.get("HEELER_HOST", "127.0.0.1")
        port = int(environment.get("HEELER_PORT", PORT_DEFAULT))
        password = environment.get("HEELER_PASSWORD") or environment.get("LETTA_SERVER_PASSWORD")
        reached_at = environment.get("HEELER_PUBLISHED_ON") or host
        if not password and not is_loopback(reached_at):
            raise UnsafeSettings(
                f"HEELER_HOST={reached_at} can be reached from other machines, and there is no"
                " password: set HEELER_PASSWORD, or listen on 127.0.0.1"
            )
        ping_seconds = float(environment.get("HEELER_PING_SECONDS", PING_SECONDS_DEFAULT))
        descriptor = environment.get("HEELER_LISTEN_DESCRIPTOR")
        listen = int(descriptor) if descriptor else None
        connections = int(environment.get("HEELER_HTTP_CONNECTIONS_MAX", CONNECTIONS_MAX_DEFAULT))
        return cls(host, port, password or None, ping_seconds, listen, connections)


@lru_cache(maxsize=HOSTS_KNOWN_MAX)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
