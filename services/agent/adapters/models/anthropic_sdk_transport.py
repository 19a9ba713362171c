"""A provider through its official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from libs.contracts.bus_messages import JsonObject
from services.agent.adapters.models.transport import (
    CALL_SECONDS_MAX,
    CONNECT_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    Lost,
    ProviderRequest,
    Refused,
    Wire,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
from httpx2 import AsyncByteStream, Response

from services.agent.adapters.models.transport import ERROR_BYTES_MAX


class Beginning(AsyncByteStream):
    """As much of a body as an error may have."""

    def __init__(self, stream: AsyncByteStream) -> None:
        self.stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self.stream:
            yield chunk
            read += len(chunk)
            if read >= ERROR_BYTES_MAX:
                return

    async def aclose(self) -> None:
        """Close the stream and its connection."""
        await self.stream.aclose()


async def cut_error(response: Response) -> None:
    """A hook for responses: an error is not read to its end if that is far."""
    if response.status_code >= 400:
        assert isinstance(response.stream, AsyncByteStream), "the client is asynchronous"
        response.stream = Beginning(response.stream)


class AnthropicWire(Wire):
    """A wire by the SDK of Anthropic over its aiohttp transport.

    Bodies go in as they are and answers come out as they came: the SDK's walk through typed
    messages costs 0.1 ms each, its objects for the events of a stream three times as much as
    reading the lines. `seconds_max` is how long the provider may be silent, `call_seconds_max` how
    long an answer may take in all; `headers` and `query` go with every request.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        seconds_max: float = REQUEST_SECONDS_MAX,
        call_seconds_max: float = CALL_SECONDS_MAX,
    ) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.headers = headers
        self.query = query
        self.seconds_max = seconds_max
        self.call_seconds_max = call_seconds_max
        self.client: AsyncAnthropic | None = None
        self.opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the client and its connections."""
        if self.client is not None:
            await self.client.close()

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        """The response body; to load the SDK is not part of the time that the provider has."""
        await self.open()
        return await super().get(path, parameters)

    async def open(self) -> AsyncAnthropic:
        """The SDK's client. To import the SDK takes seconds, in which others have work to do."""
        async with self.opening:
            if self.client is None:
                self.client = await asyncio.to_thread(self.new_client)
            return self.client

    @asynccontextmanager
    async def stream(self, asked: ProviderRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an answer, to be read inside the context. Raises Refused and Lost."""
        import httpx2

        client = await self.open()
        ask = client.get if asked.method == "GET" else client.post
        request: dict[str, Any] = {"options": {"params": asked.parameters}}
        if asked.content is not None:
            request["content"] = asked.content
        with sdk_errors():
            # Asked for a stream of this type, the SDK does not read the body of an answer.
            response = await ask(asked.path, cast_to=httpx2.Response, stream=True, **request)
            assert isinstance(response, httpx2.Response), "it is what was asked for"
            try:
                yield response.aiter_bytes()
            finally:
                await response.aclose()

    def new_client(self) -> AsyncAnthropic:
        """A client of the SDK that tries once: how often a model is asked is the same for all
        providers."""
        import httpx2
        from anthropic import AsyncAnthropic, DefaultAioHttpClient

        return AsyncAnthropic(
            api_key=self.api_key,
            base_url=self.base_url,
            default_headers=self.headers,
            default_query=self.query,
            max_retries=0,
            timeout=httpx2.Timeout(self.seconds_max, connect=CONNECT_SECONDS_MAX),
            http_client=DefaultAioHttpClient(event_hooks={"response": [cut_error]}),
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
    except TimeoutError as silence:
        raise Lost(silence, late=True) from silence
    except (anthropic.APIError, httpx2.RequestError) as lost:
        cause = lost.__cause__ if isinstance(lost, anthropic.APIError) else lost
        late = isinstance(cause, httpx2.TimeoutException)
        connected = not isinstance(cause, httpx2.ConnectTimeout)
        raise Lost(cause or lost, late=late and connected) from lost
