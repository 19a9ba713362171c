"""JSON read piece by piece: a file is never in memory as a whole, only the value that is read.

`values` yields each value with its place. It goes into the objects and lists that `goes_into`
names, and yields an `Opened` for each of them; any other value comes whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from io import StringIO
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import TextIO

from libs.contracts.bus_messages import Json
from libs.contracts.letta.request_size_limits import INTEGER_DIGITS_MAX, walk
from libs.contracts.storable_text import storable
from services.api.v1.agent_file.entry_problems import AgentFileInvalid, Path, entry_name

FILE_CHARS_MAX = 256 << 20
VALUE_CHARS_MAX = 16 << 20  # of a value that is read whole, e.g. the text of a file
VALUE_DEPTH_MAX = 24
VALUE_ITEMS_MAX = 200_000
KEYS_MAX = 1_000  # of an object that is gone into
CHUNK_CHARS = 1 << 20

WHITESPACE = re.compile(r"[ \t\n\r]*")
# What may stand at the end of what was read, behind a number that goes on.
CUT_NUMBER = {"", ".", "e", "E", "e+", "e-", "E+", "E-"}
SUSPECT = re.compile(r"\\u(0000|[dD][89a-fA-F])|\x00")


class Opened(Enum):
    """A container that the scanner goes into; its values follow."""

    OBJECT = "an object"
    LIST = "a list"


def bounded_integer(digits: str) -> int:
    """An integer, unless it has more digits than any field takes."""
    if len(digits) > INTEGER_DIGITS_MAX:
        raise AgentFileInvalid([f"a number has more than {INTEGER_DIGITS_MAX} digits"])
    return int(digits)


def finite_number(text: str) -> float:
    """A number, unless it is too large for one."""
    number = float(text)
    if not isfinite(number):
        raise AgentFileInvalid(["a number is larger than 1.8e308"])
    return number


def refuse_constant(name: str) -> float:
    """JSON has no NaN and no Infinity."""
    raise AgentFileInvalid([f"{name} is no JSON: write a number or null"])


DECODER = JSONDecoder(
    parse_int=bounded_integer, parse_float=finite_number, parse_constant=refuse_constant
)


class JsonFileScanner:
    """Reads one JSON document from a text file."""

    def __init__(self, text: TextIO, goes_into: Callable[[Path], bool]) -> None:
        self.text = text
        self.goes_into = goes_into
        self.buffer = ""
        self.at = 0
        self.read_chars = 0
        self.ended = False

    def values(self) -> Iterator[tuple[Path, Json | Opened]]:
        """Every value with its place. A text that is itself a JSON document, as some exports are,
        is read in its place."""
        if self.peek() == '"':
            inner = self.value(())
            self.expect_end()
            assert isinstance(inner, str), "what begins with a quotation mark is a text"
            yield from JsonFileScanner(StringIO(inner), self.goes_into).document()
        else:
            yield from self.document()

    def document(self) -> Iterator[tuple[Path, Json | Opened]]:
        """Every value of a document that is an object."""
        if self.peek() != "{":
            raise self.syntax_error((), "an agent file is a JSON object")
        yield from self.walk(())
        self.expect_end()

    def walk(self, path: Path) -> Iterator[tuple[Path, Json | Opened]]:
        """The value at a place, gone into or whole."""
        first = self.peek()
        if first == "{" and self.goes_into(path):
            yield path, Opened.OBJECT
            for key in self.keys(path):
                yield from self.walk((*path, key))
        elif first == "[" and self.goes_into(path):
            yield path, Opened.LIST
            for index in self.indices(path):
                yield from self.walk((*path, index))
        else:
            yield path, self.value(path)

    def keys(self, path: Path) -> Iterator[str]:
        """The keys of an object; the caller reads the value behind each."""
        seen: set[str] = set()
        self.at += 1
        if self.took("}"):
            return
        while True:
            key = self.value(path) if self.peek() == '"' else None
            if not isinstance(key, str) or not self.took(":"):
                raise self.syntax_error(path, "a key in quotation marks and a colon are missing")
            if key in seen or len(seen) >= KEYS_MAX:
                why = f"`{key[:50]}` stands twice" if key in seen else f"over {KEYS_MAX} keys"
                raise AgentFileInvalid([f"{entry_name(path)}: {why}"])
            seen.add(key)
            yield key
            if self.took("}"):
                return
            if not self.took(","):
                raise self.syntax_error(path, "a comma or a closing brace is missing")

    def indices(self, path: Path) -> Iterator[int]:
        """The places of a list; the caller reads the value at each."""
        self.at += 1
        if self.took("]"):
            return
        index = 0
        while True:
            yield index
            index += 1
            if self.took("]"):
                return
            if not self.took(","):
                raise self.syntax_error((*path, index), "a comma or a closing bracket is missing")

    def value(self, path: Path) -> Json:
        """The next value as a whole."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self.buffer, self.at)
            except JSONDecodeError as problem:
                if self.fill(path):
                    continue
                raise self.syntax_error(path, problem.msg) from None
            except RecursionError:
                raise too_deep(path) from None
            except AgentFileInvalid as unfit:
                raise AgentFileInvalid([f"{entry_name(path)}: {unfit}"]) from None
            unread = self.buffer[end : end + 3]
            if unread in CUT_NUMBER and not isinstance(value, str) and self.fill(path):
                continue  # a number may go on
            if end - self.at > VALUE_CHARS_MAX:
                raise too_long(path)
            start, self.at = self.at, end
            return self.value_within_limits(path, value, start)

    def value_within_limits(self, path: Path, value: Json, start: int) -> Json:
        """A value that is neither too deep nor too full, as a database can keep it."""
        opened = self.buffer.count("{", start, self.at) + self.buffer.count("[", start, self.at)
        items = opened + self.buffer.count(",", start, self.at)
        if opened > VALUE_DEPTH_MAX or items > VALUE_ITEMS_MAX:
            for count, (place, _) in enumerate(walk(value)):
                if len(place) > VALUE_DEPTH_MAX:
                    raise too_deep(path)
                if count > VALUE_ITEMS_MAX:
                    raise AgentFileInvalid(
                        [f"{entry_name(path)}: at most {VALUE_ITEMS_MAX:,} keys and items"]
                    )
        suspect = SUSPECT.search(self.buffer, start, self.at)
        return storable_json(value) if suspect else value

    def peek(self) -> str:
        """The next character that is no white space, which is not taken; empty at the end."""
        while True:
            space = WHITESPACE.match(self.buffer, self.at)
            self.at = space.end() if space else self.at
            if self.at < len(self.buffer):
                return self.buffer[self.at]
            if not self.fill(()):
                return ""

    def took(self, character: str) -> bool:
        """Take a character, if it is the next."""
        is_next = self.peek() == character
        self.at += is_next
        return is_next

    def fill(self, path: Path) -> bool:
        """Read more of the file; says whether there was more. The more is waited for, the more is
        read at once, so that a long value is not decoded again and again."""
        waiting = len(self.buffer) - self.at
        if self.ended:
            return False
        if waiting > VALUE_CHARS_MAX:
            raise too_long(path)
        try:
            more = self.text.read(max(CHUNK_CHARS, waiting))
        except UnicodeDecodeError as problem:
            raise AgentFileInvalid([f"the file is no UTF-8: {problem.reason}"]) from None
        self.read_chars += len(more)
        if self.read_chars > FILE_CHARS_MAX:
            raise AgentFileInvalid([f"the file has more than {FILE_CHARS_MAX:,} characters"])
        self.buffer, self.at = self.buffer[self.at :] + more, 0
        self.ended = not more
        return bool(more)

    def expect_end(self) -> None:
        """Nothing may follow the document."""
        if self.peek():
            raise self.syntax_error((), "something follows the JSON document")

    def syntax_error(self, path: Path, why: str) -> AgentFileInvalid:
        """The error of what is no JSON."""
        place = self.read_chars - len(self.buffer) + self.at
        return AgentFileInvalid([f"{entry_name(path)}: {why} (character {place:,})"])


def too_deep(path: Path) -> AgentFileInvalid:
    """The error of a value with more levels than may be."""
    return AgentFileInvalid([f"{entry_name(path)}: at most {VALUE_DEPTH_MAX} levels"])


def too_long(path: Path) -> AgentFileInvalid:
    """The error of a value with more characters than may be."""
    return AgentFileInvalid(
        [f"{entry_name(path)}: at most {VALUE_CHARS_MAX:,} characters in one value"]
    )


def storable_json(value: Json) -> Json:
    """A value without the characters that no database keeps."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_json(item) for item in value]
        case dict():
            return {storable(key): storable_json(item) for key, item in value.items()}
    return value
