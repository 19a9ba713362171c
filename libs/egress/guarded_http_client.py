"""Requests to addresses that clients name, of which each is checked once it is resolved, and the
connection goes to what was checked: also after a redirect, and if the name means another machine a
moment later."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientOSError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult

from libs.contracts.version import HEELER_VERSION
from libs.egress.address_guard import AddressGuard, port_of
from libs.egress.checked_addresses import checked_addresses, trusted_certificates
from libs.egress.failures import AnswerTooLarge, Forbidden, TooLate, Unreachable
from libs.egress.outgoing_requests import (
    BOUNDS_DEFAULT,
    Answer,
    Bounds,
    OpenAnswer,
    OutgoingRequest,
)

# After these the same request is sent to the new address; after the others it would be another
# one, which only a request without a body becomes.
REPEATING_REDIRECTS = (307, 308)
OTHER_REDIRECTS = (301, 302, 303)
WITHOUT_BODY = ("GET", "HEAD")
# How long a connection is kept without a request; and how many that the server has ended are tried
# before a request fails.
KEPT_SECONDS = 30.0
ENDED_MAX = 2
USER_AGENT = {"User-Agent": f"heeler/{HEELER_VERSION}"}
# What a redirect to another host does not learn: everything that a client gave but these.
HARMLESS_HEADERS = ("accept", "accept-language", "content-type", "user-agent")


class Resolved(AbstractResolver):
    """Says of every host what was resolved and checked before."""

    def __init__(self, addresses: Sequence[str], port: int) -> None:
        self.addresses = addresses
        self.port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses that were checked before."""
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
        """Do nothing: no connection is open."""


class Checked(AbstractResolver):
    """Says of a host what it means now, if a guard lets all of it pass."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The checked addresses. Raises EgressFailed."""
        addresses = await checked_addresses(self.guard, host, port)
        return await Resolved(addresses, port).resolve(host, port, family)

    async def close(self) -> None:
        """Do nothing: no connection is open."""


class GuardedHttp:
    """Asks addresses that a guard lets pass. It asks no proxy and keeps no cookies and no
    connections."""

    def __init__(self, guard: AddressGuard, bounds: Bounds = BOUNDS_DEFAULT) -> None:
        self.guard = guard
        self.bounds = bounds

    async def send(self, request: OutgoingRequest) -> Answer:
        """The whole answer, within the bounds, whatever its status. Raises EgressFailed."""
        async with self.open(request) as answer:
            body = b"".join([chunk async for chunk in answer.chunks])
            return Answer(answer.status, answer.headers, answer.url, body)

    @asynccontextmanager
    async def open(self, request: OutgoingRequest) -> AsyncIterator[OpenAnswer]:
        """An answer that is read inside, within the bounds. Raises EgressFailed, also inside."""
        deadline = asyncio.timeout(self.bounds.seconds)
        try:
            async with deadline, AsyncExitStack() as stack:
                with lost_in_words():
                    answer = await self.final_answer(request, stack)
                yield answer
        except TimeoutError as late:
            if not deadline.expired():
                raise
            raise TooLate(f"there was no answer within {self.bounds.seconds:g} seconds") from late

    async def final_answer(self, request: OutgoingRequest, stack: AsyncExitStack) -> OpenAnswer:
        """The answer after redirects, open until the stack is left."""
        for _ in range(self.bounds.redirects + 1):
            response = await stack.enter_async_context(self.begun_once(request))
            following = redirect_of(request, response)
            if following is None:
                return self.answer(request.url, response)
            request = following
        raise Forbidden(f"it leads through more than {self.bounds.redirects} redirects")

    @asynccontextmanager
    async def begun_once(self, request: OutgoingRequest) -> AsyncIterator[ClientResponse]:
        """The beginning of the answer of one address."""
        url = self.guard.check_address(request.url)
        port = port_of(url)
        addresses = await checked_addresses(self.guard, str(url.hostname), port)
        secure: Any = True
        if url.scheme == "https":
            secure = await asyncio.to_thread(trusted_certificates)
        connector = TCPConnector(
            resolver=Resolved(addresses, port), use_dns_cache=False, force_close=True, ssl=secure
        )
        async with (
            self.session(connector) as session,
            session.request(**arguments(request)) as response,
        ):
            yield response

    def session(self, connector: TCPConnector) -> ClientSession:
        """The client session over the connections of a connector."""
        return ClientSession(
            connector=connector,
            timeout=ClientTimeout(
                sock_connect=self.bounds.connect_seconds, sock_read=self.bounds.silence_seconds
            ),
            cookie_jar=DummyCookieJar(),
            trust_env=False,
        )

    def answer(self, url: str, response: ClientResponse) -> OpenAnswer:
        """The head of an answer, and the rest to be read."""
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            headers.setdefault(name.lower(), value)
        return OpenAnswer(response.status, headers, url, self.bounded_body(response))

    async def bounded_body(self, response: ClientResponse) -> AsyncIterator[bytes]:
        """The body in pieces, up to the bound. Raises AnswerTooLarge."""
        room = self.bounds.answer_bytes
        while True:
            with lost_in_words():
                chunk = await response.content.readany()
            if not chunk:
                return
            room -= len(chunk)
            if room < 0:
                bound = self.bounds.answer_bytes
                raise AnswerTooLarge(f"the answer has more than {bound} bytes")
            yield chunk


class KeptHttp(GuardedHttp):
    """The same over connections that are kept for the next request, each checked when it is made:
    for an address that is asked again and again. A request may reach it more than once, since a
    server may end a connection in the moment in which it is used again."""

    def __init__(self, guard: AddressGuard, bounds: Bounds = BOUNDS_DEFAULT) -> None:
        super().__init__(guard, bounds)
        self.kept: ClientSession | None = None

    @asynccontextmanager
    async def begun_once(self, request: OutgoingRequest) -> AsyncIterator[ClientResponse]:
        """The beginning of the answer of one address."""
        url = self.guard.check_address(request.url)
        secure: Any = True
        if url.scheme == "https":
            secure = await asyncio.to_thread(trusted_certificates)
        if self.kept is None:
            self.kept = self.session(
                TCPConnector(
                    resolver=Checked(self.guard),
                    use_dns_cache=False,
                    keepalive_timeout=KEPT_SECONDS,
                    ssl=secure,
                )
            )
        response = await self.first_answer(self.kept, request)
        async with response:
            yield response

    async def first_answer(
        self, session: ClientSession, request: OutgoingRequest
    ) -> ClientResponse:
        """The beginning of an answer, over a connection that the server has not ended."""
        for _ in range(ENDED_MAX):
            try:
                return await session.request(**arguments(request))
            except ClientConnectorError:
                raise
            except (ServerDisconnectedError, ClientOSError):
                continue
        return await session.request(**arguments(request))

    async def aclose(self) -> None:
        """Keep no connection any more."""
        if self.kept is not None:
            await self.kept.close()


def arguments(request: OutgoingRequest) -> dict[str, Any]:
    """The arguments of aiohttp's request."""
    return {
        "method": request.method,
        "url": request.url,
        "data": request.body,
        "headers": {**USER_AGENT, **request.headers},
        "allow_redirects": False,
    }


@contextmanager
def lost_in_words() -> Iterator[None]:
    """Say what became of a connection in the words of this library."""
    try:
        yield
    except TimeoutError as silence:
        raise TooLate(f"nothing came in time: {silence}") from silence
    except (ClientError, OSError, ValueError) as lost:
        raise Unreachable(f"{type(lost).__name__}: {lost}") from lost


def redirect_of(request: OutgoingRequest, response: ClientResponse) -> OutgoingRequest | None:
    """The request that follows a redirect; None if this is the answer."""
    location = response.headers.get("Location")
    followed = response.status in REPEATING_REDIRECTS or (
        response.status in OTHER_REDIRECTS and request.method in WITHOUT_BODY
    )
    if not location or not followed:
        return None
    url = urljoin(request.url, location)
    headers = request.headers
    if origin(url) != origin(request.url):
        headers = {name: text for name, text in headers.items() if name.lower() in HARMLESS_HEADERS}
    return replace(request, url=url, headers=headers)


def origin(url: str) -> str:
    """The scheme, host and port of an address, as far as its text goes."""
    return "/".join(url.split("/", 3)[:3]).lower()
