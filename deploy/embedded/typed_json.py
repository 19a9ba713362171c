"""JSON documents as dataclasses: what the launcher keeps in files. Pydantic could read them, and
takes longer to load than `status` takes."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

type Document = bytes | str


def read[T](kind: type[T], document: Document) -> T:
    """The value in a JSON document. Raises ValueError where it does not fit the type."""
    try:
        value: T = _value(kind, json.loads(document))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return value


def _value(kind: Any, found: Any) -> Any:
    """The value as this type. Fields that a dataclass does not know are left out."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if found is None else _value(arguments[0], found)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(found, dict):
        return kind(**_fields(kind, found))
    if origin is dict and isinstance(found, dict):
        return {key: _value(arguments[1], each) for key, each in found.items()}
    if origin is list and isinstance(found, list):
        return [_value(arguments[0], each) for each in found]
    if kind is float and type(found) is int:
        return float(found)
    if type(found) is kind:
        return found
    raise TypeError(f"{found!r} is no {getattr(kind, '__name__', kind)}")


def _fields(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    hints = _hints(kind)
    names = [field.name for field in fields(kind) if field.name in found]
    return {name: _value(hints[name], found[name]) for name in names}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
