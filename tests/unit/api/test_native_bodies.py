"""Bodies of the native API: what is wrong with them is named, however long it is."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from services.api.http.error_responses import Problem
from services.api.http.request_parsing import json_of
from services.api.v1.native_bodies import FIELD_CHARS_MAX, fitting, native_json
from tests.processor_bounds import processor_time


class Asked(BaseModel):
    """A body with one field."""

    model_config = ConfigDict(extra="forbid")

    message: str


@pytest.mark.parametrize(
    "unknown",
    [{"x" * 6_000_000: 1}, {f"field_{number}": 1 for number in range(90_000)}],
    ids=["long", "many"],
)
def test_unknown_fields_are_named_soon_and_in_short(unknown: dict[str, int]) -> None:
    with pytest.raises(Problem) as refused, processor_time():
        fitting({"message": "Hello", **unknown}, Asked, "body")
    problems: Any = refused.value.body["problems"]
    assert all(len(problem["field"]) <= FIELD_CHARS_MAX for problem in problems)
    assert len(str(refused.value.body)) < 50_000


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(Problem) as refused:
        fitting({"message": "Hello", "mesage": "Hello"}, Asked, "body")
    assert "did you mean `message`?" in str(refused.value.body)


HALVES = [
    (rb'{"messages": [{"content": "a"}, {"content": "\ud800"}]}', ["messages", 1, "content"]),
    (b'{"block": {"value": "a \xed\xa0\x80"}}', ["block", "value"]),
    (rb'{"args": {"x": ["\udc00\ud800"]}}', ["args", "x", 0]),
    (rb'{"metadata": {"\ud83d": 1}}', ["metadata", "\ud83d"]),
    (rb'"\ud800"', []),
]


@pytest.mark.parametrize(("raw", "path"), HALVES)
def test_half_of_a_surrogate_pair_is_refused_by_the_name_of_its_field(
    raw: bytes, path: list[str | int]
) -> None:
    with pytest.raises(Problem) as refused:
        json_of(raw)
    assert refused.value.status == 422
    assert str(("body", *path)) in str(refused.value.body["detail"])
    assert "half of a surrogate pair" in str(refused.value.body["detail"])
    to_json(refused.value.body)  # the answer itself can be sent
    with pytest.raises(Problem) as native:
        native_json(raw)
    assert "half of a surrogate pair" in str(native.value.body)
    to_json(native.value.body)


@pytest.mark.parametrize("raw", [rb'"\ud83d\ude00"', rb'"\\ud800"', '"😀"'.encode()])
def test_a_whole_pair_is_a_character(raw: bytes) -> None:
    assert json_of(raw) in ("😀", "\\ud800")


def test_a_body_that_is_long_is_not_looked_at_again() -> None:
    with pytest.raises(Problem) as refused, processor_time():
        json_of(b'["' + b"x" * 6_000_000 + rb'\ud800"]')
    assert refused.value.status == 422
    assert len(str(refused.value.body)) < 1_000
