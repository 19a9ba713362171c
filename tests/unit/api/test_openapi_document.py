"""The OpenAPI document, as it is made when somebody asks for it."""

from __future__ import annotations

from deploy.response_schemas import page_text
from services.api.app import HANDLERS
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
