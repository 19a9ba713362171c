"""Ask an MCP server what it offers, for somebody who waits, and record nothing."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.contracts.bus_messages import Context, JsonObject
from libs.contracts.storable_text import storable
from libs.contracts.tools.mcp_servers import TOOLS_BYTES_MAX, AskMcpServer, mcp_listing_deltas
from libs.work.progress import publish_progress
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.domain.mcp_server import McpServer
from services.tools.domain.mcp_tool import (
    DESCRIPTION_CHARS_MAX,
    OFFERED_NAME_CHARS_MAX,
    problem_of,
)
from services.tools.engine.mcp_authorizations import McpAuthorizations, Tell
from services.tools.engine.mcp_discoveries import McpPorts, config_of, list_server_tools

LISTINGS_AT_ONCE_MAX = 32
ORGANISATION_LISTINGS_AT_ONCE_MAX = 24


class McpListings:
    """The lists that this process asks for."""

    def __init__(self, ports: McpPorts, authorizations: McpAuthorizations) -> None:
        self.ports = ports
        self.authorizations = authorizations
        self.tasks: set[asyncio.Task[None]] = set()
        self.places = FairSemaphore(
            LISTINGS_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_LISTINGS_AT_ONCE_MAX,
            users="lists",
            thing="place",
        )

    def has_room(self, org: str) -> bool:
        """Whether one more can be asked for by an organisation now."""
        return self.places.has_place(org)

    def begin(
        self,
        listing_id: str,
        config: McpServerConfig,
        context: Context,
        asked: AskMcpServer | None = None,
        redirect_uri: str = "",
    ) -> None:
        """Ask a server for its tools, or something else. One whose id is that of the list is there
        for it alone."""
        task = asyncio.create_task(self.run(listing_id, config, context, asked, redirect_uri))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run(
        self,
        listing_id: str,
        config: McpServerConfig,
        context: Context,
        asked: AskMcpServer | None,
        redirect_uri: str,
    ) -> None:
        """Tell whoever waits what a server offers, or why that is not known."""
        subject = mcp_listing_deltas(context.org, listing_id)
        tell = partial(publish_progress, self.ports.bus, subject)
        try:
            async with self.places.hold(context.org):
                if asked is not None:
                    answer = await self.other(config, asked)
                else:
                    answer = await self.answer(config)
                    if redirect_uri and wants_login(answer, config):
                        answer = await self.answer_after_login(config, redirect_uri, tell)
        except NoPlace as full:
            answer = {"failed": {"kind": "timeout", "words": full.reason}}
        finally:
            if config.id == listing_id:
                await self.ports.sessions.end(listing_id)
        await tell(answer)

    async def answer_after_login(
        self, config: McpServerConfig, redirect_uri: str, tell: Tell
    ) -> JsonObject:
        """Have a person authorize a server, then list its tools; or why that failed."""
        try:
            await self.authorizations.authorize(config, redirect_uri, tell)
            work = self.ports.repository.work(Context(self.ports.ids.new("list"), org=config.org))
            state = (await work.load(McpServer, config.id)).present
            if state is None:
                raise McpFailed("refused", "it was deleted meanwhile")
            return await self.answer(config_of(self.ports.sealer, config.id, config.org, state))
        except McpFailed as failure:
            return {"failed": {"kind": failure.kind, "words": storable(failure.words)}}

    async def answer(self, config: McpServerConfig) -> JsonObject:
        """The offers of a server, or the reason why they are not known."""
        try:
            tools = await list_server_tools(self.ports.sessions, config)
        except McpFailed as failure:
            return {"failed": {"kind": failure.kind, "words": storable(failure.words)}}
        listing: JsonObject = {
            "tools": [
                {
                    "name": storable(tool.name)[:OFFERED_NAME_CHARS_MAX],
                    "description": storable(tool.description)[:DESCRIPTION_CHARS_MAX],
                    "parameters": {} if problem else tool.parameters,
                    "problem": problem,
                }
                for tool, problem in ((tool, problem_of(tool)) for tool in tools)
            ]
        }
        return within_bounds(listing)

    async def other(self, config: McpServerConfig, asked: AskMcpServer) -> JsonObject:
        """A server's resources and prompts, or its health."""
        connections = self.ports.sessions.connections_for(config)
        found: Any
        try:
            match asked.question:
                case "health":
                    with contextlib.suppress(McpFailed):  # which the health then says
                        await connections.ping(config)
                    found = connections.health(config.id)
                case "resources":
                    found = await connections.list_resources(config)
                case "resource":
                    found = await connections.read_resource(config, asked.name)
                case "prompts":
                    found = await connections.list_prompts(config)
                case "prompt":
                    found = await connections.get_prompt(config, asked.name, asked.arguments)
        except McpFailed as failure:
            return {"failed": {"kind": failure.kind, "words": failure.words}}
        return within_bounds({"answer": to_jsonable_python(found)})

    async def drain(self) -> None:
        """Cancel all listings and wait for them."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def wants_login(answer: JsonObject, config: McpServerConfig) -> bool:
    """Whether a person may have to let a server be used."""
    failed = answer.get("failed")
    kind = failed.get("kind") if isinstance(failed, dict) else ""
    return kind == "unauthorized" and config.transport != "stdio"


def within_bounds(listing: JsonObject) -> JsonObject:
    """The same, or that it is too much to be told."""
    if len(to_json(listing)) > TOOLS_BYTES_MAX:
        words = f"What it says has more than {TOOLS_BYTES_MAX} bytes"
        return {"failed": {"kind": "too_large", "words": words}}
    return listing
