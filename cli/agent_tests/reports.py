"""Results as people read them, as JSON, and as JUnit's XML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli.agent_tests.answers import Answer
from cli.agent_tests.cases import Result
from cli.agent_tests.expectations import Failure, difference, shorten

INDENT = "    "
WIDTH_OF_WHO = 8


def line_of(result: Result) -> str:
    """One line for a case."""
    words = {"passed": "ok", "failed": "FAILED", "error": "ERROR"}[result.status]
    cost = f", {result.cost_usd:.4f} USD" if result.cost_usd else ""
    return (
        f"{words:<6}  {result.file}  {result.name}  ({result.seconds * 1000:.0f} ms, "
        f"{result.tokens} tokens{cost})"
    )


def details_of(result: Result) -> str:
    """What is to be known of a case that did not pass."""
    parts = [f"{result.file}: {result.error}"] if result.error else []
    parts += [failure_text(result.file, failure) for failure in result.failures]
    if result.answers:
        parts.append("Transcript:\n" + transcript(result.answers))
    parts.append("Memory:\n" + memory_change(result.memory_before, result.memory_after))
    if result.run_ids:
        parts.append(f"Look into it: heeler runs show {result.run_ids[-1]}")
    return "\n".join(parts)


def failure_text(file: Path, failure: Failure) -> str:
    """Which expectation does not hold, and where it stands."""
    place = f"{file}:{failure.line}" if failure.line else str(file)
    key = path_text(failure.path)
    text = f"{place}: {key}: {failure.message}" if key else f"{place}: {failure.message}"
    return f"{text}\n{textwrap.indent(failure.difference, INDENT)}" if failure.difference else text


def path_text(path: Sequence[str | int]) -> str:
    """A place in a file as TOML's readers know it: turns[0].expect.contains[1]."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def transcript(answers: Sequence[Answer]) -> str:
    """Who said, called and returned what."""
    lines = []
    for number, answer in enumerate(answers, 1):
        runs = ", ".join(answer.run_ids)
        lines.append(f"{INDENT}turn {number} ({answer.stop_reason}; {runs})")
        for event in answer.events:
            first, *more = shorten(event.text).splitlines() or [""]
            lines.append(f"{INDENT}  {event.who:<{WIDTH_OF_WHO}} {first}")
            lines += [f"{INDENT}  {'':<{WIDTH_OF_WHO}} {line}" for line in more]
    return "\n".join(lines)


def memory_change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What the blocks said, and what of that has changed."""
    return "\n".join(_blocks(before, after)) or f"{INDENT}(no blocks)"


def _blocks(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for label in {**before, **after}:
        old, new = before.get(label, ""), after.get(label, "")
        if old == new:
            yield f"{INDENT}{label} (unchanged): {shorten(new) or '(empty)'}"
        else:
            yield f"{INDENT}{label}:"
            yield textwrap.indent(difference(old, new), INDENT * 2)


def document_of(results: Sequence[Result]) -> dict[str, Any]:
    """All results as one JSON document."""
    count = {
        status: sum(result.status == status for result in results)
        for status in ("passed", "failed", "error")
    }
    return {**count, "cases": [_case(result) for result in results]}


def _case(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "file": str(result.file),
        "model": result.kind,
        "status": result.status,
        "seconds": round(result.seconds, 3),
        "tokens": result.tokens,
        "cost_usd": result.cost_usd,
        "error": result.error or None,
        "run_ids": result.run_ids,
        "failures": [
            {
                "place": path_text(failure.path),
                "line": failure.line,
                "message": failure.message,
                "difference": failure.difference or None,
            }
            for failure in result.failures
        ],
        "turns": [asdict(answer) for answer in result.answers],
        "memory_before": dict(result.memory_before),
        "memory_after": dict(result.memory_after),
    }


def write_junit(file: Path, results: Sequence[Result]) -> None:
    """Write what continuous integration reads. Raises OSError."""
    from xml.etree import ElementTree

    suite = ElementTree.Element(
        "testsuite",
        name="heeler test",
        tests=str(len(results)),
        failures=str(sum(result.status == "failed" for result in results)),
        errors=str(sum(result.status == "error" for result in results)),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=str(result.file.with_suffix("")),
            name=result.name,
            file=str(result.file),
            time=f"{result.seconds:.3f}",
        )
        if result.status != "passed":
            kind = "error" if result.status == "error" else "failure"
            message = result.error or result.failures[0].message
            told = ElementTree.SubElement(case, kind, message=_printable(message))
            told.text = _printable(details_of(result))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """A text without the characters that XML cannot have."""
    return "".join(
        character if character in "\n\t" or character >= " " else "�" for character in text
    )
