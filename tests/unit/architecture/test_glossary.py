"""The glossary names what is there, and what it says is not used is not used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
TEXT = (CHECKOUT / "docs" / "glossary.md").read_text()
USED, _, UNUSED = TEXT.partition("## Names that are not used")
PLACES = re.findall(r"\| `([\w/.]+)`(?: `(\w+)`)? \|$", USED, re.MULTILINE)
BANNED = {
    word.strip().replace(" ", "_")
    for row in re.findall(r"^\| ([\w, ]+) \| [\w, -]+ \|$", UNUSED, re.MULTILINE)
    for word in row.split(",")
    if row != "not"
}


def defined(path: Path) -> set[str]:
    """The classes and functions of a module."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {item.name for item in ast.parse(path.read_text()).body if isinstance(item, kinds)}


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_what_the_glossary_names_is_there(path: str, name: str) -> None:
    assert (CHECKOUT / path).is_file()
    assert not name or name in defined(CHECKOUT / path)


def words(name: str) -> set[str]:
    """The words that the name of a module or a class consists of; a dead letter is one."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    joined = "_".join(part.lower() for part in parts)
    return {*re.sub(r"dead_letters?", "", joined).split("_"), joined}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("run_teller", "teller"),
        ("GivenUpMessage", "given"),
        ("UnknownLetter", "letter"),
        ("PostgresDeadLetterStore", None),
        ("dead_letters", None),
    ],
)
def test_a_word_is_found_within_a_name(name: str, found: str | None) -> None:
    assert words(name) & BANNED == ({found} if found else set())


def test_the_words_that_are_not_used_stand_in_no_name_of_a_file_or_a_class() -> None:
    assert {"patience", "given_up"} <= BANNED
    assert len(PLACES) > 30
    for folder in ("libs", "services"):
        for path in (CHECKOUT / folder).rglob("*.py"):
            for name in (
                path.stem,
                *(class_name for class_name in defined(path) if class_name[0].isupper()),
            ):
                assert not words(name) & BANNED, (path, name)


def test_every_aggregate_has_its_word() -> None:
    found = {
        (path.relative_to(CHECKOUT).as_posix(), name)
        for path in (CHECKOUT / "services").glob("*/domain/**/*.py")
        for name in re.findall(r"^class (\w+)\(Aggregate\[", path.read_text(), re.MULTILINE)
    }
    assert len(found) > 30
    assert found - set(PLACES) == set(), "docs/glossary.md says in a line what each is"
