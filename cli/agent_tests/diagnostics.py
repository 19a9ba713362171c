"""Diagnostics of a test that fails: the differences, the transcript, the memory."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from cli.agent_tests.answers import Answer
from cli.agent_tests.expectations import Failure, difference, shorten
from libs.agent_toml.reporting import name_of
from libs.contracts.outside_texts import lines_of

INDENT = "    "
WIDTH_OF_WHO = 8


def failure_text(file: str, failure: Failure) -> str:
    """Which expectation does not hold, and where it stands."""
    place = f"{file}:{failure.line}" if failure.line else file
    text = ": ".join(filter(None, (place, name_of(failure.path), failure.message)))
    return f"{text}\n{textwrap.indent(failure.difference, INDENT)}" if failure.difference else text


def transcript(answers: Sequence[Answer]) -> str:
    """The words, calls and results of a turn, each with its author."""
    lines = []
    for number, answer in enumerate(answers, 1):
        runs = ", ".join(answer.run_ids)
        lines.append(f"{INDENT}turn {number} ({answer.stop_reason}; {runs})")
        for event in answer.events:
            first, *more = lines_of(shorten(event.text)) or [""]
            lines.append(f"{INDENT}  {event.who:<{WIDTH_OF_WHO}} {first}")
            lines += [f"{INDENT}  {'':<{WIDTH_OF_WHO}} {line}" for line in more]
    return "\n".join(lines)


def memory_change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The blocks of memory, with their changes."""
    return "\n".join(_blocks(before, after)) or f"{INDENT}(no blocks)"


def _blocks(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for label in {**before, **after}:
        old, new = before.get(label, ""), after.get(label, "")
        if old == new:
            yield f"{INDENT}{label} (unchanged): {shorten(new) or '(empty)'}"
        else:
            yield f"{INDENT}{label}:"
            yield textwrap.indent(difference(old, new), INDENT * 2)
