"""`python -m deploy.limits`: write docs/limits.md from the models that read the requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from libs.contracts.letta import request_size_limits as limits
from libs.contracts.state_size_limits import AGENT_TOOLS_BYTES_MAX, TOOL_BYTES_MAX
from services.agent.domain.agents.agent import AGENT_BLOCKS_MAX
from services.agent.domain.agents.agent_configuration import RULE_VALUES_MAX, TOOL_RULES_BYTES_MAX
from services.api.app import HANDLERS
from services.api.http.error_responses import BODY_BYTES_MAX
from services.api.openapi.operation import Description
from services.tools.domain.organisation_tool_quota import TOOLS_OF_ORG_BYTES_MAX, TOOLS_OF_ORG_MAX

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"
NO_LIMIT = "no limit"

INTRODUCTION = f"""# Limits

This page is generated (`python -m deploy.limits`): do not edit it.

What a client sends has a size. Whoever uses V1 as it is meant meets none of these limits; they
keep every row, index entry and event storable. What is over one is refused with a 422 whose
`detail` names the field and the limit, and nothing is changed.

A body as a whole has at most {BODY_BYTES_MAX:,} bytes (else 413), {limits.BODY_DEPTH_MAX} levels
and {limits.BODY_VALUES_MAX:,} keys and items; a number is finite and, if it is whole, has at most
{limits.INTEGER_DIGITS_MAX} digits. The `value` of a block is no longer than its `limit`, and an
agent sees at most {AGENT_BLOCKS_MAX} blocks. The `tool_rules` of an agent have at most
{TOOL_RULES_BYTES_MAX:,} bytes as JSON, and at most {RULE_VALUES_MAX:,} keys and items in the
arguments that they give, and the schemas of its tools at most {AGENT_TOOLS_BYTES_MAX:,} bytes as
JSON when one is attached. A tool as a whole has at most {TOOL_BYTES_MAX:,}
bytes, and an organisation at most {TOOLS_OF_ORG_MAX:,} tools, which take at most
{TOOLS_OF_ORG_BYTES_MAX:,} bytes as they are stored.

| at most | fields of bodies | query parameters |
|---|---|---|
"""


def models(kind: str) -> list[type[BaseModel]]:
    """The models of all bodies, or (`query`) of all query parameters, by name."""
    described: list[Description] = [
        handler.opt["description"] for handler in HANDLERS if "description" in handler.opt
    ]
    found = {getattr(description, kind) for description in described} - {None}
    return sorted(found, key=lambda model: model.__name__)


def limits_of(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Every field of a model, and of the models in it, with its limit in words; fields that are
    a choice of a few words, a yes or no, or an id of a fixed form need none."""
    schema = model.model_json_schema()
    waiting, known = [(model.__name__, schema)], {model.__name__}
    definitions: dict[str, Any] = schema.get("$defs", {})
    while waiting:
        name, described = waiting.pop(0)
        for field, value in described.get("properties", {}).items():
            for words in words_of(value, definitions):
                yield f"{name}.{field}", words
            for below in objects_in(value, definitions):
                if below not in known:
                    known.add(below)
                    waiting.append((below, definitions[below]))


def words_of(value: Any, definitions: dict[str, Any]) -> Iterator[str]:
    """The limits of a value: one of each form that it may have."""
    if "x-limit" in value:
        yield value["x-limit"]
        return
    if "$ref" in value:
        yield from words_of(definitions[value["$ref"].rpartition("/")[2]], definitions)
        return
    for choice in ("anyOf", "oneOf", "allOf"):
        for form in value.get(choice, ()):
            yield from words_of(form, definitions)
    match value.get("type"):
        case "string" if not {"enum", "const", "pattern", "format"} & value.keys():
            yield chars(value.get("maxLength"))
        case "integer":
            bounded = "maximum" in value and "minimum" in value
            yield f"{value['minimum']:,} to {value['maximum']:,}" if bounded else NO_LIMIT
        case "array":
            items = ", ".join(words_of(value.get("items", {}), definitions))
            count = f"{value['maxItems']:,} items" if "maxItems" in value else NO_LIMIT
            yield f"{count} of {items}" if items else count
        case "object" if "properties" not in value:
            yield NO_LIMIT


def chars(number: int | None) -> str:
    """The limit of a text."""
    return NO_LIMIT if number is None else f"{number:,} characters"


def objects_in(value: Any, definitions: dict[str, Any]) -> Iterator[str]:
    """The models that a value may be, or hold; what is limited as a whole is not looked into."""
    if "x-limit" in value:
        return
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        if "properties" in definitions[name]:
            yield name
        else:
            yield from objects_in(definitions[name], definitions)
    for choice in ("anyOf", "oneOf", "allOf"):
        for form in value.get(choice, ()):
            yield from objects_in(form, definitions)
    if "items" in value:
        yield from objects_in(value["items"], definitions)


def page_text() -> str:
    """The text of the whole page."""
    cells: dict[str, tuple[list[str], list[str]]] = {}
    for column, kind in enumerate(("body", "query")):
        for model in models(kind):
            for field, words in limits_of(model):
                listed = cells.setdefault(words, ([], []))[column]
                if f"`{field}`" not in listed:
                    listed.append(f"`{field}`")
    rows = [
        f"| {words} | {', '.join(sorted(bodies))} | {', '.join(sorted(queries))} |\n"
        for words, (bodies, queries) in sorted(cells.items())
    ]
    return INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page_text())
