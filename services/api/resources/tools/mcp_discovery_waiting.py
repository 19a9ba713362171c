"""Offers of MCP servers: wait for the tools service to know them, and answer with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pydantic_core import from_json

from libs.contracts.bus_messages import Command, JsonObject
from libs.contracts.letta import error_bodies
from libs.contracts.tools.mcp_servers import (
    LISTING_SECONDS_MAX,
    AskMcpServer,
    ListMcpTools,
    RefreshMcpServer,
    mcp_listing_deltas,
    mcp_server_deltas,
)
from libs.work.progress import LOOK_SECONDS, Progress, follow
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest
from services.api.v1.read_model_responses import document_of

MCP_SERVERS = Resource(kind="mcp_server", view="tools.mcp_server_view", document="v.document")
KNOWN = "json_build_object('tools', v.tools, 'discovery', v.discovery, 'name', v.name)"
# How long a list of tools is held back while the first discovery of them goes on.
FIRST_DISCOVERY_SECONDS_MAX = 10.0


async def refresh(
    request: AnyRequest, server_id: str, accepted: list[str] | None = None
) -> dict[str, Any]:
    """The report of a discovery that is made now. Raises the answer that its failure is."""
    command = RefreshMcpServer(server_id=server_id, accepted=accepted or [])
    async with follow(
        api_of(request).bus, mcp_server_deltas(org_of(request), server_id)
    ) as progress:
        reply = await api_of(request).send(request, command)
        number = int(str(reply.result["number"]))
        seen = await wait_until_settled(request, server_id, progress, number, LISTING_SECONDS_MAX)
    if seen["discovery"]["status"] == "ready":
        return dict(seen["discovery"]["report"])
    raise unavailable(seen["name"], seen["discovery"])


def unavailable(name: str, discovery: dict[str, Any]) -> Problem:
    """The answer to who wants to know what cannot be discovered."""
    reason = discovery["reason"] or f"no answer within {LISTING_SECONDS_MAX:g} seconds"
    return Problem(404, error_bodies.mcp_server_unavailable(name, reason))


async def wait_until_settled(
    request: AnyRequest, server_id: str, progress: Progress, number: int, seconds: float
) -> dict[str, Any]:
    """The known tools of a server, as soon as a discovery of this number or a later one is over, or
    time is up. Raises the 404 of a server that is not there."""
    clock = api_of(request).clock
    until = clock.monotonic() + seconds
    end_turn(request.scope["state"])  # a server may take long
    while True:
        seen: dict[str, Any] = from_json(
            await document_of(request, MCP_SERVERS, server_id, document=KNOWN)
        )
        over = seen["discovery"]["number"] >= number and seen["discovery"]["status"] != "pending"
        left = until - clock.monotonic()
        if over or left <= 0:
            return seen
        await unless_hung_up(request, progress.next(min(left, LOOK_SECONDS)))


async def known_tools(request: AnyRequest, server_id: str) -> dict[str, str]:
    """The ids of the tools of a server, by the names that it gives them; the first discovery is
    waited for, for a while. Raises the 404 of a server that is not there."""
    seen = from_json(await document_of(request, MCP_SERVERS, server_id, document=KNOWN))
    if seen["discovery"]["status"] == "pending" and not seen["tools"]:
        async with follow(
            api_of(request).bus, mcp_server_deltas(org_of(request), server_id)
        ) as progress:
            seen = await wait_until_settled(
                request, server_id, progress, 0, FIRST_DISCOVERY_SECONDS_MAX
            )
    return dict(seen["tools"])


class McpServerFailed(Exception):
    """A server could not be asked for its tools."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words


async def listed_tools(request: AnyRequest, command: ListMcpTools) -> list[JsonObject]:
    """The tools that a server lists now. Raises McpServerFailed."""
    return list((await ask_server(request, command))["tools"])


async def ask_server(request: AnyRequest, command: ListMcpTools | AskMcpServer) -> dict[str, Any]:
    """The answer of a server now. Raises McpServerFailed."""
    async with aclosing(progress_messages(request, command)) as answers:
        async for answer in answers:
            return answer
    raise McpServerFailed("timeout", f"no answer within {LISTING_SECONDS_MAX:g} seconds")


async def progress_messages(
    request: AnyRequest, command: ListMcpTools | AskMcpServer
) -> AsyncGenerator[dict[str, Any]]:
    """All that is told until a server answers: events for a person, then the answer. Raises
    McpServerFailed."""
    subject = mcp_listing_deltas(org_of(request), command.listing_id)
    async with follow(api_of(request).bus, subject) as progress:
        await send_listing(request, command)
        end_turn(request.scope["state"])
        while True:
            answer = await unless_hung_up(request, progress.next(LISTING_SECONDS_MAX))
            if answer is None:
                words = f"no answer within {LISTING_SECONDS_MAX:g} seconds"
                raise McpServerFailed("timeout", words)
            if "failed" in answer:
                raise McpServerFailed(answer["failed"]["kind"], answer["failed"]["words"])
            if answer:  # else a heartbeat: a person is still asked to authorize it
                yield answer
            if answer and "event" not in answer:
                return


async def send_listing(request: AnyRequest, command: Command) -> None:
    """Have the tools service ask a server."""
    await api_of(request).send(request, command, keyed=False)


def connection_problem(failed: McpServerFailed) -> Problem:
    """The answer to who wanted a list."""
    if failed.kind == "refused":
        return Problem(422, {"detail": failed.words})
    if failed.kind == "timeout":
        return Problem(408, {"detail": failed.words})
    return Problem(502, error_bodies.mcp_connection_failed(failed.words))


def offered_tool(tool: JsonObject) -> JsonObject:
    """A tool as its server describes it, in the form of MCP."""
    problem = tool.get("problem")
    return {
        "name": tool["name"],
        "title": None,
        "description": tool["description"],
        "inputSchema": tool["parameters"],
        "outputSchema": None,
        "icons": None,
        "annotations": None,
        "_meta": None,
        "health": {
            "status": "INVALID" if problem else "NON_STRICT_ONLY",
            "reasons": [problem] if problem else [],
        },
    }
