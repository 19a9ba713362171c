"""Reads the arguments of a call as they come: what of them are thoughts, what is said to the user,
and the rest as it is recorded.

Whole replies are read by the same code as streamed ones, however they are cut, so that what clients
received of a call is always the beginning of what is recorded of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from libs.contracts.bus_messages import Json, JsonObject

SPACE = re.compile(r"[ \t\r\n]*")
STRING_ENDS = re.compile(r'["\\]')
RAW_ENDS = re.compile(r'[",{}\[\]]')
ESCAPED: Mapping[str, str] = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HEX = re.compile(r"[0-9a-fA-F]{4}")
REPLACEMENT = "\ufffd"

Added = Callable[[Mapping[str, str]], JsonObject]


def nothing_added(_: Mapping[str, str]) -> JsonObject:
    """No arguments besides the model's."""
    return {}


@dataclass(slots=True)
class ReadArguments:
    """The parsed part of the arguments: thoughts, words to the user, and the rest as JSON."""

    thoughts: str = ""
    words: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentNames:
    """Which arguments are no ordinary ones: that with `thoughts`, that with `words`, and those that
    are left out of the rest, in the place of which it ends with what is `added`, given the JSON of
    those. A call that is `held` may be shown as words instead, which is known when it is whole."""

    thoughts: str = ""
    words: str = ""
    left_out: Container[str] = frozenset()
    added: Added = nothing_added
    held: bool = False


@dataclass(slots=True)
class StringDecoder:
    """The characters of a JSON string, from chunks cut anywhere. What is no escape is kept without
    its backslash, and a lone surrogate becomes the replacement character."""

    escape: str = ""
    high: str = ""

    def read(self, text: str, start: int) -> tuple[str, int, bool]:
        """The characters from there on, where they end, and whether the string ends there."""
        found: list[str] = []
        while start < len(text):
            if self.escape:
                found.append(self.decode_escape(text[start]))
                start += 1
                continue
            end = STRING_ENDS.search(text, start)
            stop = end.start() if end else len(text)
            if stop > start:
                found.append(self.lone_surrogate() + text[start:stop])
            if end is None:
                return "".join(found), stop, False
            start = stop + 1
            if text[stop] == '"':
                found.append(self.lone_surrogate())
                return "".join(found), start, True
            self.escape = "\\"
        return "".join(found), start, False

    def decode_escape(self, character: str) -> str:
        """The text of an escape with its next character; empty until the escape is whole."""
        self.escape += character
        if self.escape[1] != "u":
            self.escape = ""
            return self.lone_surrogate() + ESCAPED.get(character, character)
        if len(self.escape) < 6:
            return ""
        digits, self.escape = self.escape[2:], ""
        if HEX.fullmatch(digits) is None:
            return self.lone_surrogate() + "u" + digits
        return self.decode_unit(int(digits, 16))

    def decode_unit(self, unit: int) -> str:
        """The character of a UTF-16 unit; empty for the first half of a surrogate pair."""
        if 0xDC00 <= unit <= 0xDFFF and self.high:
            high, self.high = ord(self.high), ""
            return chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00)
        before = self.lone_surrogate()
        if 0xD800 <= unit <= 0xDBFF:
            self.high = chr(unit)
            return before
        return before + (REPLACEMENT if 0xDC00 <= unit <= 0xDFFF else chr(unit))

    def lone_surrogate(self) -> str:
        """The stand-in for half of a pair that is followed by something else."""
        high, self.high = self.high, ""
        return REPLACEMENT if high else ""


@dataclass(slots=True)
class RawValue:
    """Where a JSON value ends, as far as brackets and quotes say."""

    depth: int = 0
    quoted: bool = False
    escaped: bool = False

    def read(self, text: str, start: int) -> tuple[int, bool]:
        """Where the value ends, or the text; and whether that is the value's end."""
        at = start
        while at < len(text):
            if self.escaped:
                self.escaped = False
                at += 1
                continue
            found = (STRING_ENDS if self.quoted else RAW_ENDS).search(text, at)
            if found is None:
                return len(text), False
            at, character = found.end(), found[0]
            if character == '"':
                self.quoted = not self.quoted
            elif character == "\\":
                self.escaped = True
            elif character in "[{":
                self.depth += 1
            elif self.depth and character in "]}":
                self.depth -= 1
            elif not self.depth and character in ",}":
                return found.start(), True
        return len(text), False


@dataclass(slots=True)
class ReadChunks:
    """The same in chunks: putting texts together one by one would copy them again and again."""

    thoughts: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    def join(self) -> ReadArguments:
        """The chunks of each kind as one text."""
        return ReadArguments("".join(self.thoughts), "".join(self.words), "".join(self.rest))

    def add(self, read: ReadArguments) -> None:
        """Add the texts of one chunk."""
        self.thoughts.append(read.thoughts)
        self.words.append(read.words)
        self.rest.append(read.rest)


@dataclass(slots=True)
class StreamingArgumentParser:
    """Reads one call. `whole` is all that was read so far, `said` whether words to the user were
    among it; what is no JSON object is passed on from where it ceases to be one."""

    names: ArgumentNames
    said: bool = False
    read_chars: int = 0
    state: str = "start"
    key: list[str] = field(default_factory=list)
    name: str = ""  # of the argument whose value is read
    value: RawValue = field(default_factory=RawValue)
    string: StringDecoder = field(default_factory=StringDecoder)
    sink: str = ""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    thought: bool = False
    opened: bool = False  # whether the rest has its bracket
    fresh: ReadChunks = field(default_factory=ReadChunks)
    known: ReadChunks = field(default_factory=ReadChunks)

    @property
    def whole(self) -> ReadArguments:
        """All that was read so far."""
        return self.known.join()

    def read(self, text: str) -> ReadArguments:
        """The parsed parts of the next chunk."""
        self.fresh = ReadChunks()
        self.read_chars += len(text)
        at = 0
        while at < len(text):
            at = getattr(self, f"in_{self.state}")(text, at)
        read = self.fresh.join()
        self.known.add(read)
        return read

    def finish(self, arguments: str) -> ReadArguments:
        """Read what of the whole arguments was not read yet; returns all of them."""
        self.read(arguments[self.read_chars :])
        if self.state not in ("start", "closed") and not self.opened:
            self.known.rest.append(self.bracket())
        return self.whole

    # One method for each state: reads on from a place, returns where the next state begins.

    def in_start(self, text: str, at: int) -> int:
        """Read up to the object's opening brace."""
        at = past_space(text, at)
        if at < len(text):
            if text[at] != "{":
                return self.go_on_as_text(text, at)
            self.state = "first"
            at += 1
        return at

    def in_first(self, text: str, at: int) -> int:
        """Behind the bracket, or a comma: a key, or the end."""
        at = past_space(text, at)
        if at == len(text):
            return at
        if text[at] == "}":
            return self.close(at)
        if text[at] != '"':
            return self.go_on_as_text(text, at)
        self.state, self.key = "key", []
        self.string = StringDecoder()
        return at + 1

    def in_key(self, text: str, at: int) -> int:
        """Read on in a key."""
        characters, at, ended = self.string.read(text, at)
        self.key.append(characters)
        if ended:
            self.state, self.name = "colon", "".join(self.key)
        return at

    def in_colon(self, text: str, at: int) -> int:
        """Read the colon after a key."""
        at = past_space(text, at)
        if at < len(text):
            if text[at] != ":":
                self.begin_member()
                return self.go_on_as_text(text, at)
            self.state = "value"
            at += 1
        return at

    def in_value(self, text: str, at: int) -> int:
        """Read up to a value, and decide by its key where the value goes."""
        at = past_space(text, at)
        if at == len(text):
            return at
        self.value = RawValue()
        self.sink, quoted = self.sink_of(text[at])
        if quoted:
            self.state, self.string = "string", StringDecoder()
            return at + 1
        self.state = "raw"
        if self.sink == "rest":
            self.begin_member()
        else:
            self.left_out[self.name] = []
        return at

    def sink_of(self, character: str) -> tuple[str, bool]:
        """Where the value goes that begins so, and whether its characters are what counts. Of
        arguments with thoughts or words the first one counts."""
        if self.name == self.names.thoughts != "":
            first, self.thought = not self.thought, True
            return ("thoughts", character == '"') if first else ("left_out", False)
        if self.name == self.names.words != "":
            if self.said:
                return "left_out", False
            self.said = character == '"'
            return ("words", True) if self.said else ("rest", False)
        return ("left_out" if self.name in self.names.left_out else "rest"), False

    def in_string(self, text: str, at: int) -> int:
        """Read on in a string of thoughts or words."""
        characters, at, ended = self.string.read(text, at)
        if self.sink == "thoughts":
            self.fresh.thoughts.append(characters)
        else:
            self.fresh.words.append(characters)
        if ended:
            self.state = "after"
        return at

    def in_raw(self, text: str, at: int) -> int:
        """Read on in any other value, which is kept as it is written."""
        end, ended = self.value.read(text, at)
        raw = text[at:end]
        (self.fresh.rest if self.sink == "rest" else self.left_out[self.name]).append(raw)
        if ended:
            self.unquoted_thoughts()
            self.state = "after"
        return end

    def unquoted_thoughts(self) -> None:
        """Thoughts that are no text are shown as they are written, unless they are none."""
        if self.sink == "thoughts":
            written = "".join(self.left_out.pop(self.name)).strip()
            self.fresh.thoughts.append("" if written == "null" else written)

    def in_after(self, text: str, at: int) -> int:
        """Read the comma or the closing brace after a value."""
        at = past_space(text, at)
        if at == len(text):
            return at
        if text[at] == "}":
            return self.close(at)
        if text[at] != ",":
            return self.go_on_as_text(text, at)
        self.state = "first"
        return at + 1

    def in_closed(self, text: str, at: int) -> int:
        """Skip white space after the object; anything else is passed on as text."""
        at = past_space(text, at)
        return self.go_on_as_text(text, at) if at < len(text) else at

    def in_broken(self, text: str, at: int) -> int:
        """Where it is no JSON any more."""
        self.fresh.rest.append(text[at:])
        return len(text)

    def begin_member(self) -> None:
        """Write the key of what is kept."""
        self.fresh.rest.append(f"{self.separator()}{json_text(self.name)}: ")

    def separator(self) -> str:
        """The text before an argument."""
        return ", " if self.opened else self.bracket()

    def bracket(self) -> str:
        """The text that the rest begins with."""
        self.opened = True
        return "{"

    def close(self, at: int) -> int:
        """The end of the object, with what is added."""
        left_out = {name: "".join(chunks) for name, chunks in self.left_out.items()}
        for name, value in self.names.added(left_out).items():
            self.fresh.rest.append(f"{self.separator()}{json_text(name)}: {json_text(value)}")
        self.fresh.rest.append("}" if self.opened else self.bracket() + "}")
        self.state = "closed"
        return at + 1

    def go_on_as_text(self, text: str, at: int) -> int:
        """Pass on the rest as text: it is no JSON object. An object that was begun stays open."""
        if self.state not in ("start", "closed") and not self.opened:
            self.fresh.rest.append(self.bracket())
        self.state = "broken"
        return self.in_broken(text, at)


def past_space(text: str, at: int) -> int:
    """Where the next character is that counts."""
    found = SPACE.match(text, at)
    return found.end() if found else at


def json_text(value: Json) -> str:
    """A value as JSON, not escaped beyond need."""
    return json.dumps(value, ensure_ascii=False)


def value_of(written: str) -> Json:
    """A value as it was written; None where it is no JSON."""
    try:
        value: Json = from_json(written)
    except ValueError:
        return None
    return value
