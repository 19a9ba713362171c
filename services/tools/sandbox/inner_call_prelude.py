"""Runs inside of the sandbox, before a program that may call tools: one function for each of them.

A call is written where the result goes (a length, then JSON), and answered on a pipe of its own.
Nothing of Heeler can be imported here.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

RESULT, REPLIES = 3, 11
LENGTH_BYTES = 4
# Of each tool the names of its parameters, in their order; the service says them.
TOOLS: dict[str, list[str]] = {}
lock = threading.Lock()


class ToolError(Exception):
    """A tool that was called did not succeed; the words are what it returned."""


def exactly(count: int) -> bytes:
    """So many bytes of an answer."""
    data = b""
    while len(data) < count:
        piece = os.read(REPLIES, count - len(data))
        if not piece:
            raise ToolError("nobody answers calls any more")
        data += piece
    return data


def call(name: str, arguments: dict[str, Any]) -> str:
    """The value that a tool returned. Raises ToolError."""
    data = json.dumps({"call": name, "arguments": arguments}, allow_nan=False).encode()
    with lock:
        data = len(data).to_bytes(LENGTH_BYTES, "big") + data
        while data:
            data = data[os.write(RESULT, data) :]
        answer = json.loads(exactly(int.from_bytes(exactly(LENGTH_BYTES), "big")))
    if answer["status"] != "success":
        raise ToolError(answer["text"])
    text: str = answer["text"]
    return text


def function_of(name: str, parameters: list[str]) -> Callable[..., str]:
    """The function that calls a tool."""

    def tool(*given: Any, **named: Any) -> str:
        if len(given) > len(parameters):
            raise TypeError(f"{name} takes {len(parameters)} arguments, not {len(given)}")
        return call(name, {**dict(zip(parameters, given, strict=False)), **named})

    tool.__name__ = name
    return tool


def names() -> dict[str, Any]:
    """The names that the program finds: all of them, and their exception."""
    tools = {name: function_of(name, parameters) for name, parameters in TOOLS.items()}
    return {"ToolError": ToolError, **tools}
