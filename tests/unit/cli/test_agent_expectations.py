"""What an agent did against what was expected: each kind of expectation holds, and fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.agent_tests.answers import Answer, Call
from cli.agent_tests.expectations import Failure, check, is_part
from cli.agent_tests.scenarios import Expectation

SEARCH = Call("search", {"query": "tea", "limit": 3}, "1", "green tea", "success")
BOOK = Call("book", {"seat": {"row": 4, "place": "a"}}, "2", "sold out", "error")
ANSWER = Answer(
    said="Find tea",
    text="Green tea is sold out.",
    tool_calls=[SEARCH, BOOK],
    steps=3,
    tokens=500,
    cost_usd=0.02,
    memory={"human": "Likes tea", "plans": ""},
)
HOLD: list[dict[str, Any]] = [
    {"contains": "tea"},
    {"contains": ["Green", "sold out"]},
    {"not_contains": ["coffee", "milk"]},
    {"matches": r"^Green .* out\.$"},
    {"equals": "Green tea is sold out.\n"},
    {"tool_calls": [{"name": "search"}, {"name": "book"}]},
    {"tool_calls": [{"name": "search", "arguments": {"query": "tea"}}]},
    {"tool_calls": [{"name": "book", "arguments": {"seat": {"row": 4}}}]},
    {"tool_calls": [{"name": "search", "returns": "green", "status": "success"}]},
    {"tool_calls": [{"name": "book", "status": "error"}]},
    {"memory": {"human": {"contains": "tea", "not_contains": "milk", "matches": "^Likes"}}},
    {"memory": {"plans": {"equals": ""}}},
    {"cost_usd_max": 0.02},
    {"tokens_max": 500},
    {"steps_max": 3},
    {"stop_reason": "end_turn"},
]
# Each with the place of the expectation that does not hold, and words of what is said of it.
FAIL: list[tuple[dict[str, Any], str, str]] = [
    ({"contains": ["tea", "milk"]}, "contains.1", "nothing that contains 'milk'"),
    ({"not_contains": "sold"}, "not_contains.0", "the agent said 'sold'"),
    ({"matches": ["tea", "^tea"]}, "matches.1", "nothing that matches '^tea'"),
    ({"equals": "Tea is sold out."}, "equals", "something else"),
    ({"tool_calls": [{"name": "buy"}]}, "tool_calls.0", "did not call buy"),
    (
        {"tool_calls": [{"name": "book"}, {"name": "search"}]},
        "tool_calls.1",
        "did not call search after the calls above",
    ),
    (
        {"tool_calls": [{"name": "search"}, {"name": "search"}]},
        "tool_calls.1",
        "did not call search after the calls above",
    ),
    (
        {"tool_calls": [{"name": "search", "arguments": {"query": "milk"}}]},
        "tool_calls.0",
        "with other arguments",
    ),
    (
        {"tool_calls": [{"name": "book", "arguments": {"seat": {"row": 5}}}]},
        "tool_calls.0",
        "with other arguments",
    ),
    (
        {"tool_calls": [{"name": "book", "status": "success"}]},
        "tool_calls.0",
        "with the status error: sold out",
    ),
    (
        {"tool_calls": [{"name": "search", "returns": "black"}]},
        "tool_calls.0",
        "returned nothing that contains 'black': green tea",
    ),
    ({"no_tool_calls": True}, "no_tool_calls", "the agent called search, book"),
    (
        {"memory": {"human": {"contains": "milk"}}},
        "memory.human.contains.0",
        "the block 'human' says nothing that contains 'milk'",
    ),
    ({"memory": {"human": {"not_contains": "tea"}}}, "memory.human.not_contains.0", "says 'tea'"),
    ({"memory": {"human": {"matches": "^tea"}}}, "memory.human.matches.0", "matches '^tea'"),
    ({"memory": {"human": {"equals": "tea"}}}, "memory.human.equals", "something else"),
    ({"memory": {"humans": {"contains": "x"}}}, "memory.humans", "no block 'humans', but human"),
    ({"cost_usd_max": 0.0199}, "cost_usd_max", "cost 0.020000 USD, more than 0.0199"),
    ({"tokens_max": 499}, "tokens_max", "500 tokens, more than 499"),
    ({"steps_max": 2}, "steps_max", "3 steps, more than 2"),
    ({"stop_reason": "requires_approval"}, "stop_reason", "ended with end_turn"),
    ({"error": "no tea"}, "error", "ended with end_turn, not with error"),
]


def checked(answer: Answer, **expect: Any) -> list[Failure]:
    return check(answer, Expectation.model_validate(expect))


def place(failure: Failure) -> str:
    return ".".join(map(str, failure.path))


@pytest.mark.parametrize("expect", HOLD, ids=str)
def test_what_holds_is_no_failure(expect: dict[str, Any]) -> None:
    assert checked(ANSWER, **expect) == []


@pytest.mark.parametrize(("expect", "where", "words"), FAIL, ids=lambda given: str(given)[:60])
def test_what_does_not_hold_is_a_failure(expect: dict[str, Any], where: str, words: str) -> None:
    [failure] = checked(ANSWER, **expect)
    assert (place(failure), words in failure.message) == (where, True), failure


def test_each_expectation_is_told_when_it_fails() -> None:
    kinds = {name for expect, _, _ in FAIL for name in expect}
    assert kinds == Expectation.model_fields.keys()


def test_all_that_does_not_hold_is_told_at_once() -> None:
    failures = checked(ANSWER, contains=["milk"], steps_max=1, memory={"human": {"equals": ""}})
    assert [place(failure) for failure in failures] == [
        "contains.0",
        "memory.human.equals",
        "steps_max",
    ]


def test_a_run_that_fails_is_a_failure_whatever_else_is_expected() -> None:
    failed = replace(ANSWER, text="", stop_reason="error", error="the model is away")
    [failure] = checked(failed, contains="tea")
    assert failure.message == "the run failed: the model is away"
    assert checked(failed, error="is away") == []
    assert checked(failed, stop_reason="error") == []
    [failure] = checked(failed, error="no such model")
    assert "but not with 'no such model'" in failure.message


def test_a_run_that_ends_otherwise_than_usual_has_to_be_expected_to() -> None:
    stopped = replace(ANSWER, stop_reason="max_steps")
    [failure] = checked(stopped)
    assert "the run ended with max_steps" in failure.message
    assert checked(stopped, stop_reason="max_steps") == []
    assert checked(replace(ANSWER, stop_reason="tool_rule")) == []


def test_a_cost_that_is_not_known_is_not_within_a_limit() -> None:
    [failure] = checked(replace(ANSWER, cost_usd=None), cost_usd_max=1)
    assert "HEELER_PRICES" in failure.message


def test_true_is_not_one_and_a_difference_is_shown_by_lines() -> None:
    call = Call("book", {"seats": 1, "note": "aisle"}, "3", "ok", "success")
    answer = replace(ANSWER, tool_calls=[call])
    wanted = {"name": "book", "arguments": {"seats": True}}
    [failure] = checked(answer, tool_calls=[wanted])
    assert '-   "seats": true' in failure.difference
    assert '+   "seats": 1' in failure.difference


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, min_size=1), st.data())
def test_arguments_fit_with_more_keys_and_never_with_fewer(
    wanted: dict[str, Any], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(wanted)))
    assert is_part(wanted, {**wanted, "another key": 1})
    assert not is_part(wanted, {name: value for name, value in wanted.items() if name != key})
    assert not is_part(wanted, {**wanted, key: ["something else"]})
