"""Requests that the api sends to itself, for a client of another protocol than REST or for work
that a client has asked for: with the same limits and handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

from litestar.types import ASGIApp
from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import Json, JsonObject
from services.api.http.callers import CALLER

# The headers of the client that say who it is.
IDENTIFYING_HEADERS = frozenset(
    {b"authorization", b"x-bare-password", b"host", b"origin", b"user-agent", b"traceparent"}
)
KEPT_STATE = ("proof", CALLER)
REFUSED_FROM = 400


class RequestRefused(Exception):
    """The api answered with an error; the text says which."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class InternalRequests:
    """Asks the application itself, as the client whose request has this scope."""

    def __init__(self, app: ASGIApp, scope: Any) -> None:
        self.app = app
        self.outer = scope

    async def get(self, path: str, **query: Any) -> Any:
        """The body of an answer to GET. Query parameters that are None are left out."""
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The body of an answer to POST. Fields that are None are left out."""
        return await self.ask("POST", path, body=present(body))

    async def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """The body of an answer to PATCH. Fields that are None are left out."""
        return await self.ask("PATCH", path, body=present(body))

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> Any:
        """The JSON of an answer; the segments of `path` are percent-encoded, and `key` is an
        Idempotency-Key. Raises RequestRefused for one that is an error."""
        sent = to_json(body) if body is not None else b""
        collected = Collected(sent)
        scope = self.scope(method, path, present(query or {}))
        if key:
            scope["headers"].append((b"idempotency-key", key.encode()))
        await self.app(scope, collected.receive, collected.send)
        answer: Json = from_json(collected.body) if collected.body else None
        if collected.status >= REFUSED_FROM:
            raise RequestRefused(collected.status, detail_of(answer, collected.status))
        return answer

    def scope(self, method: str, path: str, query: JsonObject) -> Any:
        """The ASGI scope of a request that this client would send."""
        headers = [header for header in self.outer["headers"] if header[0] in IDENTIFYING_HEADERS]
        headers.append((b"content-type", b"application/json"))
        state = {key: self.outer["state"][key] for key in KEPT_STATE if key in self.outer["state"]}
        return {
            "type": "http",
            "asgi": self.outer["asgi"],
            "http_version": "1.1",
            "scheme": self.outer["scheme"],
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": urlencode(query, doseq=True).encode(),
            "root_path": "",
            "headers": headers,
            "client": self.outer["client"],
            "server": self.outer["server"],
            "state": state,
        }


class Collected:
    """The messages of a request, and the answer to it."""

    def __init__(self, sent: bytes) -> None:
        self.sent: bytes | None = sent
        self.status = 500
        self.parts: list[bytes] = []

    @property
    def body(self) -> bytes:
        """The whole body of the answer."""
        return b"".join(self.parts)

    async def receive(self) -> Any:
        """The body that is sent, and then nothing: its sender waits, until it is cancelled."""
        sent, self.sent = self.sent, None
        if sent is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(self, message: Any) -> None:
        """Keep a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.parts.append(message.get("body", b""))


def present(fields: Mapping[str, Any]) -> JsonObject:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def detail_of(answer: Json, status: int) -> str:
    """The words of an error, whichever of V1's two shapes it has."""
    detail = answer.get("detail") if isinstance(answer, dict) else None
    if isinstance(detail, str):
        return detail
    return to_json(answer).decode() if answer is not None else f"The server answered {status}"
