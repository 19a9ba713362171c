"""What servers send that is nearly MCP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from services.tools.adapters.mcp.message_repair import RepairedStream, without_halves

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
