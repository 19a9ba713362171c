"""A provider over aiohttp, with nothing between a request and its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import (
    BasicAuth,
    ClientError,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    TCPConnector,
)

from libs.contracts.version import HEELER_VERSION
from libs.egress.checked_addresses import trusted_certificates
from services.agent.adapters.models.transport import (
    CALL_SECONDS_MAX,
    CONNECT_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    Lost,
    ProviderRequest,
    Refused,
    Wire,
    beginning,
)

HEADERS = {
    "Accept": "application/json",
    "Content-Type": "application/json",
    "User-Agent": f"heeler/{HEELER_VERSION}",
}
UNLIMITED = 0


class HttpWire(Wire):
    """A wire over aiohttp. Proxies and certificates are those of the environment.

    `seconds_max` is how long the provider may be silent, `call_seconds_max` how long an answer may
    take in all; `query` goes with every request.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        query: Mapping[str, str] | None = None,
        seconds_max: float = REQUEST_SECONDS_MAX,
        call_seconds_max: float = CALL_SECONDS_MAX,
    ) -> None:
        self.base_url = base_url
        self.headers = {**HEADERS, **headers}
        self.query = dict(query or {})
        self.timeout = ClientTimeout(
            connect=CONNECT_SECONDS_MAX, sock_connect=CONNECT_SECONDS_MAX, sock_read=seconds_max
        )
        self.call_seconds_max = call_seconds_max
        self.session: ClientSession | None = None
        self.opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the session and its connections; safe to repeat."""
        if self.session is not None:
            await self.session.close()

    @asynccontextmanager
    async def stream(self, asked: ProviderRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an answer, to be read inside the context. Raises Refused and Lost."""
        session = self.session or await self.open_session()
        with lost_connections():
            # The headers are given here: those of a session are shown to the proxy too.
            async with session.request(
                asked.method,
                self.base_url + asked.path,
                headers=self.headers,
                params={**self.query, **asked.parameters},
                data=asked.content,
            ) as response:
                chunks = response.content.iter_any()
                if response.status >= 400:
                    raise Refused(response.status, response.headers, await beginning(chunks))
                yield chunks

    async def open_session(self) -> ClientSession:
        """The session, which the first request makes."""
        async with self.opening:
            if self.session is None:
                secure = self.base_url.startswith("https:")
                trusted = await asyncio.to_thread(trusted_certificates) if secure else True
                self.session = ClientSession(
                    connector=TCPConnector(limit=UNLIMITED, ssl=trusted),
                    timeout=self.timeout,
                    # Looked up once: aiohttp would do it in a thread for each request.
                    **proxy_for(self.base_url),
                )
        return self.session


def proxy_for(url: str) -> dict[str, Any]:
    """The proxy that the environment names for an address, as options of a session. Its password
    is taken out of its address, which errors show."""
    address = urlsplit(url)
    if not address.hostname or proxy_bypass(address.netloc.rpartition("@")[2]):
        return {}
    named = getproxies().get(address.scheme)
    if not named:
        return {}
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    options: dict[str, Any] = {"proxy": f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"}
    if proxy.username:
        login = BasicAuth(unquote(proxy.username), unquote(proxy.password or ""))
        options["proxy_auth"] = login
    return options


@contextmanager
def lost_connections() -> Iterator[None]:
    """Say in the words of the wire what became of a connection."""
    try:
        yield
    except ConnectionTimeoutError as nobody:
        raise Lost(nobody) from nobody
    except TimeoutError as silence:
        raise Lost(silence, late=True) from silence
    except (ClientError, OSError) as lost:
        raise Lost(lost) from lost
