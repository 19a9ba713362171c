"""What is asked of addresses that clients name, within which bounds, and what is answered.

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
    """How long a request may take: in all, to connect, and while nothing comes. How many bytes of
    the body are read, decompressed; how often a redirect is followed."""

    seconds: float = SECONDS_MAX
    connect_seconds: float = SECONDS_MAX
    silence_seconds: float = SECONDS_MAX
    answer_bytes: int = 1 << 20
    redirects: int = REDIRECTS_MAX


BOUNDS_DEFAULT = Bounds()


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """What is asked of an address that a client named."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, and by which address after redirects. Header names are in small letters;
    of several values of one the first stands."""

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
