"""A provider through its official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from libs.contracts.message import JsonObject
from services.agent.adapters.models.wire import (
    CONNECT_SECONDS_MAX,
    LIST_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    EventReader,
    Lost,
    Refused,
)

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic


class AnthropicWire:
    """Keeps the contract of `wire.Wire`, by the SDK of Anthropic over its aiohttp transport.

    Bodies go in as they are and answers come out as they came: the SDK's walk through typed
    messages costs 0.1 ms each, its objects for the events of a stream three times as much as
    reading the lines. `seconds_max` is how long the provider may be silent.
    """

    def __init__(
        self, base_url: str, api_key: str, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.seconds_max = seconds_max
        self.client: AsyncAnthropic | None = None
        self.opening = asyncio.Lock()

    async def post(self, path: str, content: bytes) -> bytes:
        """The answer to a JSON body, whole."""
        response = await self.asked("post", path, content=content)
        return response.content

    async def events(self, path: str, content: bytes) -> AsyncGenerator[bytes]:
        """The data of the server-sent events that answer a JSON body, as they come."""
        reader = EventReader()
        # Asked for a stream of this type, the SDK hands out the response with its body unread.
        response = await self.asked("post", path, content=content, stream=True)
        try:
            with sdk_errors():
                async for chunk in response.aiter_bytes():
                    for data in reader.read(chunk):
                        yield data
                for data in reader.end():
                    yield data
        finally:
            await response.aclose()

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        """What is there."""
        options = {"timeout": LIST_SECONDS_MAX, "params": parameters}
        response = await self.asked("get", path, options=options)
        return response.content

    async def close(self) -> None:
        """Close the connections."""
        if self.client is not None:
            await self.client.close()

    async def asked(self, method: str, path: str, **request: Any) -> httpx2.Response:
        """What the provider answers."""
        import httpx2

        async with self.opening:
            if self.client is None:
                # To import the SDK takes seconds, in which others have work to do.
                self.client = await asyncio.to_thread(self.opened)
        with sdk_errors():
            response = await getattr(self.client, method)(path, cast_to=httpx2.Response, **request)
        assert isinstance(response, httpx2.Response), "it is what was asked for"
        return response

    def opened(self) -> AsyncAnthropic:
        """The SDK's client. It tries once: how often is for all providers the same."""
        import httpx2
        from anthropic import AsyncAnthropic, DefaultAioHttpClient

        return AsyncAnthropic(
            api_key=self.api_key,
            base_url=self.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(self.seconds_max, connect=CONNECT_SECONDS_MAX),
            http_client=DefaultAioHttpClient(),
        )


@contextmanager
def sdk_errors() -> Iterator[None]:
    """Say in the words of the wire what the SDK raises. Its transport calls a refused connection a
    timeout, of connecting."""
    import anthropic
    import httpx2

    try:
        yield
    except anthropic.APIStatusError as refused:
        response = refused.response
        raise Refused(response.status_code, response.headers, response.text) from None
    except (anthropic.APIError, httpx2.RequestError) as lost:
        cause = lost.__cause__ if isinstance(lost, anthropic.APIError) else lost
        late = isinstance(cause, httpx2.TimeoutException)
        connected = not isinstance(cause, httpx2.ConnectTimeout)
        raise Lost(cause or lost, late=late and connected) from lost
