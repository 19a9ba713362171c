"""Where a connection may go: looked up once, checked, and used as it was checked."""

from __future__ import annotations

import asyncio
import socket
from functools import cache
from typing import TYPE_CHECKING

from libs.egress.address_guard import AddressGuard
from libs.egress.failures import Unreachable

if TYPE_CHECKING:
    from ssl import SSLContext


async def checked_addresses(guard: AddressGuard, host: str, port: int) -> list[str]:
    """The IP addresses of a host, all of which may be asked, so that a name cannot mean another
    machine a moment later. Raises Forbidden, and Unreachable for a host that has none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError) as unknown:
        raise Unreachable(f"{host} has no address: {unknown}") from unknown
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    if not addresses:
        raise Unreachable(f"{host} has no address")
    if not guard.allows(host, port):
        guard.require_public(addresses)
    return addresses


@cache
def trusted_certificates() -> SSLContext:
    """The certificates of this machine, wherever its distribution keeps them. Takes a moment, the
    first time."""
    import httpx2

    return httpx2.create_ssl_context()
