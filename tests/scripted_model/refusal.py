"""Why a request is refused, and the checks that all validators share."""

import re
from dataclasses import dataclass
from typing import Any

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TYPE_NAMES: dict[type, str] = {dict: "object", list: "array", str: "string"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is invalid: the members of an OpenAI error body."""

    message: str
    param: str | None = None
    code: str | None = None


class Invalid(Exception):
    """Carries a Refusal from deep inside a request to `check`."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.refusal = Refusal(message, param, code)


def expect(value: Any, kind: type, where: str) -> None:
    if not isinstance(value, kind):
        wanted = _TYPE_NAMES[kind]
        raise wrong_type(value, wanted, where)


def wrong_type(value: Any, wanted: str, where: str) -> Invalid:
    message = f"Invalid type for '{where}': expected {wanted}, got {type(value).__name__} instead."
    return Invalid(message, where, "invalid_type")


def empty_array(where: str) -> Invalid:
    return Invalid(
        f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        where,
        "empty_array",
    )


def too_many(where: str, most: int, count: int) -> Invalid:
    return Invalid(
        f"Invalid '{where}': array too long. Expected an array with maximum length {most}, but "
        f"got an array with length {count} instead.",
        where,
        "array_above_max_length",
    )


def check_name(name: Any, where: str) -> None:
    expect(name, str, where)
    if not TOOL_NAME.fullmatch(name):
        raise Invalid(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches "
            "the pattern '^[a-zA-Z0-9_-]+$'.",
            where,
            "invalid_value",
        )
