"""What the lint of names and docstrings finds, and what it leaves alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.plain_english import adjectives, findings_in


def rules(text: str, path: str = "libs/bus/sample.py") -> list[str]:
    """The rules that a module of this text breaks, by line."""
    tree = ast.parse(text)
    return [finding.rule for finding in findings_in(Path(path), tree, set(adjectives(tree)))]


@pytest.mark.parametrize("name", ["refused", "told", "held", "died", "unsent"])
def test_a_participle_names_no_public_function(name: str) -> None:
    assert rules(f"def {name}(run: Run) -> Refusal: ...") == ["participle"]
    assert rules(f"class Store:\n  async def {name}(self) -> bool: ...") == ["participle"]


@pytest.mark.parametrize("name", ["refuse", "is_refused", "refusal", "embed", "_refused"])
def test_verbs_questions_and_nouns_are_fine_and_private_names_are_free(name: str) -> None:
    assert rules(f"def {name}(run: Run) -> object: ...") == []


@pytest.mark.parametrize(
    "text",
    [
        "class Run:\n  @property\n  def ended(self) -> bool: ...",
        "def counted(function): ...\n@counted\ndef send(): ...",
        "class Body:\n  @field_validator('name')\n  def trimmed(cls, name): ...",
        "def trimmed(name): ...\nName = Annotated[str, AfterValidator(trimmed)]",
        "def send():\n  def delayed(): ...",
    ],
)
def test_adjectives_stay_where_they_are_read_as_adjectives(text: str) -> None:
    assert rules(text) == []


def test_a_property_that_is_not_a_question_is_no_adjective() -> None:
    assert rules("class Run:\n  @property\n  def declared(self) -> list[str]: ...") == [
        "participle"
    ]


def test_a_docstring_of_a_public_function_has_five_words_or_is_left_out() -> None:
    assert rules('def load():\n  """Load the run."""') == ["docstring"]
    assert rules('def load():\n  """The run as it is recorded, or `None`."""') == []
    assert rules("def load(): ...") == []


@pytest.mark.parametrize(
    "text",
    [
        "for one in runs: pass",
        "for number, (it, run) in runs: pass",
        "names = [one.name for one in runs]",
        "smallest = min(runs, key=lambda x: x.size)",
        "def send(*, one: Run) -> None: ...",
    ],
)
def test_a_variable_says_what_it_holds_in_tests_too(text: str) -> None:
    assert rules(text) == ["variable"]
    assert rules(text, "tests/sample.py") == ["variable"]


def test_how_functions_of_tests_are_named_is_not_looked_at() -> None:
    assert rules("def told(): ...", "tests/sample.py") == []


def test_a_finding_names_the_place_and_the_remedy() -> None:
    tree = ast.parse("def told() -> None: ...")
    [finding] = findings_in(Path("libs/bus/sample.py"), tree, set())
    assert str(finding).startswith("libs/bus/sample.py:1: `told` is a bare participle: name it by")
