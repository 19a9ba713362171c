"""Results as people read them, as JSON, and as JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli.agent_tests.cases import Result
from cli.agent_tests.diagnostics import failure_text, memory_change, transcript
from libs.agent_toml.reporting import name_of

WORDS = {"passed": "ok", "failed": "FAILED", "error": "ERROR", "skipped": "skipped"}


def line_of(result: Result) -> str:
    """One line for a case."""
    words = WORDS[result.status]
    if result.status == "skipped":
        return f"{words:<7}  {result.file}  {result.name}  (asks a real model: allow it by --real)"
    cost = f", {result.cost_usd:.4f} USD" if result.cost_usd else ""
    return (
        f"{words:<7}  {result.file}  {result.name}  ({result.seconds * 1000:.0f} ms, "
        f"{result.tokens} tokens{cost})"
    )


def details_of(result: Result) -> str:
    """The report on a case that did not pass."""
    parts = [f"{result.file}: {result.error}"] if result.error else []
    parts += [failure_text(str(result.file), failure) for failure in result.failures]
    if result.answers:
        parts.append("Transcript:\n" + transcript(result.answers))
    parts.append("Memory:\n" + memory_change(result.memory_before, result.memory_after))
    if result.run_ids:
        parts.append(
            f"{'Look' if result.is_kept else 'With --keep, look'} into it by: "
            f"heeler runs show {result.run_ids[-1]}"
        )
    return "\n".join(parts)


def document_of(results: Sequence[Result]) -> dict[str, Any]:
    """All results as one JSON document."""
    count = {status: sum(result.status == status for result in results) for status in WORDS}
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
                "place": name_of(failure.path),
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
        skipped=str(sum(result.status == "skipped" for result in results)),
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
        if result.status == "skipped":
            ElementTree.SubElement(case, "skipped", message="it asks a real model")
        elif not result.is_good:
            kind = "error" if result.status == "error" else "failure"
            message = result.error or result.failures[0].message
            element = ElementTree.SubElement(case, kind, message=_printable(message))
            element.text = _printable(details_of(result))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """A text without the characters that XML cannot have."""
    return "".join(
        character if character in "\n\t" or character >= " " else "�" for character in text
    )
