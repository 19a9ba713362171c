"""Requests to addresses that clients name, their bounds, and the answers.

It stands apart from what sends requests, whose import takes as long as a tenth of a service's: most
processes ask nothing of this kind, or only much later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

REDIRECTS_MAX = 3
SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a request in seconds: in all, to connect, and while nothing comes; the bytes of
    the body that are read, decompressed; and the number of redirects."""

    seconds: float = SECONDS_MAX
    connect_seconds: float = SECONDS_MAX
    silence_seconds: float = SECONDS_MAX
    answer_bytes: int = 1 << 20
    redirects: int = REDIRECTS_MAX


BOUNDS_DEFAULT = Bounds()


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to an address that a client named."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, with its address after redirects. Header names are in small letters; of several
    values of one the first stands."""

    status: int
    headers: Mapping[str, str]
    url: str
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """An answer whose body is still to be read: `chunks` ends with it, or raises."""

    status: int
    headers: Mapping[str, str]
    url: str
    chunks: AsyncIterator[bytes] = field(repr=False)
