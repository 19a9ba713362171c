"""Where a connection may go: looked up once, checked, and used as it was checked."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from libs.egress.address_guard import AddressGuard
from libs.egress.failures import Unreachable

if TYPE_CHECKING:
    from ssl import SSLContext


# Threads in which names are looked up, apart from those that everything else shares: a name whose
# server is silent holds one for long. More than one organisation may ask for at once.
LOOKUPS_MAX = 128


@cache
def lookups() -> ThreadPoolExecutor:
    """The threads, of which none is started before it is needed."""
    return ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="lookup")


async def checked_addresses(guard: AddressGuard, host: str, port: int) -> list[str]:
    """The IP addresses of a host, all of which may be asked, so that a name cannot mean another
    machine a moment later. Raises Forbidden, and Unreachable for a host that has none."""
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.run_in_executor(lookups(), look_up, host, port)
    except (OSError, UnicodeError, ValueError) as unknown:
        raise Unreachable(f"{host} has no address: {unknown}") from unknown
    if not addresses:
        raise Unreachable(f"{host} has no address")
    if not guard.allows(host, port):
        guard.require_public(addresses)
    return addresses


def look_up(host: str, port: int) -> list[str]:
    """The IP addresses of a host, each once. Takes as long as the machine asks for it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@cache
def trusted_certificates() -> SSLContext:
    """The certificates of this machine, wherever its distribution keeps them. Takes a moment, the
    first time."""
    import httpx2

    return httpx2.create_ssl_context()
