"""What servers send that is nearly MCP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, JSONRPCResponse
from mcp_types.methods import validate_server_result

from services.tools.adapters.mcp.message_repair import (
    PARTS_MAX,
    STRICT_VERSION,
    RepairedStream,
    repair,
    without_halves,
)
from services.tools.adapters.mcp.ports import McpOutcome
from services.tools.adapters.mcp.result_conversion import outcome
from tests.processor_bounds import processor_time

WHOLE = json.dumps("\U0001f600 \\ud83d \\\U0001f600 \n").encode()


class Body(httpx2.AsyncByteStream):
    """A body that comes in two parts."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (rb'"a \ud83d"', "a \ufffd"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\uDE00\ud83d"', "\ufffd\ufffd"),
        (rb'"\\\ud83d\\ud83d"', "\\\ufffd\\ud83d"),
        (rb'"\ud83d\n\u00e9\""', '\ufffd\n\u00e9"'),
        (WHOLE, json.loads(WHOLE)),
    ],
)
async def test_half_a_surrogate_pair_is_replaced_wherever_a_body_is_cut(
    sent: bytes, read: str
) -> None:
    assert json.loads(without_halves(sent)) == read
    for place in range(len(sent)):
        stream = RepairedStream(Body(sent[:place], sent[place:]))
        assert json.loads(b"".join([part async for part in stream])) == read


def answered(result: dict[str, Any]) -> McpOutcome:
    """What a call came to that a server answered so."""
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result=result)
    repair(SessionMessage(message))
    validate_server_result("tools/call", STRICT_VERSION, message.result)
    return outcome(CallToolResult.model_validate(message.result))


WORDS = {"type": "text", "text": "known"}
PNG = {"type": "image", "mimeType": "image/png", "data": "aGVsbG8h"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([WORDS, {"type": "video", "url": "x"}, WORDS],
         "known\n[content of type 'video' that cannot be shown, 26 bytes]\nknown"),
        ([{"type": "markdown", "text": "# Hi"}], "[content of type 'markdown']\n# Hi"),
        ([{"type": "image", "data": "aGk="}],
         "[content of type 'image' that cannot be shown, 30 bytes]"),
        ([{**WORDS, "annotations": {"priority": 5}}], "known"),
        (["bare", 7], "bare\n7"),
        ([{"type": "text", "text": 7}], "7"),
        ([{"type": "json", "json": {"a": 1}}], "[content of type 'json']\n{\"a\":1}"),
        ([[{"type": "text", "text": "a"}]],
         "[content of type 'list']\n[{\"type\":\"text\",\"text\":\"a\"}]"),
        ([{"type": "resource", "resource": {"text": "body"}}],
         "[content of type 'resource']\nbody"),
        ([{"type": "text", "text": None}],
         "[content of type 'text' that cannot be shown, 27 bytes]"),
        ("bare", "bare"),
        (WORDS, "known"),
        (None, ""),
        ([], ""),
        ([WORDS, PNG], "known\n[image of type image/png, 6 bytes]"),
        ([{"type": "audio", "mimeType": "audio/wav", "data": "aGVsbG8h"}],
         "[audio of type audio/wav, 6 bytes]"),
        ([{"type": "resource_link", "uri": "file:///a", "name": "A"}], "[resource A: file:///a]"),
        ([{"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}], "inside"),
        ([{"type": "resource", "resource": {"uri": "a:b", "blob": "aGk="}}],
         "[resource of type unknown: a:b]"),
    ],
)  # fmt: skip
def test_what_is_known_of_an_answer_is_shown_and_the_rest_is_named(content: Any, text: str) -> None:
    assert answered({"content": content}).text == text
    failed = answered({"content": content, "isError": True})
    assert (failed.status, failed.text) == ("error", text)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"structuredContent": {"a": 1}}, '{"a":1}'),
        ({"structuredContent": [1]}, "[1]"),
        ({"content": [WORDS], "structuredContent": [1]}, "known"),
        ({"content": [], "structuredContent": "x"}, '"x"'),
        ({"content": [], "structuredContent": None}, ""),
        ({"isError": True}, ""),
        ({"content": [WORDS], "isError": None}, "known"),
        ({"content": [WORDS], "isError": {}}, "known"),
        ({"content": [WORDS], "_meta": []}, "known"),
    ],
)
def test_an_answer_may_be_structured_alone(result: dict[str, Any], text: str) -> None:
    assert answered(result).text == text


def test_an_answer_of_many_broken_parts_is_cut_soon() -> None:
    with processor_time():
        text = answered({"content": [{"type": "video"}] * 200_000}).text
    assert text.endswith(f"[{200_000 - PARTS_MAX} more parts are left out]")


def test_a_result_that_is_no_answer_to_a_call_stays_as_it_is() -> None:
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result={"contents": [{"uri": "a"}]})
    repair(SessionMessage(message))
    assert message.result == {"contents": [{"uri": "a"}]}
