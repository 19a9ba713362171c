"""What providers are told of tools whose schemas say too little, or say it otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from services.agent.adapters.models.anthropic_request import anthropic_tool
from services.agent.adapters.models.tool_schemas import anthropic_arguments, arguments
from tests.unit.agent.asking import ask
from tests.unit.agent.openai_documents import body_of

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def of(properties: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **fields}


@pytest.mark.parametrize("name", sorted(SERVER_TOOLS))
def test_what_is_whole_is_told_as_it_is(name: str) -> None:
    schema = SERVER_TOOLS[name].json_schema
    assert arguments(schema["parameters"]) == schema["parameters"]  # type: ignore[arg-type]
    assert anthropic_tool(schema)["input_schema"] == schema["parameters"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, of({})),
        (of({"a": {"type": "array"}}), of({"a": {"type": "array", "items": {}}})),
        (
            of({"a": {"type": ["array", "null"]}}),
            of({"a": {"type": ["array", "null"], "items": {}}}),
        ),
        (
            of({"a": {"type": "array", "items": [TEXT, NUMBER]}}),
            of({"a": {"type": "array", "items": {"anyOf": [TEXT, NUMBER]}}}),
        ),
        (
            of({"a": {"anyOf": [{"type": "array", "items": {"type": "array"}}, TEXT]}}),
            of(
                {
                    "a": {
                        "anyOf": [
                            {"type": "array", "items": {"type": "array", "items": {}}},
                            TEXT,
                        ]
                    }
                }
            ),
        ),
        (of({"a": True}), of({"a": {}})),
        (of({"a": {"type": "any", "description": "d"}}), of({"a": {"description": "d"}})),
        (of({"a": {"type": ["string", "any"]}}), of({"a": {"type": ["string"]}})),
        (of({}, required=["a"]), of({"a": {}}, required=["a"])),
        (
            {
                "oneOf": [
                    of({"a": TEXT, "c": TEXT}, required=["a", "c"]),
                    of({"b": TEXT, "c": NUMBER}, required=["c"]),
                ]
            },
            of({"a": TEXT, "c": {"anyOf": [TEXT, NUMBER]}, "b": TEXT}, required=["c"]),
        ),
        (
            of(
                {"a": TEXT},
                required=["a"],
                allOf=[of({"b": TEXT}, required=["b"]), of({"c": TEXT})],
            ),
            of({"a": TEXT, "b": TEXT, "c": TEXT}, required=["a", "b"]),
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": of({"a": TEXT})}},
            of({"a": TEXT}, required=[], **{"$defs": {"x": of({"a": TEXT})}}),
        ),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": of({"a": TEXT})}},
            of({"a": TEXT}, **{"$defs": {"x": of({"a": TEXT})}}),
        ),
        (
            of({"oneOf": TEXT, "enum": {"type": "array"}}),
            of({"oneOf": TEXT, "enum": {"type": "array", "items": {}}}),
        ),
    ],
)
def test_what_a_provider_would_refuse_is_completed(given: Any, told: Any) -> None:
    assert arguments(given) == told
    assert arguments(told) == told, "once is enough"


def test_anthropic_is_told_of_no_argument_whose_name_it_refuses() -> None:
    given = of({"a.b": TEXT, "filter[x]": TEXT}, required=["a.b", "filter[x]"])
    assert anthropic_arguments(given) == of({"a.b": TEXT}, required=["a.b"])


def test_requests_bring_completed_schemas() -> None:
    tool = {"name": "tag", "description": "", "parameters": of({"tags": {"type": "array"}})}
    [sent] = body_of(ask(tools=[tool]))["tools"]  # type: ignore[misc, union-attr, arg-type]
    assert sent["function"]["parameters"] == of({"tags": {"type": "array", "items": {}}})  # type: ignore[index, call-overload]
    assert anthropic_tool(tool)["input_schema"] == of({"tags": {"type": "array", "items": {}}})  # type: ignore[arg-type]
