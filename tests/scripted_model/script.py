"""Reads the script that a test writes into its user message.

A directive is a word in capitals with white space (or nothing) before it. `parse` turns the
whole text into steps, one per model reply of the turn: every CALL, CALLS or BADARGS is a step,
and the last step is the text. SLOW, DRIP, USAGE and the faults hold from the step they stand
before, onwards; THINK and REDACTED only for that step. SAY takes the rest of the message, to its
end.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

DEFAULT_TEXT = "Hello from the scripted model."
BROKEN_ARGUMENTS = '{"broken": '
SCRIPTS_CACHED_MAX = 2048

_DIRECTIVE = re.compile(
    r"(?<!\S)(?:(?P<argued>SLOW|DRIP|USAGE|FAIL|CALLS|CALL|BADARGS|THINK|SAY):"
    r"|(?P<counted>HANG|CUT|GARBAGE)(?::(?P<times>\d+))?(?!\S)"
    r"|(?P<bare>ECHO|SYSTEM\?|EMPTY|LENGTH|REDACTED)(?!\S))"
)
_WORD = re.compile(r"[\w-]+")
_COUNT = re.compile(r":(\d+)")
_decoder = json.JSONDecoder()


class BadScript(ValueError):
    """The user message holds a directive that cannot be read; the message says which."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a reply is said to have taken; those read from the cache and written to it
    are a part of the prompt's, those thought with of the completion's."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `arguments` is JSON text; None means: fill what the tool's schema requires."""

    name: str
    arguments: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail. `times` None means always; `index` tells apart the faults of one text."""

    kind: str  # fail, hang, cut, garbage
    code: str
    times: int | None
    index: int


@dataclass(frozen=True, slots=True)
class Step:
    """One model reply: tool calls, or the text when `calls` is empty."""

    calls: tuple[Call, ...]
    slow_ms: int
    drip_ms: int
    faults: tuple[Fault, ...]
    thoughts: tuple[str | None, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The whole turn. `text` is what SAY gave; `text_kind` is say, echo, system or empty."""

    steps: tuple[Step, ...]
    text: str
    text_kind: str
    finish_reason: str

    def step(self, calls_made: int) -> Step:
        """The step to play after `calls_made` assistant messages with tool calls."""
        return self.steps[min(calls_made, len(self.steps) - 1)]


class _Reader:
    def __init__(self, text: str) -> None:
        self.source = text
        self.steps: list[Step] = []
        self.faults: list[Fault] = []
        self.thoughts: list[str | None] = []
        self.slow_ms = self.drip_ms = 0
        self.usage: Usage | None = None
        self.text, self.text_kind, self.finish_reason = DEFAULT_TEXT, "say", "stop"

    def read(self) -> Script:
        position = 0
        while match := _DIRECTIVE.search(self.source, position):
            position = match.end()
            if word := match["argued"]:
                position = getattr(self, f"_{word.lower()}")(position)
            elif word := match["counted"]:
                self._fault(word.lower(), "", match["times"])
            else:
                self._bare(match["bare"])
        self._step(())
        return Script(tuple(self.steps), self.text, self.text_kind, self.finish_reason)

    def _step(self, calls: tuple[Call, ...]) -> None:
        faults, thoughts = tuple(self.faults), tuple(self.thoughts)
        self.steps.append(Step(calls, self.slow_ms, self.drip_ms, faults, thoughts, self.usage))
        self.thoughts.clear()

    def _fault(self, kind: str, code: str, times: str | None) -> None:
        count = int(times) if times is not None else None
        self.faults.append(Fault(kind, code, count, len(self.faults)))

    def _bare(self, word: str) -> None:
        if word == "LENGTH":
            self.finish_reason = "length"
        elif word == "REDACTED":
            self.thoughts.append(None)
        else:
            self.text_kind = word.rstrip("?").lower()

    def _word(self, position: int, directive: str) -> tuple[str, int]:
        match = _WORD.match(self.source, position)
        if match is None:
            raise BadScript(f"{directive}: needs a word right after the colon")
        return match[0], match.end()

    def _milliseconds(self, position: int, directive: str) -> tuple[int, int]:
        word, position = self._word(position, directive)
        if not word.isdecimal():
            raise BadScript(f"{directive}:{word} needs a whole number of milliseconds")
        return int(word), position

    def _json(self, position: int, directive: str) -> tuple[object, int]:
        try:
            value, end = _decoder.raw_decode(self.source, position)
        except json.JSONDecodeError as error:
            raise BadScript(f"{directive} is followed by invalid JSON: {error}") from error
        return value, end

    def _slow(self, position: int) -> int:
        self.slow_ms, position = self._milliseconds(position, "SLOW")
        return position

    def _drip(self, position: int) -> int:
        self.drip_ms, position = self._milliseconds(position, "DRIP")
        return position

    def _usage(self, position: int) -> int:
        counts, position = self._json(position, "USAGE:")
        try:
            self.usage = Usage(**counts)  # type: ignore[arg-type]
        except TypeError as error:
            raise BadScript(f"USAGE: needs counts by name: {error}") from error
        return position

    def _fail(self, position: int) -> int:
        code, position = self._word(position, "FAIL")
        times = _COUNT.match(self.source, position)
        self._fault("fail", code, times and times[1])
        return times.end() if times else position

    def _call(self, position: int) -> int:
        name, position = self._word(position, "CALL")
        arguments = None
        if self.source.startswith(":", position):
            value, position = self._json(position + 1, f"CALL:{name}:")
            arguments = json.dumps(value, ensure_ascii=False)
        self._step((Call(name, arguments),))
        return position

    def _calls(self, position: int) -> int:
        listed, position = self._json(position, "CALLS:")
        if not isinstance(listed, list) or not all(
            isinstance(call, dict) and isinstance(call.get("name"), str) for call in listed
        ):
            raise BadScript('CALLS: needs a list of {"name": ..., "arguments": {...}}')
        self._step(
            tuple(
                Call(
                    call["name"],
                    json.dumps(call["arguments"], ensure_ascii=False)
                    if "arguments" in call
                    else None,
                )
                for call in listed
            )
        )
        return position

    def _think(self, position: int) -> int:
        thought, position = self._json(position, "THINK:")
        if not isinstance(thought, str):
            raise BadScript('THINK: needs a JSON string, such as THINK:"Well."')
        self.thoughts.append(thought)
        return position

    def _badargs(self, position: int) -> int:
        name, position = self._word(position, "BADARGS")
        self._step((Call(name, BROKEN_ARGUMENTS),))
        return position

    def _say(self, position: int) -> int:
        self.text, self.text_kind = self.source[position:], "say"
        return len(self.source)


@lru_cache(maxsize=SCRIPTS_CACHED_MAX)
def parse(text: str) -> Script:
    """The script of one user message; raises BadScript where a directive cannot be read."""
    return _Reader(text).read()
