"""What servers that stand in for a provider write otherwise than it: tags, names, reasons, errors,
and what they refuse to be sent again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import ToolCall
from services.agent.adapters.models import http_provider
from services.agent.adapters.models.ports import ModelFailed
from tests.contract.examples import SYSTEM, message
from tests.unit.agent import anthropic_documents, openai_documents
from tests.unit.agent.asking import ask
from tests.unit.agent.stand_in_answers import claude, openai
from tests.unit.agent.test_stand_ins import (
    CALLS,
    EITHER_WAY,
    HI,
    answer_of,
    body,
    calls_in,
    failure_of,
    of,
    pieces,
    said,
    sse,
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "PAUSE_SECONDS", [0.0])


@pytest.mark.parametrize(
    ("content", "thought", "text"),
    [
        ("<thinking>\nHm.\n</thinking>\n\nHi", "Hm.", "Hi"),
        ("<thought>Hm.</thought>Hi", "Hm.", "Hi"),
        ("[THINK]Hm.[/THINK]Hi", "Hm.", "Hi"),
        ("<seed:think>Hm.</seed:think>Hi", "Hm.", "Hi"),
        ("<THINK>İ.</Think>Hi", "İ.", "Hi"),
        ("\ufeff<think>Hm.</think>Hi", "Hm.", "Hi"),
        ("<thinking>a </think> b</thinking>Hi", "a </think> b", "Hi"),
        ("<thinker>Hi", None, "<thinker>Hi"),
        ("\ufeffHi", None, "\ufeffHi"),
        ("[TH", None, "[TH"),
    ],
)
async def test_the_tags_of_thoughts_have_several_names(
    content: str, thought: str | None, text: str
) -> None:
    whole = await answer_of(openai(body(said(content=content))), in_pieces=False)
    for size in (1, 3, 1_000):
        cut = [content[at : at + size] for at in range(0, len(content), size)]
        raw = pieces(*({"content": chunk} for chunk in cut))
        reply = await answer_of(openai(raw), in_pieces=True)
        assert reply.text == whole.text == text
        assert ((reply.reasoning or "").strip() or None) == whole.reasoning == thought


@pytest.mark.parametrize(
    "name",
    [
        *("look\n", " look", "functions.look", "default_api.look", "tools/look"),
        *("look<|channel|>commentary", "functions.look<|constrain|>json"),
    ],
)
@EITHER_WAY
async def test_what_stands_around_the_name_of_a_tool_is_left_out(
    name: str, in_pieces: bool
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": name, "arguments": '{"a": 1}'}}
    cut = [of(0, "a", name[:6], ""), of(0, name=name[6:]), of(0, arguments='{"a": 1}')]
    raw = pieces(*cut, finish_reason=CALLS) if in_pieces else body(said(CALLS, tool_calls=[call]))
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert calls_in(reply) == [("look", '{"a": 1}')]


@EITHER_WAY
async def test_a_call_may_have_its_name_and_arguments_in_itself(in_pieces: bool) -> None:
    told = {CALLS: [{"id": "a", "name": "look", "arguments": {"a": 1}}]}
    raw = pieces(told, finish_reason=CALLS) if in_pieces else body(said(CALLS, **told))
    reply = await answer_of(openai(raw), in_pieces=in_pieces)
    assert calls_in(reply) == [("look", '{"a": 1}')]


@pytest.mark.parametrize("reason", ["failed", "INTERNAL_ERROR", "engine_error", "timeout"])
@EITHER_WAY
async def test_half_an_answer_that_ends_with_a_fault_is_no_answer(
    reason: str, in_pieces: bool
) -> None:
    half = pieces({"content": "Half"}, finish_reason=reason)
    raw = half if in_pieces else body(said(reason, content="Half"))
    failure = await failure_of(openai(raw, raw, raw), in_pieces=in_pieces)
    assert "broke off its answer" in failure.message


BROKE = {"status_code": 1008, "status_msg": "insufficient balance"}
ERRORS: dict[str, tuple[Any, str]] = {
    "base_resp": ({"id": "x", "object": "x", "choices": None, "base_resp": BROKE}, "balance"),
    "error_code": ({"error_code": 17, "error_msg": "daily limit reached"}, "daily limit reached"),
    "fault": ({"fault": {"faultstring": "No quota", "detail": {"errorcode": "x"}}}, "No quota"),
    "Message": ({"Message": "The model is gone"}, "The model is gone"),
    "x_groq": (
        {"object": "chat.completion.chunk", "choices": [], "x_groq": {"error": "over capacity"}},
        "over capacity",
    ),
}


@pytest.mark.parametrize(("error", "words"), ERRORS.values(), ids=ERRORS)
async def test_an_error_behind_half_an_answer_is_told_in_its_words(error: Any, words: str) -> None:
    for raw, in_pieces in ((sse(HI, error), True), (body(error), False), (sse(error), True)):
        with pytest.raises(ModelFailed) as raised:
            await answer_of(openai(raw, raw, raw), in_pieces=in_pieces)
        assert words in raised.value.failure.message
    if "base_resp" in error:
        assert raised.value.failure.error_type == "llm_insufficient_credits"


async def test_an_answer_may_say_that_there_is_no_error() -> None:
    good = {"base_resp": {"status_code": 0, "status_msg": ""}, "x_groq": {"id": "x"}}
    raw = body({**said(content="Hi"), **good, "error_code": 0, "error": None})
    assert (await answer_of(openai(raw), in_pieces=False)).text == "Hi"
    raw = sse(HI, {"choices": [{"delta": {}, "finish_reason": "stop"}], **good})
    assert (await answer_of(openai(raw), in_pieces=True)).text == "Hi"


@pytest.mark.parametrize(
    "arguments",
    ['{"a": "cut o', '{}{"a": 1}', "nonsense", "[1]", '{"a": NaN}', '{"a": 1e999}', '"{}"'],
)
def test_arguments_that_no_server_takes_go_back_as_an_object_with_the_text(arguments: str) -> None:
    call = ToolCall(id="a", name="look", arguments=arguments)
    called = message(3, role="assistant", content=None, tool_calls=[call])
    result = message(4, role="tool", content="No.", name="look", tool_call_id="a")
    request = ask(SYSTEM, message(2, role="user", content="Look."), called, result)
    sent: Any = openai_documents.body_of(request)["messages"]
    written = sent[2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(written) == {"arguments": arguments}
    sent = anthropic_documents.body_of(request)["messages"]
    assert sent[1]["content"][0]["input"] == {"arguments": arguments}


def test_arguments_that_are_an_object_go_back_as_they_were_written() -> None:
    call = ToolCall(id="a", name="look", arguments='{ "b":1,\n"a": [1.50] }')
    called = message(3, role="assistant", content=None, tool_calls=[call])
    sent: Any = openai_documents.body_of(ask(SYSTEM, called))["messages"]
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == call.arguments


async def test_the_arguments_of_a_block_of_another_kind_are_no_call() -> None:
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    arguments = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    look = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    events: list[Any] = [
        {"type": "content_block_start", "index": 0, "content_block": search},
        {"type": "content_block_delta", "index": 0, "delta": arguments},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": look},
        {"type": "content_block_delta", "index": 1, "delta": arguments},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    reply = await answer_of(claude(sse(*events, end=b"")), in_pieces=True)
    assert calls_in(reply) == [("look", '{"query": "x"}')]


@pytest.mark.parametrize("part", ["Hi", {"type": "text", "text": {"value": "Hi"}}])
async def test_the_text_of_a_part_may_stand_without_it_or_within_it(part: Any) -> None:
    raw = body({"type": "message", "content": [part], "stop_reason": "end_turn"})
    assert (await answer_of(claude(raw), in_pieces=False)).text == "Hi"
    assert (await answer_of(openai(body(said(content=[part]))), in_pieces=False)).text == "Hi"
