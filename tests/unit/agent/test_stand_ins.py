"""What servers answer that stand in for a provider: it is read for what it can be taken for, and
ends as an answer, or as one sentence that names the provider and what was odd."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from services.agent.adapters.models import http_provider
from services.agent.adapters.models.http_provider import HttpProvider
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.transport import Refused
from services.agent.domain.runs.reply_interpretation import NO_ROOM, ONLY_THOUGHTS, with_words
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.unit.agent.asking import RawWire, reply_to, script, streamed
from tests.unit.agent.stand_in_answers import CLAUDE, claude, claude_events, openai

EITHER_WAY = pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
CALLS = "tool_calls"
ONE = {"name": "look", "arguments": '{"a": 1}'}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "PAUSE_SECONDS", [0.0])


async def answer_of(provider: HttpProvider, *, in_pieces: bool, **llm: Any) -> ModelReply:
    request = script("Hi", **llm)
    return (
        (await streamed(provider, request))[1] if in_pieces else await reply_to(provider, request)
    )


async def failure_of(provider: HttpProvider, *, in_pieces: bool = False) -> Failure:
    with pytest.raises(ModelFailed) as raised:
        await answer_of(provider, in_pieces=in_pieces)
    return raised.value.failure


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def said(finish_reason: str | None = "stop", **message: Any) -> Any:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def sse(*events: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + body(event) + b"\n\n" for event in events) + end


def pieces(*deltas: Any, finish_reason: str | None = "stop", end: bytes = b"") -> bytes:
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return sse(*events, {"choices": [{"delta": {}, "finish_reason": finish_reason}]}, end=end)


def calls_in(reply: ModelReply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.tool_calls]


# ---------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"a": 2, "b": ["ü"]}, '{"a": 2, "b": ["ü"]}'),
        ({}, "{}"),
        (None, "{}"),
        ("", "{}"),
        (" ", "{}"),
        ("null", "{}"),
        ([1], "[1]"),
        (7, "7"),
        ('{"a": 2}', '{"a": 2}'),
        ("nonsense", "nonsense"),
    ],
)
@EITHER_WAY
async def test_arguments_may_be_an_object_or_nothing(
    arguments: Any, read: str, in_pieces: bool
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "look", "arguments": arguments}}
    told = {CALLS: [call]}
    raw = pieces(told, finish_reason=CALLS) if in_pieces else body(said(CALLS, **told))
    assert calls_in(await answer_of(openai(raw), in_pieces=in_pieces)) == [("look", read)]


@EITHER_WAY
@pytest.mark.parametrize("call", [{"function": {"name": "look"}}, {"function": "x"}, {}])
async def test_a_call_without_arguments_or_id_or_name_is_a_call(call: Any, in_pieces: bool) -> None:
    told = {CALLS: [call]}
    raw = pieces(told) if in_pieces else body(said(**told))
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert calls_in(reply) == [("look" if "function" in call and call["function"] != "x" else
                                "unnamed", "{}")]  # fmt: skip
    assert reply.tool_calls[0].id


def of(index: Any = ..., call_id: Any = ..., name: Any = ..., arguments: Any = ...) -> Any:
    """A delta with a piece of one call; what is not given is left out."""
    function = {"name": name, "arguments": arguments}
    call = {
        "index": index,
        "id": call_id,
        "function": {key: value for key, value in function.items() if value is not ...},
    }
    return {CALLS: [{key: value for key, value in call.items() if value is not ...}]}


LOOK_AND_FIND = [("look", '{"a": 1}'), ("find", '{"b": 2}')]
STREAMED_CALLS: dict[str, tuple[list[Any], list[tuple[str, str]]]] = {
    "the name after the id": (
        [of(0, "a"), of(0, name="look"), of(0, arguments='{"a": 1}')],
        LOOK_AND_FIND[:1],
    ),
    "the name after the arguments": (
        [of(0, "a", arguments='{"a": '), of(0, arguments="1}"), of(0, name="look")],
        LOOK_AND_FIND[:1],
    ),
    "the id after the name": (
        [of(0, name="look"), of(0, "a"), of(0, arguments='{"a": 1}')],
        LOOK_AND_FIND[:1],
    ),
    "the name in pieces": (
        [of(0, "a", "lo", ""), of(0, name="ok"), of(0, arguments='{"a": 1}')],
        LOOK_AND_FIND[:1],
    ),
    "the name and the id in each piece": (
        [of(0, "a", "look", '{"a"'), of(0, "a", "look", ": 1"), of(0, "a", "look", "}")],
        LOOK_AND_FIND[:1],
    ),
    "another id in each piece": (
        [of(0, "a", "look", '{"a"'), of(0, "b", arguments=": 1"), of(0, "c", "", "}")],
        LOOK_AND_FIND[:1],
    ),
    "empty names and ids behind the first piece": (
        [of(0, "a", "look", ""), of(0, "", "", '{"a": '), of(0, None, None, "1}")],
        LOOK_AND_FIND[:1],
    ),
    "the same index for all": (
        [of(0, "a", "look", '{"a": 1}'), of(0, "b", "find", '{"b": '), of(0, arguments="2}")],
        LOOK_AND_FIND,
    ),
    "the same index for all, and no ids": (
        [of(0, None, "look", '{"a": 1}'), of(0, None, "find", '{"b": 2}')],
        LOOK_AND_FIND,
    ),
    "the same id for all": (
        [of(0, "call_0", "look", '{"a": 1}'), of(1, "call_0", "find", '{"b": 2}')],
        LOOK_AND_FIND,
    ),
    "no index": (
        [
            *(of(call_id="a", name="look", arguments='{"a"'), of(arguments=": 1}")),
            *(of(call_id="b", name="find", arguments='{"b"'), of(arguments=": 2}")),
        ],
        LOOK_AND_FIND,
    ),
    "no index and no id": (
        [of(name="look", arguments='{"a": 1}'), of(name="find", arguments={"b": 2})],
        LOOK_AND_FIND,
    ),
    "no index, and ids in all pieces, one call in the other": (
        [
            *(of(call_id="a", name="look", arguments='{"a"'), of(call_id="b", name="find")),
            *(of(call_id="a", arguments=": 1}"), of(call_id="b", arguments='{"b": 2}')),
        ],
        LOOK_AND_FIND,
    ),
    "one call in the other": (
        [
            *(of(0, "a", "look", '{"a"'), of(1, "b", "find", '{"b"')),
            *(of(0, arguments=": 1}"), of(1, arguments=": 2}")),
        ],
        LOOK_AND_FIND,
    ),
    "indices that count down": (
        [of(1, "a", "look", '{"a": 1}'), of(0, "b", "find", '{"b": 2}')],
        LOOK_AND_FIND,
    ),
    "all names before all arguments": (
        [
            *(of(0, "a", "look", ""), of(1, "b", "find", "")),
            *(of(0, arguments='{"a": 1}'), of(1, arguments='{"b": 2}')),
        ],
        LOOK_AND_FIND,
    ),
    "both in one event, without indices": (
        [
            {
                CALLS: [
                    {"id": "a", "function": {"name": "look", "arguments": {"a": 1}}},
                    {"id": "b", "function": {"name": "find", "arguments": {"b": 2}}},
                ]
            }
        ],
        LOOK_AND_FIND,
    ),
    "an object without a list": (
        [{CALLS: {"id": "a", "function": {"name": "look", "arguments": {"a": 1}}}}],
        LOOK_AND_FIND[:1],
    ),
    "the function call of old servers": (
        [{"function_call": {"name": "look"}}, {"function_call": {"arguments": '{"a": 1}'}}],
        LOOK_AND_FIND[:1],
    ),
}


@pytest.mark.parametrize(("deltas", "calls"), STREAMED_CALLS.values(), ids=STREAMED_CALLS)
async def test_a_streamed_call_is_found_by_what_its_pieces_say(
    deltas: list[Any], calls: list[tuple[str, str]]
) -> None:
    raw = pieces(*deltas, finish_reason=CALLS)
    reply = await answer_of(openai(raw), in_pieces=True)
    assert calls_in(reply) == calls
    assert len({call.id for call in reply.tool_calls}) == len(calls)


# ---------------------------------------------------------------------------------- thoughts


@pytest.mark.parametrize(
    "thoughts",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning": "Hm.", "reasoning_content": "Hm."},
        {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}]},
        {"reasoning": None, "reasoning_content": "Hm."},
    ],
)
@EITHER_WAY
async def test_thoughts_are_found_under_every_name_and_once(thoughts: Any, in_pieces: bool) -> None:
    raw = pieces(thoughts, {"content": "Hi"}) if in_pieces else body(said(content="Hi", **thoughts))
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert (reply.reasoning, reply.text) == ("Hm.", "Hi")


@EITHER_WAY
async def test_a_content_may_come_in_parts(in_pieces: bool) -> None:
    parts = {"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}
    raw = pieces(parts) if in_pieces else body(said(**parts))
    assert (await answer_of(openai(raw), in_pieces=in_pieces)).text == "Hi"


# ---------------------------------------------------------------------------------- refusals


@EITHER_WAY
async def test_a_refusal_is_what_the_model_says(in_pieces: bool) -> None:
    refusal = {"content": None, "refusal": "I cannot help with that."}
    raw = pieces({"refusal": "I cannot help"}, {"refusal": " with that."})
    reply = await answer_of(
        openai(raw if in_pieces else body(said(**refusal))), in_pieces=in_pieces
    )
    assert reply.text == "I cannot help with that."


@EITHER_WAY
async def test_what_a_content_filter_took_away_is_told(in_pieces: bool) -> None:
    found = {"violence": {"filtered": True, "severity": "high"}, "hate": {"filtered": False}}
    choice = {"finish_reason": "content_filter", "content_filter_results": found}
    whole = body({"choices": [{"message": {"content": None}, **choice}]})
    raw = sse({"choices": [{"delta": {"content": ""}}]}, {"choices": [{"delta": {}, **choice}]})
    reply = await answer_of(openai(raw if in_pieces else whole), in_pieces=in_pieces)
    why = "[The model refused to answer: a content filter stopped it: violence: high.]"
    assert (reply.text, reply.finish_reason) == (why, "content_filter")


@pytest.mark.parametrize("choice", [{}, {"message": None}, {"delta": {}}, {"message": {}}])
@EITHER_WAY
async def test_what_was_filtered_may_have_no_message(choice: Any, in_pieces: bool) -> None:
    raw = body({"choices": [{**choice, "finish_reason": "content_filter"}]})
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert reply.text.startswith("[The model refused to answer: a content filter")
    raw = body({"type": "message", "content": None, "stop_reason": "refusal"})
    reply = await answer_of(claude(raw), in_pieces=in_pieces)
    assert reply.text.startswith("[The model refused to answer: a content filter")


async def test_a_server_that_does_not_stream_is_asked_for_the_whole() -> None:
    provider = openai(named("streaming is not supported by this model"), body(said(content="Hi")))
    assert (await answer_of(provider, in_pieces=True)).text == "Hi"


async def test_what_was_said_before_a_content_filter_stays() -> None:
    raw = pieces({"content": "First you"}, finish_reason="content_filter")
    reply = await answer_of(openai(raw), in_pieces=True)
    assert reply.text.startswith("First you\n\n[The model broke off here: a content filter")


@EITHER_WAY
async def test_claude_refuses_and_says_why(in_pieces: bool) -> None:
    stop = {"stop_reason": "refusal", "stop_details": {"category": "cyber"}}
    raw = sse({"type": "message_start", "message": {}}, {"type": "message_delta", "delta": stop})
    whole = body({"type": "message", "content": [], **stop})
    reply = await answer_of(claude(raw if in_pieces else whole), in_pieces=in_pieces)
    assert reply.text == "[The model refused to answer: a content filter stopped it: cyber.]"


# ---------------------------------------------------------------------------------- events

HI = {"choices": [{"delta": {"content": "Hi"}}]}
STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
FRAMES = {
    "an empty data line": b"data: %b\n\ndata:\n\ndata: \n\ndata: %b\n\n",
    "comments": b": OPENROUTER PROCESSING\n\ndata: %b\n\n: ping\n\ndata: %b\n\n",
    "CRLF": b"data: %b\r\n\r\ndata: %b\r\n\r\ndata: [DONE]\r\n\r\n",
    "CR": b"data: %b\r\rdata: %b\r\rdata: [DONE]\r\r",
    "no empty lines": b"data: %b\ndata: %b\ndata: [DONE]\n",
    "other fields": b"id: 7\nevent: message\nretry: 10\ndata: %b\n\nid: 8\ndata: %b\n\n",
    "no end of line": b"data: %b\n\ndata: %b",
    "no space": b"data:%b\n\ndata:%b\n\n",
    "a byte order mark": b"\xef\xbb\xbfdata: %b\n\ndata: %b\n\n",
    "empty lines before": b"\n\n\ndata: %b\n\ndata: %b\n\n",
    "something behind the end": b"data: %b\n\ndata: %b\n\ndata: [DONE]\n\ndata: oh\n\n",
    "events that say nothing": b"data: null\n\ndata: %b\n\ndata: {}\n\ndata: []\n\ndata: %b\n\n",
}


@pytest.mark.parametrize("chunk_bytes", [1, 7, 2**16])
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@EITHER_WAY
async def test_events_may_be_framed_in_many_ways(
    frame: bytes, chunk_bytes: int, in_pieces: bool
) -> None:
    provider = openai(frame % (body(HI), body(STOP)), chunk_bytes=chunk_bytes)
    assert (await answer_of(provider, in_pieces=in_pieces)).text == "Hi"


async def test_an_event_may_take_several_lines() -> None:
    lines = json.dumps(HI, indent=1).splitlines()
    raw = "".join(f"data: {line}\r\n" for line in lines).encode() + b"\r\n" + sse(STOP)
    for chunk_bytes in (1, 7, 2**16):
        provider = openai(raw, chunk_bytes=chunk_bytes)
        assert (await answer_of(provider, in_pieces=True)).text == "Hi"


async def test_a_stream_need_not_say_why_it_ends_if_it_says_that_it_does() -> None:
    assert (await answer_of(openai(sse(HI)), in_pieces=True)).text == "Hi"


async def test_a_stream_that_just_ends_is_no_answer() -> None:
    failure = await failure_of(openai(sse(HI, end=b"")), in_pieces=True)
    assert failure.message == (
        "openai at http://model/v1 broke off its answer: it ended in the middle"
    )


async def test_a_whole_answer_may_come_where_a_stream_was_asked_for() -> None:
    whole = body(said(content="Hi", tool_calls=[{"id": "a", "function": ONE}]))
    for raw in (whole, json.dumps(json.loads(whole), indent=2).encode(), b"\n " + whole):
        reply = await answer_of(openai(raw, chunk_bytes=7), in_pieces=True)
        assert (reply.text, calls_in(reply)) == ("Hi", [("look", '{"a": 1}')])


async def test_a_stream_may_come_where_a_whole_answer_was_asked_for() -> None:
    raw = pieces({"content": "Hi"}, of(0, "a", "look", '{"a": '), of(0, arguments="1}"))
    reply = await answer_of(openai(raw), in_pieces=False)
    assert (reply.text, calls_in(reply)) == ("Hi", [("look", '{"a": 1}')])


def without(events: Iterable[Any], **left_out: Any) -> list[Any]:
    """The events without those that have such a type."""
    return [event for event in events if event["type"] not in left_out.values()]


@pytest.mark.parametrize("asked_in_pieces", [False, True])
@pytest.mark.parametrize("told_in_pieces", [False, True])
async def test_claude_may_answer_in_either_way(asked_in_pieces: bool, told_in_pieces: bool) -> None:
    raw = sse(*claude_events(), end=b"") if told_in_pieces else body(CLAUDE)
    reply = await answer_of(claude(raw, chunk_bytes=9), in_pieces=asked_in_pieces)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hi", "Hm.", "tool_calls")
    assert calls_in(reply) == [("look", '{"a": 1}')]
    assert [part.signature for part in reply.reasoning_parts] == ["c2ln"]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 4)


@pytest.mark.parametrize(
    "kind", ["message_start", "content_block_stop", "message_stop", "message_delta"]
)
async def test_claude_may_leave_out_events(kind: str) -> None:
    raw = sse(*without(claude_events(), kind=kind), end=b"")
    reply = await answer_of(claude(raw), in_pieces=True)
    assert (reply.text, reply.reasoning) == ("Hi", "Hm.")
    assert calls_in(reply) == [("look", '{"a": 1}')]


async def test_claude_may_leave_out_what_an_event_is() -> None:
    events = [
        {key: value for key, value in event.items() if key != "type"} for event in claude_events()
    ]
    for event in events:
        if "delta" in event:
            event["delta"] = {k: v for k, v in event["delta"].items() if k != "type"}
    reply = await answer_of(claude(sse(*events, end=b"")), in_pieces=True)
    assert (reply.text, reply.reasoning) == ("Hi", "Hm.")
    assert calls_in(reply) == [("look", '{"a": 1}')]


@pytest.mark.parametrize(
    ("given", "parts", "read"),
    [
        ({"input": {"a": 1}}, [], '{"a": 1}'),
        ({}, [], "{}"),
        ({"input": None}, [], "{}"),
        ({"input": {}}, [], "{}"),
        ({"input": '{"a": 1}'}, [], '{"a": 1}'),
        ({}, ['{"a"', ": 1}"], '{"a": 1}'),
        ({"input": {"a": 1}}, ['{"a"', ": 1}"], '{"a": 1}'),
        ({"input": {"a": 1}}, [""], '{"a": 1}'),
    ],
)
async def test_claude_may_give_the_arguments_where_a_call_begins(
    given: Any, parts: list[str], read: str
) -> None:
    block = {"type": "tool_use", "id": "a", "name": "look", **given}
    events: list[Any] = [{"type": "content_block_start", "index": 0, "content_block": block}]
    for part in parts:
        delta = {"type": "input_json_delta", "partial_json": part}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events += [{"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]
    reply = await answer_of(claude(sse(*events, end=b"")), in_pieces=True)
    assert calls_in(reply) == [("look", read)]


@pytest.mark.parametrize("given", [{"input": {"a": 1}}, {"input": '{"a": 1}'}, {}, {"input": None}])
async def test_a_whole_call_of_claude_may_have_any_arguments(given: Any) -> None:
    block = {"type": "tool_use", "id": "a", "name": "look", **given}
    reply = await answer_of(claude(body({"content": [block]})), in_pieces=False)
    assert calls_in(reply) == [("look", '{"a": 1}' if given.get("input") else "{}")]


# ---------------------------------------------------------------------------------- errors

INSIDE = {
    "object": {"error": {"message": "It broke", "code": 400}},
    "text": {"error": "It broke: bad request"},
    "top": {"object": "error", "message": "It broke", "code": 400},
    "type": {"type": "error", "error": {"type": "invalid_request_error", "message": "It broke"}},
    "bare": {"message": "It broke", "code": 400},
    "detail": {"detail": "It broke"},
    "list": [{"error": {"message": "It broke", "code": 400}}],
    "nested": {"error": {"error": {"message": "It broke", "type": "BadRequestError"}}},
    "choice": {"choices": [{"error": {"message": "It broke", "code": 400}, "message": {}}]},
}


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (made, error)
        for made in (openai, claude)
        for error in INSIDE.values()
        if made is openai or "choices" not in error
    ],
)
@EITHER_WAY
async def test_an_error_may_come_with_the_status_200(
    error: Any, made: Any, in_pieces: bool
) -> None:
    for raw in (body(error), sse(error), b"event: error\n" + sse(error, end=b"")):
        failure = await failure_of(made(*[raw] * 3), in_pieces=in_pieces)
        assert "It broke" in failure.message
        assert failure.message.startswith(("openai at http://model", "anthropic at http://model"))


@pytest.mark.parametrize("made", [openai, claude])
@EITHER_WAY
async def test_what_can_pass_is_tried_again_also_with_the_status_200(
    made: Any, in_pieces: bool
) -> None:
    busy = body({"error": {"message": "Slow down", "code": 429}})
    claude_busy = body({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})
    provider = made(busy, claude_busy, body(said(content="Hi") if made is openai else CLAUDE))
    assert (await answer_of(provider, in_pieces=in_pieces)).text == "Hi"
    failure = await failure_of(made(*[busy] * 3), in_pieces=in_pieces)
    assert (failure.error_type, "Slow down" in failure.message) == ("llm_rate_limit", True)


@pytest.mark.parametrize("made", [openai, claude])
@pytest.mark.parametrize(
    ("raw", "odd"),
    [
        (b"<html>Sign in</html>", "it is no JSON, and begins with '<html>Sign in</html>'"),
        (b"[1, 2]", "it has no `"),
        (b"7", "it has no `"),
        (b"{}", "it has no `"),
        (b'{"id": "x", "usage": {}}', "it has no `"),
        (b"\xff\xfe\xfa", "cannot be understood: it is no"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
@EITHER_WAY
async def test_what_is_no_answer_is_told_in_one_sentence(
    made: Any, raw: bytes, odd: str, in_pieces: bool
) -> None:
    failure = await failure_of(made(*[raw] * 3), in_pieces=in_pieces)
    assert odd in failure.message
    for shown in (failure.message, failure.detail or ""):
        assert "Error" not in shown
        assert "Exception" not in shown


@pytest.mark.parametrize("made", [openai, claude])
@EITHER_WAY
async def test_an_empty_answer_is_asked_for_again(made: Any, in_pieces: bool) -> None:
    good = body(said(content="Hi") if made is openai else CLAUDE)
    assert (await answer_of(made(b"", b"", good), in_pieces=in_pieces)).text == "Hi"
    failure = await failure_of(made(b"", b"", b""), in_pieces=in_pieces)
    assert "broke off its answer" in failure.message


# ----------------------------------------------------------------------- answers without words


def silent(kind: str, in_pieces: bool, **fields: Any) -> bytes:
    return (
        pieces({"content": "", **fields}, finish_reason=kind)
        if in_pieces
        else body(said(kind, content=None, **fields))
    )


@EITHER_WAY
@pytest.mark.parametrize(
    "kind", ["malformed_function_call", "MALFORMED_FUNCTION_CALL", "tool_calls", "unexpected"]
)
async def test_an_answer_that_says_nothing_is_asked_for_again_and_then_an_error(
    kind: str, in_pieces: bool
) -> None:
    raw, good = silent(kind, in_pieces), body(said(content="Hi"))
    assert (await answer_of(openai(raw, good), in_pieces=in_pieces)).text == "Hi"
    failure = await failure_of(openai(raw, raw), in_pieces=in_pieces)
    assert f"no words and no calls, and ends with '{kind.lower()}'" in failure.message
    assert failure.error_type == "llm_error"


@EITHER_WAY
async def test_a_model_may_say_nothing_but_is_asked_twice(in_pieces: bool) -> None:
    raw = silent("stop", in_pieces)
    assert (await answer_of(openai(raw, raw), in_pieces=in_pieces)).text == ""
    good = body(said(content="Hi"))
    answer = await answer_of(openai(raw, good), in_pieces=in_pieces)
    assert (answer.text, answer.asked_twice) == ("Hi", True)
    assert not (await answer_of(openai(good), in_pieces=in_pieces)).asked_twice


@EITHER_WAY
async def test_thoughts_alone_are_no_answer_and_stay_with_the_next(in_pieces: bool) -> None:
    thought, more = (
        silent("stop", in_pieces, reasoning_content=text) for text in ("Hm. ", "Still. ")
    )
    provider = openai(thought, body(said(content="Hi", reasoning_content="So: Hi.")))
    reply = await answer_of(provider, in_pieces=in_pieces)
    assert (reply.reasoning, reply.text) == ("Hm. So: Hi.", "Hi")
    reply = await answer_of(openai(thought, more), in_pieces=in_pieces)
    assert (reply.reasoning, reply.text) == ("Hm. Still. ", "")
    assert with_words(reply).text == ONLY_THOUGHTS


async def test_tokens_that_thinking_used_up_are_not_used_up_again() -> None:
    reply = await answer_of(openai(silent("LENGTH", False, reasoning="Hm.")), in_pieces=False)
    assert reply.finish_reason == "length"
    assert with_words(reply).text == NO_ROOM


@EITHER_WAY
async def test_an_answer_that_ends_with_an_error_is_broken_off(in_pieces: bool) -> None:
    half = pieces({"content": "Half"}, finish_reason="ERROR")
    raw = half if in_pieces else body(said("error", content="Half"))
    failure = await failure_of(openai(raw, raw, raw), in_pieces=in_pieces)
    assert "broke off its answer" in failure.message
    assert failure.error_type == "llm_connection_error"
    good = openai(body(said("error", content="Half")), body(said(content="Hi")))
    assert (await answer_of(good, in_pieces=False)).text == "Hi"


# ------------------------------------------------------------------------------ signs of life


@pytest.mark.parametrize("filler", [b": keepalive", b":", b"ping", b"keep-alive", b"[PING]"])
async def test_data_that_is_no_json_is_a_sign_of_life(filler: bytes) -> None:
    line = b"data: %s\n\n" % filler
    raw = line + pieces({"content": "H"}) + line
    first, *rest = pieces({"content": "H"}, {"content": "i"}).split(b"\n\n")
    raw = b"\n\n".join([line.strip(), first, line.strip(), *rest]) + line
    assert (await answer_of(openai(raw), in_pieces=True)).text == "Hi"
    events = [b"data: " + body(event) + b"\n\n" for event in claude_events()]
    reply = await answer_of(claude(line + line.join(events)), in_pieces=True)
    assert (reply.text, len(reply.tool_calls)) == ("Hi", 1)


async def test_data_that_is_no_json_is_told_where_nothing_else_comes() -> None:
    raw = b"data: upstream is gone\n\n"
    failure = await failure_of(openai(raw, raw, raw), in_pieces=True)
    assert "begins with 'upstream is gone'" in failure.message


@pytest.mark.parametrize("made", [openai, claude])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"message": "Slow down", "type": "rate_limit_error"}', "answered 429: Slow down"),
        (b'{"type": "overloaded_error", "message": "Full"}', "answered 529: Full"),
        (b'{"error": {"message": "No", "code": 400}}', "answered 400: No"),
        (b"the model crashed", "the model crashed"),
        (b'"it crashed"', "it crashed"),
    ],
)
async def test_an_event_that_is_named_an_error_is_one(made: Any, data: bytes, words: str) -> None:
    raw = b"event: error\ndata: %s\n\n" % data
    assert words in (await failure_of(made(raw, raw, raw), in_pieces=True)).message


# ------------------------------------------------------------------------ thoughts among words


@EITHER_WAY
@pytest.mark.parametrize("kind", ["thinking", "reasoning"])
async def test_parts_of_a_content_may_be_thoughts(kind: str, in_pieces: bool) -> None:
    content = [
        {"type": kind, kind: [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Hi"},
    ]
    raw = (
        pieces({"content": content[:1]}, {"content": content[1:]})
        if in_pieces
        else body(said(content=content))
    )
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert (reply.reasoning, reply.text) == ("Hm.", "Hi")


@pytest.mark.parametrize(
    ("content", "thought", "text"),
    [
        ("<think>\nHm.\n</think>\n\nHi", "Hm.", "Hi"),
        ("\n<think>1 < 2 </thi\n ok</think>Hi </think>", "1 < 2 </thi\n ok", "Hi </think>"),
        ("<think>\n\n</think>\n\nHi", None, "Hi"),
        ("<think>" + " " * 300 + "x" + " " * 300 + "</think>Hi", "x", "Hi"),
        ("Say <think>no</think>", None, "Say <think>no</think>"),
        ("<thin", None, "<thin"),
        ("  Hi", None, "  Hi"),
    ],
)
async def test_tags_in_front_of_the_words_hold_thoughts(
    content: str, thought: str | None, text: str
) -> None:
    whole = await answer_of(openai(body(said(content=content))), in_pieces=False)
    for size in (1, 3, 1_000):
        cut = [content[at : at + size] for at in range(0, len(content), size)]
        raw = pieces(*({"content": chunk} for chunk in cut))
        reply = await answer_of(openai(raw), in_pieces=True)
        assert reply.text == whole.text == text
        assert ((reply.reasoning or "").strip() or None) == thought
    assert whole.reasoning == thought


# ----------------------------------------------------------------- control characters in texts


@EITHER_WAY
async def test_control_characters_in_arguments_become_escapes(in_pieces: bool) -> None:
    raw_text = '{"a":\n\t"one\ntwo\tthree \\" \\\\",\r\n"b": "\x01"}'
    for size in (1, 2, 5, 1_000):
        cut = [raw_text[at : at + size] for at in range(0, len(raw_text), size)]
        deltas = [of(0, "a", "look", "")] + [of(0, arguments=chunk) for chunk in cut]
        call = {"id": "a", "function": {"name": "look", "arguments": raw_text}}
        raw = pieces(*deltas) if in_pieces else body(said(tool_calls=[call]))
        [(_, arguments)] = calls_in(await answer_of(openai(raw), in_pieces=in_pieces))
        assert json.loads(arguments) == {"a": 'one\ntwo\tthree " \\', "b": "\x01"}


async def test_control_characters_in_an_answer_are_read() -> None:
    raw = b'\xef\xbb\xbf{"choices": [{"message": {"content": "one\ttwo\nthree"}}]}'
    assert (await answer_of(openai(raw), in_pieces=False)).text == "one\ttwo\nthree"


@EITHER_WAY
@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("STOP", "stop"),
        ("Length", "length"),
        ("TOOL_CALLS", "tool_calls"),
        ("MAX_TOKENS", "length"),
    ],
)
async def test_why_an_answer_ended_may_be_written_in_any_case(
    reason: str, means: str, in_pieces: bool
) -> None:
    raw = (
        pieces({"content": "Hi", "tool_calls": None}, finish_reason=reason)
        if in_pieces
        else body(said(reason, content="Hi", tool_calls=[]))
    )
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Hi", [], means)


# ------------------------------------------------------------------- parameters that are refused


def named(message: str, status: int = 400, **error: Any) -> Refused:
    return Refused(status, {}, json.dumps({"error": {"message": message, **error}}))


@EITHER_WAY
@pytest.mark.parametrize(
    ("refused", "left_out"),
    [
        (named("Unsupported parameter: 'parallel_tool_calls'"), "parallel_tool_calls"),
        (named("No.", param="parallel_tool_calls"), "parallel_tool_calls"),
        (named('Unknown name "parallel_tool_calls": Cannot find field.'), "parallel_tool_calls"),
        (named("Unsupported value: 'temperature' does not support 0.7"), "temperature"),
        (named("'max_tokens' is too large: 16384", param=None), "max_completion_tokens"),
        (Refused(400, {}, '{"object": "error", "message": "tool_choice is no"}'), "tool_choice"),
        (
            Refused(
                422,
                {},
                body(
                    {"detail": [{"loc": ["body", "tool_choice"], "msg": "Extra inputs"}]}
                ).decode(),
            ),
            "tool_choice",
        ),
    ],
)
async def test_a_parameter_that_a_server_refuses_is_left_out_and_that_is_remembered(
    refused: Refused, left_out: str, in_pieces: bool
) -> None:
    good = body(said(content="Hi"))
    provider = openai(refused, good, good, good)
    assert (await answer_of(provider, in_pieces=in_pieces)).text == "Hi"
    assert (await answer_of(provider, in_pieces=in_pieces)).text == "Hi"
    assert isinstance(provider.wire, RawWire)
    first, second, third = provider.wire.asked
    assert first.keys() - second.keys() == {left_out}
    assert second.keys() == third.keys()
    assert left_out not in json.loads(await provider.payload(script("Hi")))
    await answer_of(provider, in_pieces=in_pieces, model="another")
    assert left_out in provider.wire.asked[-1], "another model may take it"


async def test_parameters_may_be_refused_one_after_the_other_each_once() -> None:
    provider = openai(
        named("no `temperature`"), named("no `tool_choice`"), body(said(content="Hi"))
    )
    assert (await answer_of(provider, in_pieces=False)).text == "Hi"
    stubborn = openai(named("no `temperature`"), named("no `temperature`"))
    assert "no `temperature`" in (await failure_of(stubborn)).message
    assert not stubborn.learned.omitted_parameters("gpt-4o-mini"), "it did not help"
    odd = openai(named("`messages` must alternate"))
    assert (await failure_of(odd)).error_type == "llm_bad_request"


async def test_claude_is_asked_without_what_it_refuses() -> None:
    provider = claude(named("temperature: Extra inputs are not permitted"), body(CLAUDE))
    reply = await answer_of(provider, in_pieces=False, temperature=0.2, model="claude-sonnet-4-5")
    assert reply.text == "Hi"
    assert isinstance(provider.wire, RawWire)
    assert [("temperature" in asked) for asked in provider.wire.asked] == [True, False]


@pytest.mark.parametrize("model", ["o1", "o3-mini", "o4-mini", "openai/o4-mini"])
async def test_models_that_do_not_take_it_are_not_told_whether_calls_may_come_together(
    model: str,
) -> None:
    provider = openai(body(said(content="Hi")))
    await answer_of(provider, in_pieces=False, model=model)
    assert isinstance(provider.wire, RawWire)
    [asked] = provider.wire.asked
    assert "parallel_tool_calls" not in asked
    assert asked["tools"]
