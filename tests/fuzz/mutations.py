"""Requests that are nearly right: a valid one, with a few things changed."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from tests.fuzz.values import hostile, written

CHANGES_MAX = 3
BODIES_UNREADABLE_PART = 0.05
HEADERS = {
    "idempotency-key": ("", "k", "k" * 4_000, "é", "1", "\x7f", "a b"),
    "x-stainless-retry-count": ("1", "²", "-1", "1e9", "9" * 5_000, "true", " 1 ", "١"),
    "last-event-id": ("0", "1", "²", "-1", "9" * 5_000, "x", "9" * 19, "1.0"),
    "x-request-id": ("x", "é" * 50, "x" * 4_000, "a\tb", "\x7f", "a: b", "a,b"),
    "x-stainless-package-version": ("", "0.0.0", "x" * 500),
    "user-agent": ("", "letta-client/0.1", "letta-client/1", "é\xff"),
    "content-type": ("text/plain", "multipart/form-data", "application/json; charset=utf-16", ";"),
    "content-encoding": ("gzip", "br", "x"),
    "accept": ("text/html", "x/y", ";q=9"),
    "accept-encoding": ("gzip;q=x", "*"),
    "origin": ("http://[", "null", "http://127.0.0.1", "http://evil.example", "é"),
    "traceparent": ("00-0-0-0", "x", "00-" + "0" * 32 + "-" + "0" * 16 + "-00"),
    "tracestate": ("=", "x" * 2_000),
    "authorization": ("Bearer ", "Bearer é", "Basic x", "x"),
    "cookie": ("a", "=;=", "a=" + "b" * 3_000),
    "x-forwarded-for": ("'", "::1"),
    "range": ("bytes=-1", "x"),
    "if-none-match": ("*", "é"),
}
PARTS = (
    "%00", "%2F", "%2e%2e", "..", "%ED%A0%80", "%FF", "%", "%zz", "a%20b", "é", "x" * 5_000, "'",
    "%0d%0a", "agent-", "null", "-1", "+", "%F0%9F%90%95", "%25", ";", "{x}", "%5C", "None",
    "agent-00000000-0000-4000-8000-00000000000%0A", "human", "count",
)  # fmt: skip
BODIES = (
    b"", b"null", b"[]", b"{}", b"7", b'""', b'"x"', b"true", b"{", b"[" * 100_000, b"\xff\xfe",
    b"\xef\xbb\xbf{}", b"a=b&c=d", b"{}" * 3, b" ", b"\x00", b"1e400", b"9" * 5_000, b"NaN",
    b'{"a": 1}\x00', '{"name": "x"}'.encode("utf-16"), gzip.compress(b"{}"), b"--x\r\n\r\n",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `fields` are those that its body may have, `parameters` those of its query."""

    method: str
    path: str
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    fields: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    raw_query: str = ""

    @property
    def target(self) -> str:
        """The path with the query."""
        query = "&".join(part for part in (urlencode(self.query), self.raw_query) if part)
        return f"{self.path}?{query}" if query else self.path

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        return written(self.body)


@dataclass(slots=True)
class Mutator:
    """Changes requests, the same ones for the same random numbers."""

    random: Random
    ids: list[str] = field(default_factory=list)

    def changed(self, request: Request) -> Request:
        """A request with up to `CHANGES_MAX` changes."""
        kinds = [self.header]
        if request.parameters:
            kinds += [self.parameter] * 2
        if request.body is not None or request.fields:
            kinds += [self.body] * 6
        if request.path.count("/") > 2:
            kinds.append(self.part)
        for _ in range(self.random.randint(1, CHANGES_MAX)):
            request = self.random.choice(kinds)(request)
        return request

    def header(self, request: Request) -> Request:
        """With a header more."""
        name = self.random.choice(list(HEADERS))
        value = self.random.choice(HEADERS[name])
        return replace(request, headers=(*request.headers, (name, value)))

    def parameter(self, request: Request) -> Request:
        """With a query parameter more, or one that is no text at all."""
        name = self.random.choice(request.parameters)
        if self.random.random() < 0.1:
            raw = f"{name}={self.random.choice(PARTS).replace('é', '%E9')}"
            return replace(request, raw_query=raw)
        value = str(self.plain())[:3_000]
        return replace(request, query=(*request.query, (name, value)))

    def plain(self) -> Any:
        """Something hostile that a URL can hold, or an id that exists."""
        if self.ids and self.random.random() < 0.2:
            return self.random.choice(self.ids)
        value = hostile(self.random)
        return value if isinstance(value, str | int | float | None) else getattr(value, "text", "x")

    def part(self, request: Request) -> Request:
        """With another part of the path."""
        parts = request.path.split("/")
        index = self.random.randrange(3, len(parts))
        known = self.ids and self.random.random() < 0.3
        parts[index] = self.random.choice(self.ids if known else PARTS)
        return replace(request, path=quote("/".join(parts), safe="/%+;'{}"))

    def body(self, request: Request) -> Request:
        """With something else somewhere in the body."""
        if isinstance(request.body, bytes) or self.random.random() < BODIES_UNREADABLE_PART:
            return replace(request, body=self.random.choice(BODIES))
        changed = copy.deepcopy(request.body) if request.body is not None else {}
        if not isinstance(changed, dict | list):
            return replace(request, body=hostile(self.random))
        if request.fields and isinstance(changed, dict) and self.random.random() < 0.5:
            changed[self.random.choice(request.fields)] = hostile(self.random)
            return replace(request, body=changed)
        places = list(places_in(changed))
        if not places:
            return replace(request, body=hostile(self.random))
        holder, key = self.random.choice(places)
        match self.random.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.extend([holder[key]] * self.random.choice((1, 3, 1_001)))
            case 2:
                holder[key] = [holder[key]]
            case _:
                holder[key] = hostile(self.random)
        return replace(request, body=changed)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a body, as its holder and its key."""
    below = value.items() if isinstance(value, dict) else enumerate(value)
    for key, held in below:
        yield value, key
        if isinstance(held, dict | list):
            yield from places_in(held)


def field_names(*models: type[BaseModel] | None) -> tuple[str, ...]:
    """The names of the fields of these models."""
    return tuple(sorted({name for model in models if model for name in model.model_fields}))
