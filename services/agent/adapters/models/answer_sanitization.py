"""A model's text in a form that can be stored: Postgres has no NUL, UTF-8 no half of a pair."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from services.agent.adapters.models.ports import OddAnswer

HIGH_HALF = re.compile(r"[\ud800-\udbff]\Z")
PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
SURROGATE = re.compile(r"[\ud800-\udfff]")

# Escapes of JSON for the same, and other escapes, which may hold a backslash that escapes nothing.
ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
ESCAPES = re.compile(
    r"\\u0000|(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.",
    re.DOTALL,
)
# Where texts of JSON begin and end, and what does not end them; and what may not stand in them.
MARKS = re.compile(r'(\\.|")', re.DOTALL)
CONTROLS = {code: json.dumps(chr(code))[1:-1] for code in range(32)}

# The tags around thoughts, written in any case, and how much of a text is held back where one may
# stand.
THINKING_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[think]": "[/think]",
}
END_TAGS = re.compile(r"</(?:think|thinking|thought|seed:think)>|\[/think\]", re.IGNORECASE)
HELD_CHARS_MAX = 100
TAG_CHARS_MAX = max(map(len, THINKING_TAGS))

# Where such an escape starts, or may turn out to start with the next chunk.
PERHAPS_ESCAPED = re.compile(rf"{ESCAPED.pattern}|\\(?:u(?:0{{0,3}}|[dD]))?\Z")


def storable(text: str) -> str:
    """The text without NULs, and with � for each half of a surrogate pair."""
    if SURROGATE.search(text):
        text = PAIR.sub(lambda pair: whole(pair[0]), text)
    return SURROGATE.sub("�", text.replace("\x00", ""))


def whole(pair: str) -> str:
    """The character of two halves."""
    return pair.encode("utf-16", "surrogatepass").decode("utf-16")


def storable_arguments(text: str) -> str:
    """The arguments of a tool call, where the same may hide in escapes; text that is not JSON
    stays as it is, so that the model is told."""
    text = storable(text)
    if not ESCAPED.search(text):
        return text
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    return ESCAPES.sub(lambda escape: storable_escape(escape[0]), text)


def storable_escape(escape: str) -> str:
    """The escape itself if it can be stored, else the character that replaces it."""
    if not ESCAPED.match(escape):
        return escape
    return storable(str(json.loads(f'"{escape}"')))


class TextChunks:
    """Text that comes in chunks: each is storable, and halves of a pair that were torn apart are
    put together."""

    def __init__(self) -> None:
        self.held = ""

    def add(self, chunk: str) -> str:
        """The text that can be shown with this chunk."""
        text = self.held + chunk
        self.held = text[-1:] if HIGH_HALF.search(text) else ""
        return storable(text[: len(text) - len(self.held)])

    def rest(self) -> str:
        """The text that was held back for a chunk that never came."""
        text, self.held = storable(self.held), ""
        return text


class ControlEscapes:
    """JSON that comes in chunks, whose texts may have control characters as they are."""

    def __init__(self) -> None:
        self.is_quoted = False
        self.is_open = False  # whether the last character was a backslash that escapes the next

    def escape(self, chunk: str) -> str:
        """A chunk with escapes for the control characters in its texts."""
        first = chunk[:1] if self.is_open else ""
        parts = MARKS.split(chunk[len(first) :])
        for place, part in enumerate(parts):
            if place % 2:
                self.is_quoted = self.is_quoted != (part == '"')
            elif self.is_quoted and part:
                parts[place] = part.translate(CONTROLS)
        self.is_open = (self.is_open and not chunk) or parts[-1].endswith("\\")
        return first + "".join(parts)


class ThinkingTags:
    """A text in chunks that may begin with thoughts between tags: so models write them whose server
    does not tell them apart. White space around the thoughts is left out."""

    def __init__(self) -> None:
        self.place: Literal["before", "inside", "behind", "words"] = "before"
        self.held = ""
        self.has_thought = False
        self.end = ""  # the tag behind the thoughts

    def read(self, chunk: str) -> tuple[str, str]:
        """The text of this chunk: thoughts, and words."""
        text, self.held, thought = self.held + chunk, "", ""
        if self.place == "before":
            begins = text.lstrip().removeprefix("\ufeff")
            head = begins[:TAG_CHARS_MAX].lower()
            tag = next((tag for tag in THINKING_TAGS if head.startswith(tag)), "")
            may_begin = any(tag.startswith(head) for tag in THINKING_TAGS)
            if not tag and may_begin and len(text) <= HELD_CHARS_MAX:
                self.held = text
                return "", ""
            self.place = "inside" if tag else "words"
            self.end = THINKING_TAGS.get(tag, "")
            text = begins[len(tag) :] if tag else text
        if self.place == "inside":
            ends = (tag for tag in END_TAGS.finditer(text) if tag[0].lower() == self.end)
            end = next(ends, None)
            thought, text = (text[: end.start()], text[end.end() :]) if end else (text, "")
            self.place = "behind" if end else "inside"
            thought = self.thought_of(thought, is_whole=end is not None)
        if self.place == "behind":
            text = text.lstrip()
            self.place = "words" if text else "behind"
        return thought, text

    def thought_of(self, text: str, *, is_whole: bool) -> str:
        """The part of the thoughts to show; of a part without the end of it, which may be a tag."""
        text = text if self.has_thought else text.lstrip()
        kept = text.rstrip()
        if not is_whole:
            tail, end = text[-len(self.end) :].lower(), self.end
            cut = next((n for n in range(len(end), 0, -1) if tail.endswith(end[:n])), 0)
            shown = text[: len(text) - cut]
            kept = shown.rstrip()
            kept = kept if len(shown) - len(kept) <= HELD_CHARS_MAX else shown
            self.held = text[len(kept) :]
        self.has_thought = self.has_thought or bool(kept)
        return kept

    def rest(self) -> tuple[str, str]:
        """The text that was held back for a tag that never came: thoughts, and words."""
        text, self.held = self.held, ""
        return ("", text) if self.place == "before" else (text.rstrip(), "")


class ArgumentChunks:
    """The same for arguments, where control characters in texts become escapes, as JSON wants them.
    From an escape on that has to go, all is held back: whether it goes depends on whether the whole
    turns out to be JSON."""

    def __init__(self) -> None:
        self.text = TextChunks()
        self.controls = ControlEscapes()
        self.shown: list[str] = []
        self.held: list[str] = []
        self.escaped = False  # then `held` begins with an escape; else it may turn out to

    def add(self, chunk: str) -> str:
        """The text that can be shown with this chunk."""
        self.held.append(self.controls.escape(self.text.add(chunk)))
        if self.escaped:
            return ""
        text = "".join(self.held)
        found = PERHAPS_ESCAPED.search(text)
        start = found.start() if found else len(text)
        self.escaped = found is not None and ESCAPED.match(text, start) is not None
        self.shown.append(text[:start])
        self.held = [text[start:]]
        return text[:start]

    def rest(self) -> str:
        """The text left to show when the call is whole; without arguments that is `{}`."""
        shown = "".join(self.shown)
        whole = "".join([shown, *self.held, self.text.rest()])
        return storable_arguments(whole or "{}")[len(shown) :]


SHOWN_CHARS_MAX = 60
# Where a part of a content has its text.
TEXT_FIELDS = ("text", "thinking", "reasoning", "content", "summary", "value")


def event_of(data: bytes | str) -> dict[str, Any]:
    """An event of an answer, or a whole one, which may stand in a list; empty if it is JSON of
    another kind. Raises OddAnswer."""
    try:
        return next(iter(entries(json.loads(data, strict=False))), {})
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
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


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
