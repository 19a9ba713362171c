"""What becomes of the arguments that models send, by the annotations of the function."""

from __future__ import annotations

import enum
import typing  # noqa: F401  for the annotations in quotes
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, TypedDict

import pytest
from pydantic import BaseModel

from services.tools.sandbox.argument_fitting import Unfit, fit, fit_arguments
from services.tools.sandbox.argument_models import Models, names_of

type Alias = list[int]
Id = NewType("Id", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.0


class Movie(TypedDict):
    title: str
    year: int


class Order(BaseModel):
    item: str
    amount: int = 1


CERTAIN: list[tuple[Any, Any, Any]] = [
    (int, "21", 21),
    (int, " -3 ", -3),
    (int, 21.0, 21),
    (int, "21.0", 21),
    (int, 10**30, 10**30),
    (int, str(10**30), 10**30),
    (int, 2.0**53 - 1, 2**53 - 1),
    (float, "1.5", 1.5),
    (float, 2, 2),
    (bool, "false", False),
    (bool, "True", True),
    (bool, 1, True),
    (bool, "no", False),
    (str, "21", "21"),
    (str, 21, "21"),
    (str, 1.5, "1.5"),
    (list, '["a", 1]', ["a", 1]),
    (list[int], '["1", 2]', [1, 2]),
    (list[int], "['1']", [1]),
    (list[list[bool]], [["false"], []], [[False], []]),
    (Sequence[int], ["1"], [1]),
    (Sequence[str], "a, b", "a, b"),
    (Sequence[str], '["a"]', ["a"]),
    (Iterable[str], "a", "a"),
    (Collection, "a", "a"),
    ("typing.Sequence", "a", "a"),
    (tuple[int, str], ["1", "a"], (1, "a")),
    (tuple[int, ...], "[1, 2]", (1, 2)),
    (set[str], ["a", "a"], {"a"}),
    (dict, '{"a": 1}', {"a": 1}),
    (dict[str, int], {"a": "1"}, {"a": 1}),
    (dict[int, list[int]], {"1": "[2]"}, {1: [2]}),
    (Mapping[str, bool], "{'a': True}", {"a": True}),
    (Literal["a", "b"], "b", "b"),
    (Literal[1, 2], "2", 2),
    (Literal["1", "2"], 2, "2"),
    (Literal[True, "x"], True, True),
    ("typing.Optional[int]", "4", 4),
    ("typing.Optional[int]", None, None),
    ("typing.Optional[int]", "null", None),
    ("typing.Optional[str]", "null", "null"),
    ("typing.Union[int, str]", "4", "4"),
    ("typing.Union[int, str]", 4, 4),
    (int | None, "4", 4),
    (float | int, 4, 4),
    (bool | None, "false", False),
    (bool | int, "1", 1),
    (bool | int, 1, 1),
    (bool | int, True, True),
    (bool | int, "true", True),
    ("typing.Union[bool, float, None]", "0", 0.0),
    (bool | Literal["on", 1], "1", 1),
    (list[str] | str, "a", "a"),
    (list[int] | dict[str, int], '{"a": "1"}', {"a": 1}),
    (Annotated[int, "how many"], "4", 4),
    ("typing.Optional[list[int]]", "[4]", [4]),
    ("list['int']", ["4"], [4]),
    (Alias, ["4"], [4]),
    (Id, "4", 4),
    (Colour, "red", Colour.RED),
    (list[Colour], ["blue"], [Colour.BLUE]),
    (Point, {"x": "1"}, Point(1)),
    (Point, '{"x": 1, "y": "2"}', Point(1, 2.0)),
    (Movie, {"title": 7, "year": "1999"}, {"title": "7", "year": 1999}),
    (Order, {"item": "tea", "amount": "2"}, Order(item="tea", amount=2)),
    (list[Order], '[{"item": "tea"}]', [Order(item="tea")]),
    (Any, "21", "21"),
    ("Unknown", "21", "21"),
    (bytes, "21", "21"),
]
UNFIT: list[tuple[Any, Any, str]] = [
    (int, "five", ': give a whole number, not "five"'),
    (int, "1.5", "a whole number"),
    (int, 1.5, "a whole number"),
    (int, True, "a whole number, not true"),
    (int, "inf", "a whole number"),
    (int, 2.0**53, "a whole number, not 9007199254740992.0"),
    (int, "-1e300", "a whole number"),
    (int, None, "a whole number, not null"),
    (int, [1], "a whole number, not [1]"),
    (float, "much", "a number"),
    (bool, "maybe", ': give true or false, not "maybe"'),
    (bool, 2, "true or false"),
    (str, None, "a text, not null"),
    (str, ["a"], 'a text, not ["a"]'),
    (str, True, "a text, not true"),
    (list, "a, b", 'a list, not "a, b"'),
    (list[str], "a", "a list"),
    (Sequence[int], "12", 'a list, not "12"'),
    (list[int], ["1", "b"], '[1]: give a whole number, not "b"'),
    (list[list[int]], [[1], ["b"]], "[1][0]: give"),
    (tuple[int, int], [1], " has 1 items: give 2"),
    (set[list[int]], [[1]], "simple values"),
    (dict, "[1]", 'an object, not "[1]"'),
    (dict[str, int], {"a": "b"}, "['a']: give a whole number"),
    (Literal["a", "b"], "c", ': give one of "a", "b", not "c"'),
    (Literal["a", "b"], "A", 'one of "a", "b"'),
    (Literal[1], True, "one of 1"),
    (int | None, "five", "a whole number or null, not"),
    (list[int] | Literal["all"], "some", 'a list or one of "all"'),
    (Colour, "green", 'one of "red", "blue"'),
    (Point, {"x": "a"}, ".x: give a whole number"),
    (Point, {}, "missing"),
    (Point, {"x": 1, "z": 1}, "unexpected keyword argument 'z'"),
    (Point, "far", "an object with the fields of Point"),
    (Movie, {"title": "a"}, "`year` is missing"),
    (Order, {"amount": "many"}, "`item`: Field required; `amount`: Input should be"),
]


@pytest.mark.parametrize(("kind", "sent", "got"), CERTAIN, ids=str)
def test_what_is_certain_becomes_what_the_annotation_says(kind: Any, sent: Any, got: Any) -> None:
    found = fit(sent, kind, globals())
    assert (found, type(found)) == (got, type(got))


@pytest.mark.parametrize(("kind", "sent", "words"), UNFIT, ids=str)
def test_what_is_not_certain_is_an_error_that_says_what_to_send(
    kind: Any, sent: Any, words: str
) -> None:
    with pytest.raises(Unfit) as unfit:
        fit(sent, kind, globals())
    assert words in str(unfit.value)
    assert "\n" not in str(unfit.value)


def defined(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    function: Callable[..., Any] = names["f"]
    return function


def test_all_that_does_not_fit_is_named_at_once() -> None:
    function = defined("def f(a: int, b: bool = False, *, c: str, d=1): pass")
    assert fit_arguments(function, {"a": "1", "b": "true", "c": "x", "d": "1", "e": "?"}, {}) == {
        "a": 1, "b": True, "c": "x", "d": "1", "e": "?",
    }  # fmt: skip
    with pytest.raises(TypeError, match=r"`a`: give a whole number.*; `b`: give true or false"):
        fit_arguments(function, {"a": "x", "b": "x", "c": "x"}, {})


def test_null_is_the_default_where_it_is_no_value() -> None:
    source = "def f(a: int = 5, b: str = None, c: 'int | None' = 3, *, d: list = (), e: int): pass"
    function = defined(source)
    given = dict.fromkeys("abcd")
    assert fit_arguments(function, given, {}) == {"c": None}
    with pytest.raises(TypeError, match="`e`: give a whole number, not null"):
        fit_arguments(function, {"e": None}, {})


def test_the_function_behind_a_decorator_says_what_fits() -> None:
    source = """
import functools
def twice(g):
    @functools.wraps(g)
    def h(*args, **kwargs):
        return 2 * g(*args, **kwargs)
    return h
@twice
def f(a: "int"): return a
"""
    assert fit_arguments(defined(source), {"a": "4"}, {}) == {"a": 4}
    assert fit_arguments(len, {"a": "4"}, {}) == {"a": "4"}


class Item(BaseModel):
    sku: str
    price: float
    colour: Colour = Colour.RED
    parts: list[Item] = []


class Entry(BaseModel):
    """An entry of a stock."""

    item: Item
    tags: dict[str, int] | None = None
    kind: Literal["in", "out"]


def test_a_schema_of_a_pydantic_model_makes_its_objects() -> None:
    models = Models(Entry.model_json_schema())
    names = names_of(models)
    sent = {
        "item": '{"sku": 7, "price": "2.5", "parts": [{"sku": "b", "price": 1, "colour": "blue"}]}',
        "tags": '{"a": "1"}',
        "kind": "in",
    }
    entry = fit(sent, models.root, {})
    assert (entry.item.sku, entry.item.price, entry.kind) == ("7", 2.5, "in")
    assert (entry.item.parts[0].colour.value, entry["tags"]) == ("blue", {"a": 1})
    assert isinstance(entry.item, names["Item"])
    assert Entry.model_validate(entry.model_dump()).model_dump_json()
    assert Entry.model_validate_json(entry.model_dump_json()).item.parts[0].colour is Colour.BLUE
    with pytest.raises(Unfit, match=r"\.item\.price: give a number"):
        fit({**sent, "item": {"sku": "", "price": "x"}}, models.root, {})
    with pytest.raises(Unfit, match="`item` is missing, `kind` is missing"):
        fit({}, models.root, {})


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"type": ["string", "null"]}, "b": True, "c": {"allOf": [{}]}}},
        {"properties": {"a": {"enum": [1, "x"]}, "b": {"const": "b"}}},
    ],
)
def test_an_odd_schema_takes_what_it_does_not_forbid(schema: dict[str, Any]) -> None:
    found = fit({"a": "x", "b": "b", "c": 1}, Models(schema).root, {})
    assert vars(found) == {"a": "x", "b": "b", "c": 1}
