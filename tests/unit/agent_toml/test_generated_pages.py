"""The pages about the form, and its JSON Schema, say what the code does."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deploy.agent_toml import ERRORS, EXAMPLE, PAGES, REFERENCE, SCHEMA, tables
from libs.agent_toml.checked_file import check as checked
from libs.agent_toml.problem_catalogue import CATALOGUE
from libs.agent_toml.security_rules import BUILT_IN

HONEST = sorted(EXAMPLE.parent.glob("*.toml"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_current(page: Path) -> None:
    wanted = PAGES[page]()
    assert page.read_text() == wanted, "run python -m deploy.agent_toml, and look at the change"


def test_each_key_stands_in_the_reference_and_in_the_schema_with_its_meaning() -> None:
    reference, schema = REFERENCE.read_text(), json.loads(SCHEMA.read_text())
    for name, table in tables():
        properties = (schema if not name else schema["$defs"][table.__name__])["properties"]
        for key, field in table.model_fields.items():
            assert field.description, f"{table.__name__}.{key} has no description"
            assert properties[key]["description"] == field.description
            assert f"| `{key}` | " in reference
            assert field.description in reference


def test_each_code_has_an_anchor_that_problems_link_to() -> None:
    page = ERRORS.read_text()
    for code in [*CATALOGUE, *(rule.id for rule in BUILT_IN)]:
        assert f"\n## {code}\n" in page


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_good_files_fit_the_schema(path: Path) -> None:
    document = json.loads(json.dumps(tomllib.loads(path.read_text()), default=str))
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)


GOOD = 'name = "ada"\nsystem_prompt = "Hi."\n'
# What is wrong, the path and the line and column of it, and what an editor says.
MISTAKES = [
    (GOOD + 'modle = "a/b"', "", "3:1", "'modle' was unexpected"),
    (GOOD + 'tags = "a"', "tags", "3:8", '"a" is not of type "array"'),
    (GOOD + 'hidden = "yes"', "hidden", "3:10", '"yes" is not of type "boolean"'),
    (GOOD + "context_window = 0", "context_window", "3:18", "0 is less than the minimum of 1"),
    (GOOD + "environment = 'prod'", "environment", "3:15", '"prod" is not one of ["development"'),
    (GOOD + "[[memory]]\nlabel = 3", "memory.0.label", "4:9", '3 is not of type "string"'),
    (GOOD + "[[memory]]\nvalue = 'x'", "memory.0", "3:1", '"label" is a required property'),
    (GOOD + "[[tool_rules]]\ntype = 'no'", "tool_rules.0.type", "4:8", '"no" is not one of ["run'),
    (GOOD + "capabilities = [3]", "capabilities.0", "3:17", '3 is not of type "string"'),
    (GOOD + "[[capabilities]]\nnam = 'x'", "capabilities.0", "4:1", "'nam' was unexpected"),
    (
        GOOD + "[model_settings]\ntemperature = 'hot'",
        "model_settings.temperature",
        "4:15",
        '"hot" is not of type "number"',
    ),
    (GOOD + "[[schedules]]\nname = 's'\nat = 3", "schedules.0.at", "5:6", '3 is not of type "str'),
    ('name = "ada"', "", "1:1", '"system_prompt" is a required property'),
    ('name = "ada"\nsystem_prompt_file = 3', "system_prompt_file", "2:22", "3 is not of type"),
    ('system_prompt = "Hi."', "", "1:1", '"name" is a required property'),
]
# By its schema a name has the characters that it may have by its model, as far as they are ASCII.
NAMES = [chr(number) for number in range(128)]
by_place = pytest.mark.parametrize(
    ("text", "path", "place", "words"), MISTAKES, ids=[words for *_, words in MISTAKES]
)


@by_place
def test_the_schema_names_a_mistake_at_its_place(
    text: str, path: str, place: str, words: str
) -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    Draft202012Validator.check_schema(validator.schema)
    [error] = list(validator.iter_errors(tomllib.loads(text)))[:1]
    assert ".".join(map(str, error.absolute_path)) == path
    assert error.validator not in ("anyOf", "oneOf")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_has_the_same_characters_in_the_schema(name: str) -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    document = {"name": f"a{name}b", "system_prompt": "Hi."}
    assert validator.is_valid(document) == (checked(document).definition is not None)


@by_place
def test_an_editor_names_a_mistake_at_its_place(
    tmp_path: Path, text: str, path: str, place: str, words: str
) -> None:
    said = checked_by_editor(tmp_path, text)
    assert words in said
    assert f"agent.toml:{place}\n" in said
    assert "anyOf" not in said


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_an_editor_finds_nothing_in_good_files(tmp_path: Path, path: Path) -> None:
    assert "error" not in checked_by_editor(tmp_path, path.read_text())


def checked_by_editor(folder: Path, text: str) -> str:
    """What Taplo says of a file, which editors have within."""
    here = Path(sys.executable).parent
    taplo = shutil.which("taplo", path=os.pathsep.join([str(here), os.environ["PATH"]]))
    if taplo is None and sys.platform == "linux" and platform.machine() != "x86_64":
        pytest.skip("there is no wheel of Taplo for this machine")
    assert taplo, "Taplo is missing: run deploy/bootstrap.sh --dev"
    (folder / "agent.toml").write_text(text)
    words = [taplo, "check", "--colors", "never", "--schema", SCHEMA.as_uri(), "agent.toml"]
    return subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True).stderr
