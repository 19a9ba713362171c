"""Tools as the api lists them: those that come with the server, and behind them, as if they had
always been there, those that clients made; and what the calls of tools have used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic_core import to_json

from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS, CATALOGUE, base_tool_state
from libs.contracts.tools.base_tools.definition import BaseTool
from libs.eventstore.connection_pool import DatabaseQueries
from libs.eventstore.text_search import has_text
from services.api.adapters.resource_query_builder import (
    OTHER_ORDER,
    PLACE_OF_ID,
    Filter,
    Resource,
    ResourceQueries,
    Slice,
    places_of,
)

TOOLS = Resource(
    kind="tool",
    view="tools.tool_view",
    document="v.document",
    created_view="tools.created_tool_view",
    counted=("tools", "tools"),
)
# What the words of a search are looked for in.
SEARCHED = (
    "v.name || ' ' || coalesce(v.fields->>'description', '') || ' ' || array_to_string(v.tags, ' ')"
)

# Those that V1 does not have behind the others; what fits says whether they are asked for.
OURS = tuple(CATALOGUE.values())

type Fits = Callable[[BaseTool], bool]

# Of an agent that called more often the latest calls count, and the answer says since when.
CALLS_MAX = 10_000
USAGE = """
select r.name, r.status, count(*), min(r.created_at),
       coalesce(sum((r.result->>'seconds')::float8), 0),
       coalesce(sum((r.result->>'cpu_seconds')::float8), 0),
       coalesce(max((r.result->>'memory_bytes_max')::int8), 0),
       coalesce(max((r.result->>'processes_max')::int8), 0),
       coalesce(sum((r.result->>'output_bytes')::int8), 0)::int8,
       coalesce(sum((r.result->'sampling'->>'requests')::int8), 0)::int8,
       coalesce(sum((r.result->'sampling'->>'prompt_tokens')::int8), 0)::int8,
       coalesce(sum((r.result->'sampling'->>'completion_tokens')::int8), 0)::int8
from (select v.name, v.status, v.created_at, v.result from tools.tool_run_view v
      where v.agent_id = %(agent)s and v.org = %(org)s
      order by v.created_at desc, v.id collate "C" desc limit %(limit)s) r
group by r.name, r.status
order by r.name, r.status"""


def base_document(tool: BaseTool, user: str) -> bytes:
    """A tool that comes with the server as this user reads it: V1 says that every user made it."""
    return to_json(base_tool_state(tool, created_by_id=user))


def base_tool(tool_id: str) -> BaseTool | None:
    """The tool of this id, if it comes with the server."""
    return CATALOGUE.get(tool_id)


def all_base_tools(user: str) -> bytes:
    """All tools that come with the server as a JSON array, as this user reads them."""
    return json_array([base_document(tool, user) for tool in BASE_TOOLS.values()])


def json_array(documents: Sequence[bytes]) -> bytes:
    """Documents as a JSON array."""
    return b"[%b]" % b",".join(documents)


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that a search found, as clients read it, and the text that the words stand in."""

    document: bytes
    text: str


@dataclass(frozen=True, slots=True)
class ToolQueries:
    """Lists and counts the tools that an organisation can use, as one of its users reads them."""

    reads: ResourceQueries
    user: str

    async def count(self, found: Filter, fits: Fits) -> int:
        """The number of tools that match."""
        own = sum(fits(tool) for tool in OURS)
        return own + await self.reads.count(TOOLS, found)

    async def page(self, found: Filter, fits: Fits, part: Slice) -> bytes:
        """A page of tools as a JSON array, cut as every list is. Raises UnknownCursor."""
        ours = base_part(fits, part, self.user)
        # What clients made stands last in one order and first in the other.
        beyond = part.before if part.order == "asc" else part.after
        theirs = [] if beyond in CATALOGUE else await self.custom_tools(found, part)
        documents = [*ours, *theirs] if part.order == "asc" else [*theirs, *ours]
        if part.limit is None:
            return json_array(documents)
        backwards = part.before is not None and part.after is None
        start = max(len(documents) - part.limit, 0) if backwards else 0
        return json_array(documents[start : start + part.limit])

    async def search(
        self, words: Sequence[str], found: Filter, fits: Fits, count_max: int
    ) -> list[FoundTool]:
        """Tools in whose name, description or tags all of these words stand, those first that
        clients made, the newest before the others."""
        for number, word in enumerate(words):
            name = f"word_{number}"
            found.add(has_text(SEARCHED, f"%({name})s"), **{name: word})
        found.reads_texts = bool(words)
        async with self.reads.place(found):
            rows = await self.reads.database.fetch(
                f"select {TOOLS.document}, {SEARCHED} from {TOOLS.view} v where {found.sql}"
                f" order by v.created_at desc, {PLACE_OF_ID} desc limit %(limit)s",
                {**found.values, "limit": count_max},
            )
        theirs = [FoundTool(str(document).encode(), text) for document, text in rows]
        ours = [
            FoundTool(base_document(tool, self.user), searched_text(tool))
            for tool in OURS
            if fits(tool)
            and all(word.casefold() in searched_text(tool).casefold() for word in words)
        ]
        return [*theirs, *ours][:count_max]

    async def by_ids(self, org: str, tool_ids: Sequence[str]) -> bytes:
        """Those of these tools that clients or MCP servers made, as a JSON array, in the order of
        their names."""
        rows = await self.reads.database.fetch(
            f"select {TOOLS.document} from unnest(%(ids)s::text[]) as wanted(id) cross join lateral"
            f" (select * from {TOOLS.view} where id = wanted.id limit 1) v"
            " where v.org = %(org)s order by v.name",
            {"ids": list(tool_ids), "org": org},
        )
        return json_array([str(document).encode() for (document,) in rows])

    async def custom_tools(self, found: Filter, part: Slice) -> list[bytes]:
        """The tools that clients made, of a slice whose cursors may be anything's."""
        own = replace(
            part,
            before=None if part.before in CATALOGUE else part.before,
            after=None if part.after in CATALOGUE else part.after,
        )
        await self.reads.place_cursors(TOOLS, found, own, "created_at")
        backwards = part.before is not None and part.after is None
        order = OTHER_ORDER[part.order] if backwards else part.order
        ordered = f"v.created_at {order}, {PLACE_OF_ID} {order}"
        async with self.reads.place(found):
            for place in places_of(TOOLS, found, ordered, part.limit):
                rows = await self.reads.database.fetch(
                    f"select {TOOLS.document} from {place} order by {ordered} limit %(limit)s",
                    {**found.values, "limit": part.limit},
                )
                if len(rows) == part.limit:
                    break
        documents = [str(row[0]).encode() for row in rows]
        return documents[::-1] if backwards else documents


def searched_text(tool: BaseTool) -> str:
    """The text in which the words of a search are looked for."""
    return f"{tool.name} {tool.description} {tool.tool_type.value}"


def base_part(fits: Fits, part: Slice, user: str) -> list[bytes]:
    """The tools that come with the server between the cursors, in the order of the list."""
    tools = OURS if part.order == "asc" else OURS[::-1]
    places = {tool.id: place for place, tool in enumerate(tools)}
    # How many of them stand before any tool that a client made.
    first = len(tools) if part.order == "asc" else 0
    start = 0 if part.after is None else places.get(part.after, first - 1) + 1
    end = len(tools) if part.before is None else places.get(part.before, first)
    return [base_document(tool, user) for tool in tools[start:end] if fits(tool)]


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The usage of one tool's calls that ended in one way. CPU, seconds and output are sums; memory
    and processes are the maximum of a call. `sampling_*` is what MCP servers asked of the agent's
    model in the course of calls, and the tokens that took."""

    name: str
    status: str
    calls: int
    since: datetime
    seconds: float
    cpu_seconds: float
    memory_bytes_max: int
    processes_max: int
    output_bytes: int
    sampling_requests: int
    sampling_prompt_tokens: int
    sampling_completion_tokens: int


class ToolUsageQueries(DatabaseQueries):
    """Reads the calls of tools."""

    async def usage(self, org: str, agent_id: str) -> list[ToolUsage]:
        """The usage of an agent's latest calls, by tool and by end."""
        values: dict[str, Any] = {"agent": agent_id, "org": org, "limit": CALLS_MAX}
        return [ToolUsage(*row) for row in await self.database.fetch(USAGE, values)]
