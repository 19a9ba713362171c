"""Input and output of an operation, declared once beside its handler, for the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import litestar
from litestar.handlers import HTTPRouteHandler
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


def operation(
    verb: Callable[..., HTTPRouteHandler],
    path: str | Sequence[str],
    gives: str,
    *,
    query: type[BaseModel] | None = None,
    body: type[BaseModel] | None = None,
    streams: bool = False,
    also_takes: tuple[str, ...] = (),
    **options: Any,
) -> HTTPRouteHandler:
    """The decorator of an operation's handler, with the options of Litestar's; the status is 200
    unless they say otherwise. `gives` says in words what is answered."""
    described = Description(query, body, gives, streams, also_takes)
    return verb(path, **{"status_code": 200, **options}, opt={"description": described})


get, put, patch = (
    partial(operation, verb) for verb in (litestar.get, litestar.put, litestar.patch)
)
post, delete = partial(operation, litestar.post), partial(operation, litestar.delete)


def documented_path(path: str) -> str:
    """The path of a route handler as the document has it."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
