"""The SDK reads errors whole before it hands them out: here they end early. Imported with it."""

from __future__ import annotations

from collections.abc import AsyncIterator

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
        """Close the connection."""
        await self.stream.aclose()


async def cut_error(response: Response) -> None:
    """A hook for responses: an error is not read to its end if that is far."""
    if response.status_code >= 400:
        assert isinstance(response.stream, AsyncByteStream), "the client is asynchronous"
        response.stream = Beginning(response.stream)
