"""What a model says as text that can be kept: Postgres has no NUL, UTF-8 no half of a pair."""

from __future__ import annotations

import json
import re

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
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return ESCAPES.sub(lambda escape: unescaped(escape[0]), text)


def unescaped(escape: str) -> str:
    """What one escape becomes; most stay."""
    if not ESCAPED.match(escape):
        return escape
    return storable(str(json.loads(f'"{escape}"')))


class TextChunks:
    """Text that comes in chunks: each is storable, and halves of a pair that were torn apart are
    put together."""

    def __init__(self) -> None:
        self.held = ""

    def add(self, chunk: str) -> str:
        """What can be shown with this chunk."""
        text = self.held + chunk
        self.held = text[-1:] if HIGH_HALF.search(text) else ""
        return storable(text[: len(text) - len(self.held)])

    def rest(self) -> str:
        """What was held back for a chunk that never came."""
        text, self.held = storable(self.held), ""
        return text


class ArgumentChunks:
    """The same for arguments. From an escape on that has to go, all is held back: whether it goes
    depends on whether the whole turns out to be JSON."""

    def __init__(self) -> None:
        self.text = TextChunks()
        self.shown: list[str] = []
        self.held: list[str] = []
        self.escaped = False  # then `held` begins with an escape; else it may turn out to

    def add(self, chunk: str) -> str:
        """What can be shown with this chunk."""
        self.held.append(self.text.add(chunk))
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
        """What is left to show when the call is whole; without arguments that is `{}`."""
        shown = "".join(self.shown)
        whole = "".join([shown, *self.held, self.text.rest()])
        return storable_arguments(whole or "{}")[len(shown) :]
