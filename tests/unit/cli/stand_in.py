"""A server that says what a test wants, and keeps what it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class StandIn:
    """A server that answers every request alike, and keeps what it was asked."""

    url: str
    status: int = 200
    body: Any = field(default_factory=list)
    location: str | None = None  # where it sends requests on to
    is_json: bool | None = None  # what it says of its body; of bytes, without, that they are HTML
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def keys(self) -> list[str | None]:
        """What each request had in its header Authorization."""
        return [headers.get("Authorization") for _, headers in self.asked]
