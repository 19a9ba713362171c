"""`web_search` and `fetch_webpage`: what other machines say, through the guard of addresses."""

from __future__ import annotations

from pydantic import BaseModel, Field
from pydantic_core import to_json

from libs.bus.ports import Clock
from libs.contracts.bus_messages import JsonObject
from libs.contracts.shortened_text import cut
from libs.contracts.tools.tool_runs import ToolRunResult
from services.tools.adapters.web_pages import PageFailed, WebPages
from services.tools.adapters.web_search import SearchFailed, WebSearch, WebSearches
from services.tools.engine.builtin_runner import BuiltinCall, failure
from services.tools.engine.environment_variables import Variables

URL_CHARS_MAX = 2_000


class FetchWebpage(BaseModel):
    """The arguments of `fetch_webpage`."""

    url: str = Field(min_length=1, max_length=URL_CHARS_MAX)


class FetchWebpageTool:
    """Keeps the contract of `Builtin`."""

    def __init__(self, pages: WebPages, clock: Clock) -> None:
        self.pages = pages
        self.clock = clock

    def refusal_of(self, call: BuiltinCall) -> str:
        """Empty: addresses are checked when the page is fetched."""
        return ""

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """A page as Markdown, or why there is none."""
        asked = FetchWebpage.model_validate(call.command.arguments)
        since = self.clock.monotonic()
        try:
            text = await self.pages.text(asked.url, call.org)
        except PageFailed as problem:
            return failure(f"The page could not be fetched: {problem}")
        took = self.clock.monotonic() - since
        text = cut(text, call.chars_max) or "(the page has no text)"
        return ToolRunResult(status="success", text=text, seconds=took)


class WebSearchTool:
    """Keeps the contract of `Builtin`."""

    def __init__(self, searches: WebSearches, variables: Variables, clock: Clock) -> None:
        self.searches = searches
        self.variables = variables
        self.clock = clock

    def refusal_of(self, call: BuiltinCall) -> str:
        """Empty: the agent's secrets, read when the call runs, may have the key."""
        return ""

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """The results, as JSON in V1's form."""
        asked = WebSearch.model_validate(call.command.arguments)
        if not asked.query.strip():
            return failure(json_text({"error": "Query cannot be empty", "query": asked.query}))
        secrets = await self.variables.of(call.command, call.org)
        if isinstance(secrets, str):
            return failure(secrets)
        since = self.clock.monotonic()
        try:
            results = await self.searches.results(asked, secrets)
        except SearchFailed as problem:
            return failure(json_text({"query": asked.query, "error": f"Search failed: {problem}"}))
        took = self.clock.monotonic() - since
        text = fitting(asked.query, results, call.chars_max)
        return ToolRunResult(status="success", text=text, seconds=took)


def fitting(query: str, results: list[JsonObject], chars_max: int) -> str:
    """As many results as there is room for; the first one in part, if it alone is too long."""
    count = len(results)
    while count > 1 and len(json_text({"query": query, "results": [*results[:count]]})) > chars_max:
        count -= 1
    return cut(json_text({"query": query, "results": [*results[:count]]}), chars_max)


def json_text(answer: JsonObject) -> str:
    """JSON, as V1 writes it."""
    return to_json(answer, indent=2).decode()
