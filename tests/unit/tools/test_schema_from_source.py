"""Schemas of tools come from source that is parsed, whatever stands in it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.letta.tool_requests import SOURCE_CHARS_MAX
from services.tools.domain.schema_from_source import UnfitSource, schema_from_source

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def source(signature: str, about: str = "x: what it is", *, before: str = "") -> str:
    """A tool with these arguments."""
    return (
        f'{before}\ndef tool({signature}):\n    """Do it.\n\n    Args:\n        {about}\n    """\n'
    )


def argument(annotation: str) -> Any:
    """The schema of an argument of this type, without its description."""
    found = schema_from_source(source(f"x: {annotation}"))
    schema: Any = found["parameters"]["properties"]["x"]  # type: ignore[call-overload, index]
    assert schema.pop("description") == "what it is"
    return schema


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", TEXT),
        ("int", WHOLE),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("'int'", WHOLE),
        ("list[int]", {"type": "array", "items": WHOLE}),
        ("typing.List[str]", {"type": "array", "items": TEXT}),
        ("tuple[int, ...]", {"type": "array", "items": WHOLE}),
        ("dict", {"type": "object"}),
        ("dict[str, list[int]]", {
            "type": "object", "additionalProperties": {"type": "array", "items": WHOLE},
        }),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal[1, 'b', None]", {"enum": [1, "b", None]}),
        ("Optional[int]", WHOLE),
        ("None | int", WHOLE),
        ("Union[int, str, None]", {"anyOf": [WHOLE, TEXT]}),
        ("Annotated[int, 'odd']", WHOLE),
        ("Any", {}),
    ],
)  # fmt: skip
def test_a_type_becomes_the_schema_that_it_says(annotation: str, schema: Any) -> None:
    assert argument(annotation) == schema


@pytest.mark.parametrize(
    "annotation",
    [
        "Order", "models.Order", "dict[int, str]", "Literal[x]", "list[Order]", "lambda: 1", "f()",
        "'int +'", "Callable[[int], str]", "list[()]", "1", "[int]",
        "list[list[list[list[list[list[list[list[list[list[int]]]]]]]]]]",
    ],
)  # fmt: skip
def test_a_type_that_has_no_schema_is_refused_with_a_way_out(annotation: str) -> None:
    with pytest.raises(UnfitSource, match=r"argument `x` of `tool` .*`json_schema`"):
        argument(annotation)


def test_the_last_function_is_the_tool_and_what_has_a_default_is_not_required() -> None:
    found = schema_from_source(
        "import os\n\ndef helper(): ...\n\n"
        "@decorated\nasync def roll(agent_state: 'AgentState', sides: int, *, often: int = 1,"
        " loudly: bool) -> str:\n"
        '    """Roll a die.\n\n    Very fairly.\n\n    Args:\n'
        "        sides (int): how many sides\n            it has\n"
        "        often: how often\n        loudly: whether\n\n"
        '    Returns:\n        str: what came\n    """\n'
    )
    assert found == {
        "name": "roll",
        "description": "Roll a die.\n\nVery fairly.",
        "parameters": {
            "type": "object",
            "properties": {
                "sides": {**WHOLE, "description": "how many sides\nit has"},
                "often": {**WHOLE, "description": "how often"},
                "loudly": {"type": "boolean", "description": "whether"},
            },
            "required": ["sides", "loudly"],
        },
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def x(:", "invalid syntax .line 1"),
        ("", "no function"),
        ("class Tool:\n    def run(self): ...", "no function"),
        ("tool = lambda: 1", "no function"),
        ("def tool(): ...", "no docstring"),
        (source("x"), "`x` of `tool` has no type"),
        (source("x: int", "y: other"), "`x` of `tool` is not described"),
        (source("*x: int"), "name each of them"),
        (source("**x: int"), "name each of them"),
        (source("x: int, /"), "by name"),
        (f"def {'x' * 65}(): ...", "more than 64 characters"),
        (source(",".join(f"a{n}: int" for n in range(101))), "more than 100 arguments"),
        ("x" * (SOURCE_CHARS_MAX + 1), "may have 200000"),
        ("def tool():\n\x00", "null bytes"),
        ("def tool():\n '\\x00'", "cannot be stored: leave out NUL"),
        ("def tool():\n '\\ud800'", "cannot be stored: leave out NUL"),
        (source(r"x: Literal['\udfff']"), "cannot be stored"),
        ("\ud800", "surrogates"),
        ("(" * 100_000, "nested"),
        ("x = " + "-" * 150_000 + "1", "nested"),
        ("x = " + "1+" * 90_000 + "1", "nested"),
        (source("x: " + "int|" * 40_000 + "int"), "nested"),
        ("if 1:\n" + "".join(" " * n + "if 1:\n" for n in range(1, 200)), "indent"),
    ],
)
def test_what_is_no_tool_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(UnfitSource, match=words):
        schema_from_source(text)


def test_nothing_of_the_source_is_carried_out() -> None:
    before = "raise SystemExit\nimport services.no_such_module"
    assert schema_from_source(source("x: int = 1 / 0", before=before))["name"] == "tool"


@settings(max_examples=settings().max_examples * 2)
@given(st.text(max_size=200), st.text("int|[]'\",.()*=: \n\\#", max_size=60))
def test_any_text_is_a_tool_or_is_refused(text: str, annotation: str) -> None:
    for code in (text, source(f"x: {annotation}", text), f'def tool():\n    """{text}"""'):
        with suppress(UnfitSource):
            assert schema_from_source(code)["parameters"]


def test_a_docstring_with_a_field_without_a_name_is_refused() -> None:
    source = 'def roll(sides: int) -> int:\n    """: :"""\n    return sides\n'
    with pytest.raises(UnfitSource, match="the docstring of `roll`"):
        schema_from_source(source)
