"""Requests as data: what a plan sends to the API, with what takes each of them back.

A request may name things that earlier ones make (`Ref`), and is carried out with a key of its own:
sent again, by another process, it happens once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from libs.agent_document.desired import Json, Part

type Ids = dict[Ref, str]


class Ref(Part):
    """The id of a thing that may not be there yet: ("tool", "weather")."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} '{self.name}'"


class Request(Part):
    """One request.

    Args:
        path: its segments; a `Ref` stands for an id.
        creates: what the answer's `id` is the id of; such a request has an Idempotency-Key.
        absent_is_done: whether a 404 means that there is nothing left to do.
        undo: what takes it back.
    """

    method: Literal["DELETE", "PATCH", "POST", "PUT"]
    path: tuple[str | Ref, ...]
    body: Json = None
    creates: Ref | None = None
    absent_is_done: bool = False
    undo: Request | None = None


def patch(
    path: Iterable[str | Ref], body: Mapping[str, Json], before: Mapping[str, Json]
) -> Request:
    """A request that changes fields, and takes back what it changed. `before` has the values that
    the same fields have now."""
    undo = Request(method="PATCH", path=tuple(path), body={name: before.get(name) for name in body})
    return Request(method="PATCH", path=tuple(path), body=dict(body), undo=undo)


def removal(path: Iterable[str | Ref], undo: Request | None = None) -> Request:
    """A request that removes what may be gone already."""
    return Request(method="DELETE", path=tuple(path), absent_is_done=True, undo=undo)


def creation(
    path: Sequence[str | Ref], body: Json, ref: Ref, method: Literal["POST", "PUT"] = "POST"
) -> Request:
    """A request that makes a thing, and takes back what it made."""
    collection = [part.rstrip("/") if isinstance(part, str) else part for part in path]
    gone = removal([*collection, ref])
    return Request(method=method, path=tuple(path), body=body, creates=ref, undo=gone)
