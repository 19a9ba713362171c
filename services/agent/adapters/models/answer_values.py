"""What stands in a provider's answer, read for what it can be taken for.

Servers that stand in for a provider leave out fields, add some, or write a text where others write
an object. Of a value that can be nothing that was looked for, these functions give nothing.
"""

from __future__ import annotations

import json
from typing import Any

from services.agent.adapters.models.ports import OddAnswer

SHOWN_CHARS_MAX = 60
# Where a part of a content has its text.
TEXT_FIELDS = ("text", "thinking", "content", "summary")


def event_of(data: bytes | str) -> dict[str, Any]:
    """An event of an answer, or a whole one, which may stand in a list; empty if it is JSON of
    another kind. Raises OddAnswer."""
    try:
        return next(iter(entries(json.loads(data))), {})
    except UnicodeDecodeError:
        raise OddAnswer("it is no UTF-8") from None
    except RecursionError:
        raise OddAnswer("it is nested too deeply") from None
    except ValueError:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        begins = text.strip()[:SHOWN_CHARS_MAX]
        raise OddAnswer(
            f"it is no JSON, and begins with {begins!r}" if begins else "it is empty"
        ) from None


def fields(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[dict[str, Any]]:
    """The objects of a list, or the one that stands there without a list."""
    if isinstance(value, dict):
        return [value]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def words(value: object) -> str:
    """A text, or the texts of parts."""
    match value:
        case str():
            return value
        case list():
            return "".join(words(part) for part in value)
        case dict():
            return next((words(value[name]) for name in TEXT_FIELDS if value.get(name)), "")
        case int() | float() if not isinstance(value, bool):
            return str(value)
    return ""


def number(value: object) -> int | None:
    """A whole number, also where it stands in quotes."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) <= SHOWN_CHARS_MAX:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
