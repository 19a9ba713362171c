"""A provider over aiohttp, with nothing between a request and its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import (
    BasicAuth,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    TCPConnector,
)

from libs.contracts.message import JsonObject
from libs.contracts.version import HEELER_VERSION
from services.agent.adapters.models.wire import (
    CONNECT_SECONDS_MAX,
    LIST_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    EventReader,
    Lost,
    Refused,
)

if TYPE_CHECKING:
    from ssl import SSLContext

HEADERS = {
    "Accept": "application/json",
    "Content-Type": "application/json",
    "User-Agent": f"heeler/{HEELER_VERSION}",
}
UNLIMITED = 0
LISTING = ClientTimeout(total=LIST_SECONDS_MAX)


class HttpWire:
    """Keeps the contract of `wire.Wire`. Proxies and certificates are those of the environment.

    `seconds_max` is how long the provider may be silent.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        seconds_max: float = REQUEST_SECONDS_MAX,
    ) -> None:
        self.base_url = base_url
        self.headers = {**HEADERS, **headers}
        self.timeout = ClientTimeout(
            connect=CONNECT_SECONDS_MAX, sock_connect=CONNECT_SECONDS_MAX, sock_read=seconds_max
        )
        self.session: ClientSession | None = None
        self.opening = asyncio.Lock()

    async def post(self, path: str, content: bytes) -> bytes:
        """The answer to a JSON body, whole."""
        async with self.answered("POST", path, data=content) as response:
            return await response.read()

    async def events(self, path: str, content: bytes) -> AsyncGenerator[bytes]:
        """The data of the server-sent events that answer a JSON body, as they come."""
        reader = EventReader()
        async with self.answered("POST", path, data=content) as response:
            async for chunk in response.content.iter_any():
                for data in reader.read(chunk):
                    yield data
            for data in reader.end():
                yield data

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        """What is there."""
        async with self.answered("GET", path, params=parameters, timeout=LISTING) as response:
            return await response.read()

    async def close(self) -> None:
        """Close the connections."""
        if self.session is not None:
            await self.session.close()

    @asynccontextmanager
    async def answered(
        self, method: str, path: str, **request: Any
    ) -> AsyncIterator[ClientResponse]:
        """A response whose body is read inside."""
        session = self.session or await self.opened()
        address = self.base_url + path
        with lost_connections():
            # The headers are given here: those of a session are shown to the proxy too.
            async with session.request(
                method, address, headers=self.headers, **request
            ) as response:
                if response.status >= 400:
                    text = await response.text(errors="replace")
                    raise Refused(response.status, response.headers, text)
                yield response

    async def opened(self) -> ClientSession:
        """The session, made when it is first needed."""
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


def trusted_certificates() -> SSLContext:
    """The certificates of this machine, wherever its distribution keeps them. Takes a moment."""
    import httpx2

    return httpx2.create_ssl_context()


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
