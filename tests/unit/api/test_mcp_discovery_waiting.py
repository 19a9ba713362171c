"""Whoever waits for what an MCP server offers waits as long as somebody is at work on it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.tools.mcp_servers import ListMcpTools, mcp_listing_deltas
from libs.work.progress import HEARTBEAT, publish_progress
from services.api.http.callers import CALLER, Caller
from services.api.resources.tools import mcp_discovery_waiting
from services.api.resources.tools.mcp_discovery_waiting import McpServerFailed, progress_messages

COMMAND = ListMcpTools(listing_id="list-1", server_id="mcp_server-1")
SUBJECT = mcp_listing_deltas("org-1", COMMAND.listing_id)
WAITING = {"event": "waiting_for_auth"}
SILENCE_SECONDS = 0.8


class Listing:
    """A request for a list, whose command is answered by what a service publishes."""

    def __init__(self) -> None:
        self.bus = InMemoryBus(InMemoryNetwork())
        self.is_sent = asyncio.Event()

    async def send(self, *_: Any, **__: Any) -> None:
        self.is_sent.set()

    async def body(self) -> bytes:
        return b""

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def publish(self, *messages: Any) -> None:
        await self.is_sent.wait()
        for message in messages:
            await asyncio.sleep(SILENCE_SECONDS / 5)
            await publish_progress(self.bus, SUBJECT, message)

    async def answers(self) -> list[Any]:
        request: Any = SimpleNamespace(
            app=SimpleNamespace(state=SimpleNamespace(api=self)),
            scope={"state": {CALLER: Caller("org-1", "user-1")}},
            body=self.body,
            receive=self.receive,
        )
        async with aclosing(progress_messages(request, COMMAND)) as told:
            return [answer async for answer in told]


async def test_while_a_person_is_asked_to_authorize_it_nobody_gives_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_discovery_waiting, "LISTING_SECONDS_MAX", SILENCE_SECONDS)
    listing, tools = Listing(), {"tools": []}

    answers, _ = await asyncio.gather(
        listing.answers(), listing.publish(WAITING, *[HEARTBEAT] * 6, tools)
    )

    assert answers == [WAITING, tools]


async def test_a_silence_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_discovery_waiting, "LISTING_SECONDS_MAX", SILENCE_SECONDS)
    listing = Listing()
    with pytest.raises(McpServerFailed, match="no answer"):
        await asyncio.gather(listing.answers(), listing.publish(WAITING))
