"""Input and output of an operation, declared once beside its handler, for the OpenAPI document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Description:
    """The models of an operation, where it has them; `also_takes` are forms of a body beside JSON,
    whose texts say the same."""

    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    gives: str = ""
    streams: bool = False
    also_takes: tuple[str, ...] = ()


def returns(
    gives: str,
    *,
    query: type[BaseModel] | None = None,
    body: type[BaseModel] | None = None,
    streams: bool = False,
    also_takes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The `opt` of a route handler."""
    return {"description": Description(query, body, gives, streams, also_takes)}


def documented_path(path: str) -> str:
    """The path of a route handler as the document has it."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
