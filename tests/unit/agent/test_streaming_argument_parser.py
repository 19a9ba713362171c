"""The arguments of a call, read as they come: however they are cut, the outcome is the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from services.agent.domain.runs.streaming_argument_parser import (
    ArgumentNames,
    ReadArguments,
    StreamingArgumentParser,
)
from services.agent.domain.tools.call_arguments import arguments_of
from tests.contract.examples import CALL

NAMES = ArgumentNames("thinking", "message", {"beat": None, "given": None})
KEYS = st.sampled_from(["thinking", "message", "beat", "given", "label", 'a "key"', "\u00e9"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6)
WRITTEN = st.builds(
    json.dumps,
    OBJECTS,
    ensure_ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
BROKEN = st.one_of(
    st.text(st.sampled_from('{}[]",:\\u0 \nab1d8'), max_size=30),
    st.tuples(WRITTEN, st.integers(0, 60)).map(lambda cut: cut[0][: cut[1]]),
    st.tuples(WRITTEN, TEXTS).map("".join),
)


def read(text: str, places: set[int], names: ArgumentNames = NAMES) -> ReadArguments:
    """What is read of arguments that come in pieces; what came is only added to."""
    reader = StreamingArgumentParser(names)
    cuts = sorted({0, len(text), *(place for place in places if place <= len(text))})
    so_far = ReadArguments()
    for start, end in pairwise(cuts):
        fresh = reader.read(text[start:end])
        so_far.thoughts += fresh.thoughts
        so_far.words += fresh.words
        so_far.rest += fresh.rest
        assert reader.whole == so_far
    whole = reader.finish(text)
    assert whole.thoughts == so_far.thoughts
    assert whole.words == so_far.words
    assert whole.rest.startswith(so_far.rest)
    return whole


@given(text=st.one_of(WRITTEN, BROKEN), places=st.sets(st.integers(0, 60)))
@example(text='{"message": "\\ud83d\\ude00", "thinking": "\\ud83d"}', places=set(range(60)))
@example(text='{"message": "a\\', places={14})
def test_where_arguments_are_cut_makes_no_difference(text: str, places: set[int]) -> None:
    assert read(text, places) == read(text, set())


@given(given=OBJECTS, ascii=st.booleans(), indent=st.sampled_from([None, 2]))
def test_every_argument_goes_to_one_place(given: dict[str, Any], ascii: bool, indent: Any) -> None:
    whole = read(json.dumps(given, ensure_ascii=ascii, indent=indent), set(range(200)))
    thoughts, said = given.pop("thinking", ""), given.get("message")
    if isinstance(thoughts, str):
        assert whole.thoughts == thoughts
    if isinstance(said, str):
        assert whole.words == given.pop("message")
    for name in ("beat", "given"):
        given.pop(name, None)
    assert json.loads(whole.rest) == given


@given(text=BROKEN)
def test_what_is_no_object_does_not_become_one_that_runs_a_tool(text: str) -> None:
    """Unless all that is wrong with it is in what is left out, or a comma too many."""
    whole = read(text, set(), ArgumentNames())
    if not text.strip():
        assert whole.rest == ""
    made = arguments_of(CALL.model_copy(update={"arguments": whole.rest}))
    written = arguments_of(CALL.model_copy(update={"arguments": text}))
    if written is not None:
        assert made == written
    elif made is not None:
        assert "," in text


def test_what_is_added_stands_in_the_place_of_what_is_left_out() -> None:
    names = ArgumentNames(
        left_out={"beat": None}, added=lambda left_out: {"beat": left_out.get("beat") == "true"}
    )
    assert read('{"beat":true,"a":1}', set(), names).rest == '{"a": 1, "beat": true}'
    assert read('{"a":1}', set(), names).rest == '{"a": 1, "beat": false}'
    assert read("{}", set(), names).rest == '{"beat": false}'
    assert read('{"a":1', set(), names).rest == '{"a": 1', "what broke off stays so"


def test_of_two_arguments_with_words_the_first_counts() -> None:
    whole = read('{"message": "a", "thinking": 1, "message": "b", "thinking": "c"}', set())
    assert (whole.words, whole.thoughts, whole.rest) == ("a", "1", "{}")


def test_hostile_arguments_cost_as_much_as_they_are_long() -> None:
    """Each of these took minutes if a text were copied for each piece of it."""
    many = "{" + '"a":1,"beat":2,"message":"x",' * 6_000 + '"a":1}'
    long = '{"beat":"' + "x" * 100_000 + '","message":"' + "y\\n" * 30_000 + '"}'
    for text in (many, long):
        reader = StreamingArgumentParser(NAMES)
        for at in range(0, len(text), 16):
            reader.read(text[at : at + 16])
        assert reader.finish(text) == read(text, set())


def test_half_of_a_surrogate_pair_is_shown_as_torn() -> None:
    whole = read('{"message": "\\ud83dx \\ude00 \\ud83d\\n \\ud83d"}', set(range(60)))
    assert whole.words == "\ufffdx \ufffd \ufffd\n \ufffd"
