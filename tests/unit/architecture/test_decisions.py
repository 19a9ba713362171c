"""The decisions in docs/adr: each has a number of its own, and whoever refers to one finds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
DECISIONS = sorted((CHECKOUT / "docs" / "adr").glob("[0-9]*.md"))
LIST = CHECKOUT / "docs" / "adr" / "README.md"
NUMBERS = {int(path.name[:4]) for path in DECISIONS}
REFERENCE = re.compile(r"\bADR (\d+)")
WRITTEN = [
    *CHECKOUT.glob("*.md"),
    *(CHECKOUT / "docs").rglob("*.md"),
    *(
        path
        for room in ("cli", "libs", "services", "deploy", "benchmarks", "tests")
        for kind in ("*.py", "*.sql")
        for path in (CHECKOUT / room).rglob(kind)
        if "node_modules" not in path.parts
    ),
]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_a_decision_is_titled_by_its_number_and_says_more_than_its_title(path: Path) -> None:
    title, *rest = path.read_text().splitlines()

    assert title.startswith(f"# {int(path.name[:4])}. ")
    assert sum(1 for line in rest if line.strip()) >= 3


def test_no_number_stands_for_two_decisions() -> None:
    assert len(NUMBERS) == len(DECISIONS)


def test_every_decision_that_is_referred_to_is_there() -> None:
    unknown = {
        f"{path.relative_to(CHECKOUT)}: ADR {number}"
        for path in WRITTEN
        for number in REFERENCE.findall(path.read_text())
        if int(number) not in NUMBERS
    }

    assert not unknown


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_the_list_of_decisions_has_a_line_with_the_title_of_each(path: Path) -> None:
    text = path.read_text()
    title = text.partition("\n")[0].removeprefix("# ")
    number, _, words = title.partition(". ")
    [line] = [line for line in LIST.read_text().splitlines() if f"({path.name})" in line]

    assert line.startswith(f"* {number}. [{words}]({path.name})")
    assert ("superseded" in line) == ("*Superseded" in text), "the list and the file mark it alike"
