"""What the lint of names and docstrings finds, and what it leaves alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.plain_english import PRODUCT, ROOT, adjectives, findings_in, riddle_docstrings


def rules(text: str, path: str = "libs/bus/sample.py") -> list[str]:
    """The rules that a module of this text breaks, by line."""
    tree = ast.parse(text)
    return [finding.rule for finding in findings_in(Path(path), tree, set(adjectives(tree)))]


@pytest.mark.parametrize("name", ["refused", "sold", "held", "died", "unsent"])
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
    tree = ast.parse("def sold() -> None: ...")
    [finding] = findings_in(Path("libs/bus/sample.py"), tree, set())
    assert str(finding).startswith("libs/bus/sample.py:1: `sold` is a bare participle: name it by")


@pytest.mark.parametrize(
    "text",
    ["told = 1", "class RunTeller: ...", "def send(ring: Notify): ...", "self.is_told = True"],
)
def test_metaphors_name_nothing_in_the_product(text: str) -> None:
    assert rules(text) == ["metaphor"]
    assert rules(text, path="tests/sample.py") == []


@pytest.mark.parametrize("text", ["string = 1", "def bring(state): ...", "print(told)"])
def test_words_within_other_words_and_names_of_others_are_fine(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("text", "is_riddle"),
    [
        ("What the model is shown.", True),
        ("Whoever waits.", True),
        ("How many runs may begin? None while it stops.", False),
        ("The number of runs. Who asks is checked.", False),
        ("Whether it has ended.", False),
    ],
)
def test_a_docstring_that_begins_with_what_who_or_how_asks_something(
    text: str, is_riddle: bool
) -> None:
    riddles, count = riddle_docstrings(ast.parse(f'def load():\n  """{text}"""'))
    assert (len(riddles), count) == (int(is_riddle), 1)


def test_at_most_3_percent_of_the_docstrings_of_the_product_are_riddles() -> None:
    paths = (path for top in PRODUCT for path in (ROOT / top).rglob("*.py"))
    read = [riddle_docstrings(ast.parse(path.read_text())) for path in paths]
    riddles, count = sum(len(found) for found, _ in read), sum(number for _, number in read)
    assert count > 5_000
    assert riddles <= 0.03 * count, f"{riddles} of {count}"
