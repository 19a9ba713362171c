"""The pages about the form, and its JSON Schema, say what the code does."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deploy.agent_toml import ERRORS, EXAMPLE, PAGES, REFERENCE, SCHEMA, tables
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


def test_the_schema_refuses_unknown_keys_and_a_missing_prompt() -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    Draft202012Validator.check_schema(validator.schema)
    assert not validator.is_valid({"name": "ada", "system_prompt": "x", "modle": "a/b"})
    assert not validator.is_valid({"name": "ada"})
