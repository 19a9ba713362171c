"""Where the api listens: what the launcher and the api both read."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache

from libs.contracts.environment_parsing import whole_number

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8283
PORT_MOST = 65_535
HOSTS_KNOWN_MAX = 256


def port(environment: Mapping[str, str]) -> int:
    """The port in HEELER_PORT. Raises WrongSetting."""
    return whole_number(environment, "HEELER_PORT", PORT_DEFAULT, most=PORT_MOST)


@lru_cache(maxsize=HOSTS_KNOWN_MAX)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
