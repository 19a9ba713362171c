"""Whether what an agent did is what was expected."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.agent_tests.answers import END_OF_TURN, FAILED, NEEDS_APPROVAL, Answer, Call
from cli.agent_tests.scenarios import Expectation, ExpectedCall, TextExpectation
from libs.contracts.outside_texts import lines_of

SHOWN_CHARACTERS_MAX = 2_000
# Ends of runs that nobody has to expect.
USUAL_ENDS = (END_OF_TURN, NEEDS_APPROVAL, "tool_rule")

type Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Failure:
    """An expectation that does not hold: its place in the scenario, and what differed."""

    path: Path
    message: str
    difference: str = ""
    line: int | None = None


def check(answer: Answer, expect: Expectation, path: Path = ()) -> list[Failure]:
    """The expectations that fail after a turn. A run that fails is the only failure reported,
    unless the scenario expects it."""
    found = [*_end(answer, expect, path)]
    if found and answer.error is not None:
        return found
    found += _text("the agent said", answer.text, expect, path)
    found += _calls(answer.tool_calls, expect, path)
    found += _memory(answer.memory, expect.memory, (*path, "memory"))
    found += _limits(answer, expect, path)
    return found


def _end(answer: Answer, expect: Expectation, path: Path) -> Iterator[Failure]:
    wanted = expect.stop_reason or (FAILED if expect.error is not None else None)
    if answer.error is not None and wanted != FAILED:
        yield Failure(path, f"the run failed: {answer.error}")
    elif wanted is None and answer.stop_reason not in USUAL_ENDS:
        yield Failure(path, f"the run ended with {answer.stop_reason}: expect it by `stop_reason`")
    elif wanted is not None and answer.stop_reason != wanted:
        where = (*path, "stop_reason" if expect.stop_reason else "error")
        yield Failure(where, f"the run ended with {answer.stop_reason}, not with {wanted}")
    elif expect.error is not None and expect.error not in (answer.error or ""):
        yield Failure(
            (*path, "error"), f"the run failed, but not with {expect.error!r}: {answer.error}"
        )


def _text(what: str, text: str, expect: TextExpectation, path: Path) -> Iterator[Failure]:
    import re2

    shown = shorten(text)
    for number, part in enumerate(expect.contains):
        if part not in text:
            yield Failure(
                (*path, "contains", number), f"{what} nothing that contains {part!r}", shown
            )
    for number, part in enumerate(expect.not_contains):
        if part in text:
            yield Failure((*path, "not_contains", number), f"{what} {part!r}", shown)
    for number, pattern in enumerate(expect.matches):
        if not re2.search(pattern, text):
            yield Failure(
                (*path, "matches", number), f"{what} nothing that matches {pattern!r}", shown
            )
    if expect.equals is not None and text.strip() != expect.equals.strip():
        yield Failure((*path, "equals"), f"{what} something else", difference(expect.equals, text))


def _calls(calls: Sequence[Call], expect: Expectation, path: Path) -> Iterator[Failure]:
    if expect.no_tool_calls and calls:
        names = ", ".join(call.name for call in calls)
        yield Failure((*path, "no_tool_calls"), f"the agent called {names}")
    left = list(calls)
    for number, wanted in enumerate(expect.tool_calls):
        where = (*path, "tool_calls", number)
        place = next((at for at, call in enumerate(left) if not _misfits(call, wanted)), None)
        if place is not None:
            left = left[place + 1 :]
            continue
        closest = next((call for call in left if call.name == wanted.name), None)
        if closest:
            yield Failure(
                where,
                f"the agent called {wanted.name}, but {_misfits(closest, wanted)}",
                difference(as_json(wanted.arguments), as_json(closest.arguments)),
            )
        else:
            after = " after the calls above" if len(left) < len(calls) else ""
            yield Failure(
                where,
                f"the agent did not call {wanted.name}{after}",
                "it called " + (", ".join(call.name for call in calls) or "nothing"),
            )


def _misfits(call: Call, wanted: ExpectedCall) -> str:
    """The differences of a call from the wanted one; an empty text where it fits."""
    if call.name != wanted.name:
        return f"it is {call.name}"
    if not is_part(wanted.arguments, call.arguments):
        return "with other arguments"
    if wanted.status and call.status != wanted.status:
        return f"with the status {call.status or 'waiting'}: {shorten(call.returned or '')}"
    for text in wanted.returns:
        if text not in (call.returned or ""):
            return f"it returned nothing that contains {text!r}: {shorten(call.returned or '')}"
    return ""


def is_part(wanted: Any, given: Any) -> bool:
    """Whether all that is wanted is in what is given: keys of objects may be more."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(
            key in given and is_part(value, given[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    return bool(wanted == given)


def _memory(
    memory: Mapping[str, str], expect: Mapping[str, TextExpectation], path: Path
) -> Iterator[Failure]:
    for label, wanted in expect.items():
        if label not in memory:
            there = ", ".join(memory) or "none"
            yield Failure((*path, label), f"the agent has no block {label!r}, but {there}")
        else:
            yield from _text(f"the block {label!r} says", memory[label], wanted, (*path, label))


def _limits(answer: Answer, expect: Expectation, path: Path) -> Iterator[Failure]:
    for field, used, unit in (
        ("tokens_max", answer.tokens, "tokens"),
        ("steps_max", answer.steps, "steps"),
    ):
        limit = getattr(expect, field)
        if limit is not None and used > limit:
            yield Failure((*path, field), f"the turn took {used} {unit}, more than {limit}")
    limit = expect.cost_usd_max
    if limit is None:
        return
    if answer.cost_usd is None:
        yield Failure(
            (*path, "cost_usd_max"),
            "what the turn cost is not known: give its model a price in HEELER_PRICES",
        )
    elif answer.cost_usd > limit:
        yield Failure(
            (*path, "cost_usd_max"), f"the turn cost {answer.cost_usd:.6f} USD, more than {limit}"
        )


def difference(expected: str, actual: str) -> str:
    """The lines in which two texts differ: `-` was expected, `+` was given."""
    lines = difflib.ndiff(lines_of(expected), lines_of(shorten(actual)))
    return "\n".join(line.rstrip() for line in lines if not line.startswith("?"))


def as_json(value: Any) -> str:
    """A JSON value over several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def shorten(text: str) -> str:
    """A text as far as it is shown."""
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return text
    return f"{text[:SHOWN_CHARACTERS_MAX]}… ({len(text)} characters)"
