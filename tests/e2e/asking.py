"""How the end-to-end tests ask: what they all send, and how they read what comes back."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

MODEL = "openai/gpt-4o-mini"
EMBEDDING = "openai/text-embedding-3-small"
SECONDS_MAX = 30.0
SDK_HEADERS = {
    "user-agent": "Letta/Python 1.12.1",
    "x-stainless-package-version": "1.12.1",
    "x-stainless-lang": "python",
}
USER = "user-00000000-0000-4000-8000-000000000000"
NOBODY = "00000000-0000-4000-8000-000000000000"
ID = re.compile(r"[a-z_]+-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
MESSAGE_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def unique(word: str) -> str:
    """A name that no other test has."""
    return f"{word}-{uuid4().hex[:12]}"


def is_id(kind: str, value: str | None) -> bool:
    return value is not None and value.startswith(f"{kind}-") and bool(ID.fullmatch(value))


def says(text: str, **fields: Any) -> list[dict[str, Any]]:
    """One message of the user."""
    return [{"role": "user", "content": text, **fields}]


@dataclass(frozen=True)
class Line:
    """One server-sent event as it came over the wire."""

    id: str | None
    event: str | None
    data: Any


def stream(http: httpx.Client, agent_id: str, text: str, **fields: Any) -> list[Line]:
    """Send a message, read the whole stream."""
    path = f"/v1/agents/{agent_id}/messages/stream"
    with http.stream("POST", path, json={"messages": says(text), **fields}) as response:
        response.read()
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return lines_of(response.text)


def lines_of(text: str) -> list[Line]:
    """The events of a stream; every one ends with an empty line."""
    assert text.endswith("\n\n")
    return [line_of(chunk) for chunk in text.removesuffix("\n\n").split("\n\n")]


def line_of(chunk: str) -> Line:
    fields = dict(line.split(": ", 1) for line in chunk.split("\n"))
    assert fields.keys() <= {"id", "event", "data"}
    data = fields["data"]
    return Line(
        fields.get("id"), fields.get("event"), data if data == "[DONE]" else json.loads(data)
    )


def kinds(lines: list[Line]) -> list[str]:
    """What each event is."""
    return [line.data if line.data == "[DONE]" else line.data["message_type"] for line in lines]


def without_keepalives(lines: list[Line]) -> list[Line]:
    """The events without the pings that a slow model makes, but with the one that comes first."""
    told = zip(lines, kinds(lines), strict=True)
    return lines[:1] + [line for line, kind in list(told)[1:] if kind != "ping"]
