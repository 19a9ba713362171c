"""Operations of a session. Lists are read to their last page, within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.client.client import Client
from pydantic import BaseModel

from libs.contracts.bus_messages import JsonObject
from services.tools.adapters.mcp import result_conversion
from services.tools.adapters.mcp.ports import McpFailed, McpOutcome, McpTool

PAGES_MAX = 100
ITEMS_MAX = 1_000
LIST_BYTES_MAX = 16 << 20

type Ask[T] = Callable[[Client], Awaitable[T]]


async def list_tools(client: Client) -> list[McpTool]:
    """The tools that a server offers."""
    return [result_conversion.tool(tool) for tool in await pages(client.list_tools, "tools")]


async def list_resources(client: Client) -> list[JsonObject]:
    """The resources that a server offers."""
    if client.server_capabilities.resources is None:
        return []
    return [
        result_conversion.resource(resource)
        for resource in await pages(client.list_resources, "resources")
    ]


async def list_prompts(client: Client) -> list[JsonObject]:
    """The prompts that a server offers."""
    if client.server_capabilities.prompts is None:
        return []
    return [
        result_conversion.prompt(prompt) for prompt in await pages(client.list_prompts, "prompts")
    ]


async def pages(ask: Callable[..., Awaitable[Any]], name: str) -> list[Any]:
    """The items on all pages of a list. Raises McpFailed where it has no end."""
    found: list[Any] = []
    size, cursor = 0, None
    for _ in range(PAGES_MAX):
        page = await ask(cursor=cursor)
        items: list[BaseModel] = getattr(page, name)
        found += items
        size += sum(len(item.model_dump_json()) for item in items)
        if len(found) > ITEMS_MAX or size > LIST_BYTES_MAX:
            words = f"it offers more than {ITEMS_MAX} {name}, or {LIST_BYTES_MAX >> 20} MiB of them"
            raise McpFailed("too_large", words)
        following = page.next_cursor
        if not following:
            return found
        if following == cursor:
            break
        cursor = following
    raise McpFailed("too_large", f"its list of {name} has no end within {PAGES_MAX} pages")


def call_tool(name: str, arguments: JsonObject) -> Ask[McpOutcome]:
    """A call; an error that the server answers is what it came to."""

    async def ask(client: Client) -> McpOutcome:
        return result_conversion.outcome(await client.call_tool(name, dict(arguments)))

    return ask


def refused_call(refusal: McpFailed) -> McpOutcome:
    """The outcome of a call that the server answered with an error of the protocol."""
    return McpOutcome(status="error", text=refusal.words)


def read_resource(uri: str) -> Ask[list[JsonObject]]:
    """The parts of a resource."""

    async def ask(client: Client) -> list[JsonObject]:
        result = await client.read_resource(uri)
        return [result_conversion.resource_content(content) for content in result.contents]

    return ask


def get_prompt(name: str, arguments: Mapping[str, str]) -> Ask[list[JsonObject]]:
    """The messages of a prompt."""

    async def ask(client: Client) -> list[JsonObject]:
        result = await client.get_prompt(name, dict(arguments))
        return [result_conversion.prompt_message(message) for message in result.messages]

    return ask
