"""Slashes that a client encodes belong to a name, such as a block's label, and divide no path."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from services.api.http.request_parsing import AnyRequest

ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)


def routed_path(scope: Any) -> str:
    """The path that a request is routed by: decoded but for its encoded slashes."""
    raw = scope.get("raw_path", b"")
    if not ENCODED_SLASH.search(raw):
        return str(scope["path"])
    # Encoded twice, so that what is decoded below is the escape.
    return unquote(ENCODED_SLASH.sub(b"%252F", raw).decode("ascii"))


def last_segment(request: AnyRequest) -> str:
    """The last segment of the path as the client meant it, with its slashes."""
    return decoded_name(request.scope["raw_path"].decode("ascii").rstrip("/").split("/")[-1])


def segment(request: AnyRequest, number: int) -> str:
    """A segment of the path as the client meant it, with its slashes; the first is number 1."""
    return decoded_name(request.scope["raw_path"].decode("ascii").split("/")[number])


def decoded_name(encoded: str) -> str:
    """The name that an encoded segment is; without NUL, as bodies are read, for Postgres keeps none
    and cannot be asked for one."""
    return unquote(encoded).replace("\x00", "")
