"""The messages of a run as people read them: answers on stdout, all else folded on stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from cli.output import say, write

LINE_CHARACTERS_MIN, LINE_CHARACTERS_MAX = 40, 500
INDENT = "  "


class AnswerWriter(Protocol):
    """Where the text of an answer goes, as it comes."""

    def feed(self, text: str) -> None:
        """Take more of the text."""

    def end(self) -> None:
        """The text is complete. May be called twice."""


class PlainWriter:
    """Writes the text as it comes."""

    def __init__(self) -> None:
        self._is_open = False

    def feed(self, text: str) -> None:
        """Write more of the text."""
        write(text, end="")
        self._is_open = (bool(text) and not text.endswith("\n")) or (self._is_open and not text)

    def end(self) -> None:
        """End the line, if there is one that has not ended."""
        if self._is_open:
            write("")
        self._is_open = False


class MessagePrinter:
    """Prints messages, whole or in parts. `end` prints what was not complete."""

    def __init__(self, answers: AnswerWriter) -> None:
        self._answers = answers
        self._part: tuple[Any, ...] | None = None
        self._text = ""
        self._calls: dict[str, dict[str, str]] = {}

    def show(self, message: Mapping[str, Any]) -> None:
        """Print a message, or keep a part until it is complete."""
        kind = message.get("message_type")
        part = (kind, message.get("otid") or message.get("id"))
        if part != self._part:
            self.end()
            self._part = part
        match kind:
            case "assistant_message":
                self._answers.feed(text_of(message.get("content")))
            case "reasoning_message":
                self._text += message.get("reasoning") or ""
            case "tool_call_message" | "approval_request_message":
                for call in calls_of(message):
                    self._add(call)
            case "tool_return_message":
                mark = "→" if message.get("status") == "success" else "✗"
                say(one_line(f"{mark} {text_of(message.get('tool_return'))}"), dim=True)

    def end(self) -> None:
        """Print what is complete now: a part of another message has come, or the run has ended."""
        kind, self._part = self._part[0] if self._part else None, None
        self._answers.end()
        if self._text:
            say(one_line(f"~ {self._text}"), dim=True)
        mark = "?" if kind == "approval_request_message" else "*"
        for call in self._calls.values():
            say(one_line(f"{mark} {call_text(call)}"), dim=True)
        self._text, self._calls = "", {}

    def _add(self, call: Mapping[str, Any]) -> None:
        known = self._calls.setdefault(
            call.get("tool_call_id") or "", {"name": "", "arguments": ""}
        )
        for field in known:
            known[field] += call.get(field) or ""


def calls_of(message: Mapping[str, Any]) -> list[Any]:
    """The tool calls of a message; a part of one has a single call."""
    calls = message.get("tool_calls") or message.get("tool_call") or []
    return list(calls) if isinstance(calls, list) else [calls]


def call_text(call: Mapping[str, Any]) -> str:
    """`name(argument=value, ...)`, or the arguments as they are where they are no JSON object."""
    try:
        arguments = json.loads(call.get("arguments") or "{}")
        shown = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items()
        )
    except (ValueError, AttributeError):
        shown = str(call.get("arguments"))
    return f"{call.get('name')}({shown})"


def text_of(content: Any) -> str:
    """The text of a message's content, which may be in parts."""
    match content:
        case str():
            return content
        case list():
            return "".join(text_of(part.get("text") or "") for part in content)
        case None:
            return ""
        case _:
            return json.dumps(content, ensure_ascii=False)


def one_line(text: str) -> str:
    """A text in one line, cut at the width of the terminal, if there is one."""
    columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else LINE_CHARACTERS_MAX
    width = max(columns - len(INDENT) - 1, LINE_CHARACTERS_MIN)
    line = " ".join(text.split())
    return INDENT + (line if len(line) <= width else line[: width - 1] + "…")
