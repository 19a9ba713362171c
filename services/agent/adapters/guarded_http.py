"""Requests to addresses that clients name, of which each is checked once it is resolved, and the
connection goes to what was checked: also after a redirect, and if the name means another machine a
moment later."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from libs.contracts.version import HEELER_VERSION
from services.agent.adapters.address_guard import (
    AddressGuard,
    Forbidden,
    port_of,
    require_public,
)
from services.agent.adapters.models.aiohttp_transport import trusted_certificates
from services.agent.domain.callbacks import CallbackOutcome

REDIRECTS_MAX = 3
# Those after which the same request is sent to the new address; after the others it would be
# another one.
REPEATING_REDIRECTS = (307, 308)
SECONDS_MAX = 10.0
HEADERS = {"Content-Type": "application/json", "User-Agent": f"heeler/{HEELER_VERSION}"}


class Resolved(AbstractResolver):
    """Says of every host what was resolved and checked before."""

    def __init__(self, addresses: Sequence[str], port: int) -> None:
        self.addresses = addresses
        self.port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The checked addresses."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=self.port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


class GuardedHttp:
    """Posts to addresses that a guard lets pass. It asks no proxy and keeps no cookies."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard

    async def post(self, url: str, body: bytes) -> CallbackOutcome:
        """Post JSON; what is answered is not read. Never raises but when it is cancelled."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                for _ in range(REDIRECTS_MAX + 1):
                    status, location = await self.post_once(url, body)
                    if status not in REPEATING_REDIRECTS or not location:
                        return CallbackOutcome(status=status)
                    url = urljoin(url, location)
            return CallbackOutcome(error=f"More than {REDIRECTS_MAX} redirects", forbidden=True)
        except Forbidden as forbidden:
            return CallbackOutcome(error=f"The address is not asked: {forbidden}", forbidden=True)
        except TimeoutError:
            return CallbackOutcome(error=f"No answer within {SECONDS_MAX:g} seconds")
        except (ClientError, OSError, ValueError) as lost:
            return CallbackOutcome(error=f"No answer: {type(lost).__name__}: {lost}")

    async def post_once(self, text: str, body: bytes) -> tuple[int, str]:
        """Post to one address; returns the status, and where a redirect leads. Raises Forbidden."""
        url = self.guard.checked(text)
        host, port = str(url.hostname), port_of(url)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if not self.guard.allows(url):
            require_public(addresses)
        secure: Any = True
        if url.scheme == "https":
            secure = await asyncio.to_thread(trusted_certificates)
        connector = TCPConnector(
            resolver=Resolved(addresses, port), use_dns_cache=False, force_close=True, ssl=secure
        )
        async with (
            ClientSession(
                connector=connector,
                timeout=ClientTimeout(total=SECONDS_MAX),
                cookie_jar=DummyCookieJar(),
                trust_env=False,
            ) as session,
            session.post(text, data=body, headers=HEADERS, allow_redirects=False) as answer,
        ):
            return answer.status, answer.headers.get("Location", "")
