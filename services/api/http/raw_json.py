"""Answers that are JSON already, as it came from the database."""

from __future__ import annotations

from typing import Any

from litestar import Response
from litestar.types import Receive, Scope, Send


class RawJson(Response[bytes]):
    """An answer that is whole and JSON already, and is sent as it is, with the `headers` that it is
    given afterwards."""

    def __init__(self, content: bytes, status_code: int = 200) -> None:
        self.content = content
        self.status_code = status_code
        self.headers = {}

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The answer as an application; what Litestar would add to it, it does not need."""
        return self.send_whole

    async def send_whole(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the head and the body of the answer."""
        size = str(len(self.content)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", size)]
        headers += [
            (name.lower().encode(), str(self.headers[name]).encode()) for name in self.headers
        ]
        status: int = self.status_code or 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self.content, "more_body": False})


def raw(body: bytes, status_code: int = 200) -> Response[bytes]:
    """JSON as it came from the database."""
    return RawJson(body, status_code)
