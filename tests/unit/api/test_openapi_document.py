"""The OpenAPI document, as it is made when somebody asks for it."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.response_schemas import page_text
from libs.contracts.letta.enums import MessageType
from services.api.app import HANDLERS
from services.api.http.error_responses import RUN_STATUS, STATUS
from services.api.openapi.document import components, described_routes, documented_path, operation
from services.api.openapi.response_schemas import FILE


def test_each_route_says_what_it_answers_with() -> None:
    silent = []
    for path, handler in described_routes(HANDLERS):
        for method in handler.http_methods:
            try:
                operation(documented_path(path), method, handler)
            except KeyError as unknown:
                silent.append(f"{method} {path}: {unknown} is not in BY_WORDS")
    assert silent == []
    assert components(HANDLERS)["schemas"]


def test_the_schemas_are_those_of_the_sdk() -> None:
    assert FILE.read_text() == page_text(), "run `python -m deploy.response_schemas`"


def test_a_kind_of_message_is_one_of_those_that_are_named() -> None:
    schemas = components(HANDLERS)["schemas"]
    kinds = [
        schema["properties"]["message_type"]
        for schema in schemas.values()
        if "message_type" in schema.get("properties", {})
    ]
    named = [{form.get("const") for form in kind.get("anyOf", [kind])} - {None} for kind in kinds]
    assert all(len(names) == 1 for names in named), "each is a constant, and no free text"
    assert {*MessageType} <= {name for names in named for name in names}


def test_the_page_on_errors_has_every_status_and_error_type() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text()
    part = page.partition("## What errors mean")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|$", part, re.MULTILINE))
    assert rows == {kind: str(status) for kind, status in RUN_STATUS.items()}
    listed = set(re.findall(r"\b\d{3}\b", part.partition("`error_type`")[0]))
    assert {str(status) for status in STATUS.values()} <= listed
