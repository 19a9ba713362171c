"""Calls of tools over MCP end with whoever waits for them, and an answer has a bound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from libs.contracts.bus_messages import JsonObject
from services.api.adapters.server.mcp_endpoint_protocol import (
    ANSWER_BYTES_MAX,
    McpEndpoint,
    OfferedTool,
    ToolFailed,
)
from tests.waiting import wait_for

type Behaviour = Callable[[str, JsonObject], Awaitable[JsonObject]]


class Offering:
    """A server with one tool, which does what a test wants."""

    def __init__(self) -> None:
        self.behaviour: Behaviour = echo
        tool: OfferedTool[str] = OfferedTool(
            name="do", description="Do it.", input_schema={"type": "object"}, call=self.call
        )
        self.server = McpEndpoint([tool], lambda scope: dict(scope["headers"])[b"who"].decode())

    async def call(self, caller: str, arguments: JsonObject) -> JsonObject:
        return await self.behaviour(caller, arguments)

    async def ask(self, **arguments: Any) -> Any:
        params = {"name": "do", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        sent = [json.dumps(body).encode()]

        async def receive() -> Any:
            if not sent:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": sent.pop(), "more_body": False}

        accept = b"application/json, text/event-stream"
        headers = [(b"accept", accept), (b"content-type", b"application/json"), (b"who", b"ada")]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
        answer = await self.server.answer({**scope, "query_string": b""}, receive)
        assert answer.status == 200
        return json.loads(answer.body)["result"]


async def echo(caller: str, arguments: JsonObject) -> JsonObject:
    return {"caller": caller, **arguments}


@pytest.fixture
async def offering() -> AsyncIterator[Offering]:
    offering = Offering()
    yield offering
    await offering.server.close()


async def test_a_tool_knows_who_calls_it(offering: Offering) -> None:
    result = await offering.ask(sides=6)

    assert result["structuredContent"] == {"caller": "ada", "sides": 6}
    assert json.loads(result["content"][0]["text"]) == {"caller": "ada", "sides": 6}
    assert not result.get("isError")


async def test_what_a_tool_refuses_is_an_answer(offering: Offering) -> None:
    async def refuse(caller: str, arguments: JsonObject) -> JsonObject:
        raise ToolFailed("not today")

    offering.behaviour = refuse

    result = await offering.ask()

    assert result["isError"]
    assert result["content"][0]["text"] == "not today"


async def test_a_call_ends_with_whoever_waits_for_it(offering: Offering) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(caller: str, arguments: JsonObject) -> JsonObject:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    offering.behaviour = wait
    asking = asyncio.create_task(offering.ask())
    await begun.wait()

    asking.cancel()

    await wait_for("the end of the call", ended.is_set)


async def test_an_answer_has_a_bound(offering: Offering) -> None:
    async def much(caller: str, arguments: JsonObject) -> JsonObject:
        return {"text": "x" * ANSWER_BYTES_MAX}

    offering.behaviour = much

    with pytest.raises(ValueError, match="larger than"):
        await offering.ask()
