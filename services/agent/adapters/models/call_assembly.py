"""The tool calls of an answer, put together from chunks that tell in many ways which call they
belong to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from services.agent.adapters.models import answer_assembly
from services.agent.adapters.models.answer_assembly import Assembly
from services.agent.adapters.models.ports import ModelDelta
from services.agent.adapters.models.transport import TooLong
from services.agent.domain.tools.custom_tools import TOOL_ARGUMENTS_CHARS_MAX

# What some servers write for no arguments.
NULL = "null"
STRING_ENDS, BRACKETS = re.compile(r'["\\]'), re.compile(r'["{}\[\]]')


@dataclass(slots=True)
class ObjectReader:
    """Whether chunks are one JSON object. Each is read once: up to where the brackets are even for
    the first time, which is the only end that an object may have."""

    read: int = 0
    depth: int = 0
    quoted: bool = False
    escaped: bool = False
    whole: bool | None = None  # None until the brackets are even

    def is_object(self, chunks: list[str]) -> bool:
        """Whether all chunks are an object, given those of the last time with more behind them."""
        for number in range(self.read, len(chunks)):
            if self.whole is not None:
                self.whole = self.whole and not chunks[number].strip()
            elif self.is_even_in(chunks[number]):
                self.whole = is_object("".join(chunks[: number + 1]))
        self.read = len(chunks)
        return bool(self.whole)

    def is_even_in(self, chunk: str) -> bool:
        """Whether the last open bracket is closed in the next chunk."""
        at = int(self.escaped)
        self.escaped = self.escaped and not chunk
        while found := (STRING_ENDS if self.quoted else BRACKETS).search(chunk, at):
            at = found.end()
            match found[0]:
                case '"':
                    self.quoted = not self.quoted
                case "\\":
                    self.escaped = at == len(chunk)
                    at += 1
                case "{" | "[":
                    self.depth += 1
                case _:
                    self.depth -= 1
                    if self.depth <= 0:
                        return True
        return False


@dataclass(slots=True)
class PartialCall:
    """A call as far as it was told: `chunks` are those of its arguments, `given` are arguments that
    came as an object, which count if no chunks come."""

    index: object
    id: str
    name: str = ""
    chunks: list[str] = field(default_factory=list)
    given: object = None
    extra: dict[str, Any] = field(default_factory=dict)
    chars: int = 0
    shown: int = 0
    opened: bool = False
    ended: bool = False
    argues: bool = False  # whether arguments came that are more than white space
    reader: ObjectReader = field(default_factory=ObjectReader)

    def add_name(self, name: str) -> None:
        """A name, or a chunk of one: servers repeat the whole as well."""
        if name != self.name and not (self.name and self.argues):
            self.name = (self.name + name)[: answer_assembly.TOOL_NAME_CHARS_MAX]

    def add_arguments(self, arguments: object) -> None:
        """A chunk of the arguments, or all of them."""
        if isinstance(arguments, str):
            # The tool says that they were cut; the run goes on.
            chunk = arguments[: max(TOOL_ARGUMENTS_CHARS_MAX - self.chars, 0)]
            self.chars += len(chunk)
            if chunk:
                self.chunks.append(chunk)
                self.argues = self.argues or not chunk.isspace()
        elif arguments is not None:
            self.given = arguments

    @property
    def text(self) -> str:
        """The arguments that came in chunks."""
        return "".join(self.chunks)

    @property
    def has_begun(self) -> bool:
        """Whether arguments came that can be shown: `null` may turn out to be none."""
        text = "" if self.opened or len(self.chunks) > len(NULL) else self.text.strip()
        return self.opened or len(self.chunks) > len(NULL) or not NULL.startswith(text)

    @property
    def is_whole(self) -> bool:
        """Whether all of the call is there, as far as that can be seen."""
        if self.ended:
            return True
        if not self.chars:
            return bool(self.name and self.given)
        return bool(self.name) and self.reader.is_object(self.chunks)

    def is_continued_by(self, call_id: str, name: str, arguments: object) -> bool:
        """Whether a chunk with the same index, or without any, goes on with this call. A call of
        its own has another id and a name, or a name behind arguments that are whole."""
        if call_id and self.id and call_id != self.id:
            return not name and bool(arguments)
        return not (name and self.name and self.is_whole)


class CallAssembly:
    """Finds the call of each chunk, and gives the calls to the assembly one after the other: the
    first that is not whole as its arguments come, those behind it when it is."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.calls: list[PartialCall] = []
        self.done = 0

    def add(
        self,
        *,
        index: object,
        call_id: str,
        name: str,
        arguments: object,
        apart: bool = False,
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[ModelDelta]:
        """A chunk of a call; `apart` says that it is a call of its own."""
        found = None if apart else self.find(index, call_id, name, arguments)
        call = found or self.begin(index)
        call.id = call.id or call_id
        call.add_name(name)
        call.add_arguments(arguments)
        call.extra |= extra
        return self.advance()

    def begin(self, index: object) -> PartialCall:
        """One more call. Raises TooLong."""
        if len(self.calls) >= answer_assembly.CALLS_MAX:
            raise TooLong(f"more than {answer_assembly.CALLS_MAX} tool calls")
        self.calls.append(PartialCall(index, ""))
        return self.calls[-1]

    def find(self, index: object, call_id: str, name: str, arguments: object) -> PartialCall | None:
        """The call that a chunk belongs to: the one of its id, else of its index, else the last."""
        behind = self.calls[::-1]
        for call in behind:
            same_place = index is None or call.index is None or call.index == index
            if call_id and call.id == call_id and same_place:
                return call if call.is_continued_by(call_id, name, arguments) else None
        last = behind[0] if behind else None
        if index is None or (last and last.index is None and not call_id and not name):
            same = last
        else:
            same = next((call for call in behind if call.index == index), None)
        if same and same.is_continued_by(call_id, name, arguments):
            return same
        return None

    def end_call(self, index: object) -> list[ModelDelta]:
        """The call of an index is whole; without one the last."""
        for call in self.calls[::-1]:
            if index is None or call.index == index:
                call.ended = True
                break
        return self.advance()

    def close(self) -> list[ModelDelta]:
        """Mark every call as complete; returns the deltas that were held back."""
        for call in self.calls:
            call.ended = True
        return self.advance()

    def advance(self) -> list[ModelDelta]:
        """The deltas that can be shown by now."""
        chunks: list[ModelDelta] = []
        while self.done < len(self.calls):
            call, is_last = self.calls[self.done], self.done + 1 == len(self.calls)
            is_over = call.ended or (not is_last and call.is_whole)
            chunks += self.show(call, is_over=is_over)
            if not is_over:
                break
            chunks += self.assembly.close_call(call.extra or None)
            self.done += 1
        return chunks

    def show(self, call: PartialCall, *, is_over: bool) -> list[ModelDelta]:
        """The unshown rest of a call; its name first, which is there when arguments are."""
        if not is_over and not (call.name and call.has_begun):
            return []
        chunks: list[ModelDelta] = []
        if not call.opened:
            call.opened = True
            chunks += self.assembly.open_call(call.id, call.name)
            if call.text.strip() in ("", NULL):
                call.chunks = [] if call.given is None else [arguments_text(call.given)]
                call.argues, call.reader = bool(call.chunks), ObjectReader()
        for chunk in call.chunks[call.shown :]:
            chunks += self.assembly.argue(chunk)
        call.shown = len(call.chunks)
        return chunks


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def arguments_text(arguments: object) -> str:
    """Arguments that came as an object, as JSON text."""
    return json.dumps(arguments, ensure_ascii=False)
