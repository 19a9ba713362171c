"""Collect the problems of a file with their places."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from libs.agent_toml.problems import Problem
from libs.agent_toml.toml_positions import Path, Positions

SHOWN_CHARS_MAX = 60
SIMILAR_MIN = 0.6
WORD_CHARS_MAX = 100
NAMES_SHOWN_MAX = 12
PROBLEMS_MAX = 500
# Of all suggestions for a file: the characters of a word times those of the names beside it.
COMPARED_MAX = 2_000_000


class Reporter:
    """The problems of one file; a problem is placed by the path of what it is about."""

    def __init__(self, file: str, positions: Positions) -> None:
        self.file = file
        self.positions = positions
        self.found: list[Problem] = []
        self.broken: set[Path] = set()  # nothing more is said of these
        self.said: set[Problem] = set()
        self.compared = 0

    def error(
        self,
        path: Path,
        code: str,
        message: str,
        *,
        expected: str = "",
        suggestion: str = "",
        fix: str = "",
        at_key: bool = False,
    ) -> None:
        """Report what makes the file unusable."""
        advice = {"expected": expected, "suggestion": suggestion, "fix": fix}
        self._add(path, code, message, at_key=at_key, **advice)

    def warn(self, path: Path, code: str, message: str, *, fix: str = "") -> None:
        """Report what may be a mistake."""
        self._add(path, code, message, severity="warning", fix=fix)

    def _add(
        self, path: Path, code: str, message: str, *, at_key: bool = False, **more: Any
    ) -> None:
        if len(self.found) >= PROBLEMS_MAX or self.is_broken(path):
            return
        place = self.positions.of_key(path) if at_key else self.positions.of_value(path)
        problem = Problem(
            file=self.file,
            line=place.line,
            column=place.column,
            code=code,
            message=message,
            field=name_of(path),
            **more,
        )
        if problem not in self.said:
            self.said.add(problem)
            self.found.append(problem)

    def exclude(self, path: Path, other: str) -> None:
        """Report a key that stands beside another that says the same."""
        words = f"`{path[-1]}` and `{other}` stand beside each other"
        self.error(path, "AGT203", words, expected="one of the two", at_key=True)

    def suggest(self, word: str, known: Iterable[str]) -> str:
        """The known word that somebody probably meant; empty if there is none, and where it would
        cost too much to look for it."""
        short, names = word[:WORD_CHARS_MAX].lower(), [*known]
        self.compared += len(short) * sum(map(len, names))
        if self.compared > COMPARED_MAX:
            return ""
        found = get_close_matches(short, names, 1, SIMILAR_MIN)
        return found[0] if found else ""

    def is_broken(self, path: Path) -> bool:
        """Whether a problem of this value, or of what it is in, was reported already."""
        return any(path[:length] in self.broken for length in range(1, len(path) + 1))

    def in_order(self) -> tuple[Problem, ...]:
        """The problems in the order of the file."""
        return tuple(sorted(self.found, key=lambda each: (each.line, each.column, each.code)))


def name_of(path: Path) -> str:
    """A path as people write it: `memory[1].label`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def quote(value: object) -> str:
    """A value of a file in a sentence, shortened."""
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}..."
    return f"'{short}'" if isinstance(value, str) else short


def enumerate_words(words: list[str]) -> str:
    """Words in a sentence, not too many of them."""
    more = f" and {len(words) - NAMES_SHOWN_MAX} more" if len(words) > NAMES_SHOWN_MAX else ""
    return ", ".join(words[:NAMES_SHOWN_MAX]) + more
