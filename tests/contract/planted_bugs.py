"""Bugs that are planted to see whether a test finds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug of the simulator's list, as it looks in Postgres, and the test that finds it."""

    found_by: Callable[[Any], Awaitable[None]]
    patches: list[tuple[Any, str, Any]] = field(default_factory=list)
    schema: str = ""


def without(text: str, part: str, instead: str = "") -> str:
    """A statement that lacks a part."""
    assert part in text
    return text.replace(part, instead)
