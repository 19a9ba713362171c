"""Where each key and value of a TOML document stands. `tomllib` gives values without places, and
`tomlkit` drops them, so this reads the document beside it, and only that far.

It takes a little more than TOML is, never less: where it stops at an error, `tomllib` stops there,
or before. It takes time in proportion to the text, and `tomllib` does so within its bounds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from tomllib import loads

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACES = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]++|\\.)*+"')
_LITERAL = re.compile(r"'[^'\n]*'")
_BASIC_LINES = re.compile(r'"""(?:[^"\\]++|\\[\s\S]|"{1,2}(?!"))*+"{3,5}')
_LITERAL_LINES = re.compile(r"'''(?:[^']++|'{1,2}(?!'))*+'{3,5}")
_PLAIN = re.compile(r"[^,\]\}#\n]+")
_STRINGS = (_BASIC_LINES, _LITERAL_LINES, _BASIC, _LITERAL)
VALUES_MAX = 100_000
DEPTH_MAX = 32
DIGITS_MAX = 4_300  # as of Python's whole numbers
LONG_STRING_CHARS = 500


class NotToml(Exception):
    """The text stops being TOML; `tomllib` says why. `offset` is where its last value begins."""

    def __init__(self, offset: int = 0) -> None:
        super().__init__("the text is no TOML")
        self.offset = offset


class TooMuch(Exception):
    """The document is too deep or has too many values; `offset` is where."""

    def __init__(self, words: str, offset: int) -> None:
        super().__init__(words)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the text: both numbers count from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Positions:
    """Where keys and values of a document stand, by their paths from its root."""

    line_starts: list[int]
    keys: dict[Path, int] = field(default_factory=dict)
    values: dict[Path, int] = field(default_factory=dict)
    long_strings: list[tuple[int, int]] = field(default_factory=list)

    def place(self, offset: int) -> Place:
        """The place of a character."""
        line = bisect_right(self.line_starts, offset)
        return Place(line, offset - self.line_starts[line - 1] + 1)

    def of_key(self, path: Path) -> Place:
        """The place of a key, or of the nearest table around it."""
        return self._nearest(path, self.keys, self.values)

    def of_value(self, path: Path) -> Place:
        """The place of a value, or of the nearest table around it."""
        return self._nearest(path, self.values, self.keys)

    def _nearest(self, path: Path, *tables: dict[Path, int]) -> Place:
        for length in range(len(path), 0, -1):
            for table in tables:
                if path[:length] in table:
                    return self.place(table[path[:length]])
        return Place(1, 1)


def line_starts(text: str) -> list[int]:
    """Where each line of a text begins."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def positions_of(text: str) -> Positions:
    """Where the keys and values of a document stand. Raises NotToml and TooMuch."""
    scan = _Scan(text, Positions(line_starts(text)))
    try:
        return scan.document()
    except (IndexError, ValueError, NotToml):
        raise NotToml(scan.begin) from None


def with_literal_strings(text: str, positions: Positions) -> str:
    """The same document, as long as it was, with long texts as literal ones where that means the
    same: `tomllib` reads those many times faster."""
    parts, end = [], 0
    for begin, behind in positions.long_strings:
        body = text[begin + 3 : behind - 3]
        if "\\" in body or "'''" in body or body.endswith(("'", '"')):
            continue
        parts += [text[end:begin], "'''", body, "'''"]
        end = behind
    return "".join([*parts, text[end:]])


class _Scan:
    """One reading of a document from its beginning to its end."""

    def __init__(self, text: str, positions: Positions) -> None:
        self.text = text
        self.at = 0
        self.found = positions
        self.tables_of_array: dict[Path, int] = {}
        self.values = 0
        self.begin = 0  # of the latest value

    def document(self) -> Positions:
        table: Path = ()
        while True:
            self.skip(_BLANK)
            if self.at >= len(self.text):
                return self.found
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def header(self) -> Path:
        """Read `[a.b]` or `[[a.b]]`; returns the path of the table."""
        begin = self.at
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        keys = [key for key, _ in self.dotted_key()]
        self.expect("]]" if is_array else "]")
        path = self.resolve(keys[:-1])
        last = (*path, keys[-1])
        if is_array:
            index = self.tables_of_array.get(last, -1) + 1
            self.tables_of_array[last] = index
            self.found.keys.setdefault(last, begin)
            last = (*last, index)
        else:
            last = self.resolve(keys)
        self.found.keys.setdefault(last, begin)
        return last

    def resolve(self, keys: list[str]) -> Path:
        """The path of dotted keys of a header: within the latest table of each array."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self.tables_of_array:
                path = (*path, self.tables_of_array[path])
        return path

    def pair(self, table: Path) -> None:
        """Read one `a.b = value` of a table."""
        path = table
        for key, offset in self.dotted_key():
            path = (*path, key)
            self.found.keys.setdefault(path, offset)
        self.skip(_SPACES)
        self.expect("=")
        self.skip(_SPACES)
        self.value(path)

    def dotted_key(self) -> list[tuple[str, int]]:
        """The parts of a key, and where each stands."""
        parts: list[tuple[str, int]] = []
        while True:
            self.skip(_SPACES)
            begin = self.at
            parts.append((self.key(), begin))
            if len(parts) > DEPTH_MAX:
                raise TooMuch(f"tables and lists have more than {DEPTH_MAX} levels", begin)
            self.skip(_SPACES)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def key(self) -> str:
        for pattern in (_BARE_KEY, _BASIC, _LITERAL):
            match = pattern.match(self.text, self.at)
            if match:
                self.at = match.end()
                return match[0] if pattern is _BARE_KEY else _string(match[0])
        raise NotToml

    def expect(self, character: str) -> None:
        """Go behind a character that has to be here."""
        if not self.text.startswith(character, self.at):
            raise NotToml
        self.at += len(character)

    def value(self, path: Path) -> None:
        self.values += 1
        self.begin = self.at
        if len(path) > DEPTH_MAX:
            raise TooMuch(f"tables and lists have more than {DEPTH_MAX} levels", self.at)
        if self.values > VALUES_MAX:
            raise TooMuch(f"the file has more than {VALUES_MAX} values", self.at)
        self.found.values[path] = self.at
        character = self.text[self.at]
        if character == "[":
            self.array(path)
        elif character == "{":
            self.inline_table(path)
        elif character in "\"'":
            self.string()
        else:
            plain = _PLAIN.match(self.text, self.at)
            if plain is None:
                raise NotToml
            self.at = plain.end()
            self.check_number(plain[0].strip())

    def check_number(self, written: str) -> None:
        """Stop at a whole number of more digits than `tomllib` reads: it does not say where."""
        if len(written) > DIGITS_MAX and written.lstrip("+-").replace("_", "").isdecimal():
            raise NotToml

    def string(self) -> None:
        for pattern in _STRINGS:
            match = pattern.match(self.text, self.at)
            if match:
                if pattern is _BASIC_LINES and match.end() - self.at > LONG_STRING_CHARS:
                    self.found.long_strings.append((self.at, match.end()))
                self.at = match.end()
                return
        raise NotToml

    def array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self.skip(_BLANK)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.value((*path, index))
            index += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self.skip(_BLANK)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.pair(path)


def _string(quoted: str) -> str:
    """The text of a quoted key."""
    if "\\" not in quoted:
        return quoted[1:-1]
    return str(loads(f"k = {quoted}")["k"])
