"""The tools that clients made and the calls of tools, from the views that the tools service
publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from libs.contracts.tools.base_tools.definition import TOOL_RETURN_CHARS_MAX
from libs.eventstore.connection_pool import Database, DatabaseQueries
from libs.eventstore.query_batching import Batched
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.tools.custom_tools import CustomTool, custom_ids
from services.agent.domain.tools.tool_rules import with_current_names

PIECE_CHARS = 64 << 10  # of schemas that are read in one piece: 2 ms
COLUMNS = (
    "id, revision, name, tool_type, json_schema::text as schema,"
    " fields->>'description' as description,"
    " (fields->>'enable_parallel_execution')::boolean as parallel,"
    " (fields->>'default_requires_approval')::boolean as needs_approval,"
    " (fields->>'return_char_limit')::int as chars_max"
)
TOOLS_BY_ID = f"""
select wanted.list, t.id, t.revision, t.name, t.tool_type, t.schema, t.description, t.parallel,
       t.needs_approval, t.chars_max
from unnest(%(ids)s::text[], %(orgs)s::text[], %(lists)s::int[]) with ordinality
    as wanted(id, org, list, place)
cross join lateral (select org, {COLUMNS} from tools.tool_view where id = wanted.id limit 1) t
where t.org = wanted.org
order by wanted.list, wanted.place"""
TOOLS_BY_NAME = (
    f'select {COLUMNS} from tools.tool_view where org collate "C" = %(org)s'
    ' and name collate "C" = any(%(names)s) order by name'
)


class CustomToolQueries(DatabaseQueries):
    """The queries of prompts and handlers about clients' tools."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.tools = Batched(self.tools_of_many, called=lambda _: "SELECT tools.tool_view")

    async def tools_of_many(self, wanted: list[tuple[str, list[str]]]) -> list[list[CustomTool]]:
        """The tools of several agents, in one query."""
        asked = [(n, org, tool_id) for n, (org, ids) in enumerate(wanted) for tool_id in ids]
        rows = await self.database.fetch(
            TOOLS_BY_ID,
            {
                "ids": [tool_id for _, _, tool_id in asked],
                "orgs": [org for _, org, _ in asked],
                "lists": f"{{{','.join(str(n) for n, _, _ in asked)}}}",
            },
        )
        found: list[list[CustomTool]] = [[] for _ in wanted]
        tools = await tools_of_rows([columns for _, *columns in rows])
        for (n, *_), tool in zip(rows, tools, strict=True):
            found[n].append(tool)
        return found

    async def custom_tools(self, org: str, tool_ids: list[str]) -> list[CustomTool]:
        """These tools as they are now, in this order, without those that are gone."""
        return await self.tools.answer((org, tool_ids)) if tool_ids else []

    async def custom_tools_named(self, org: str, names: list[str]) -> list[CustomTool]:
        """The tools of these names that are there."""
        rows = await self.database.fetch(TOOLS_BY_NAME, {"org": org, "names": names})
        return await tools_of_rows(rows)


async def with_custom_tools(
    queries: CustomToolQueries, org: str, design: AgentDesign
) -> AgentDesign:
    """The agent with its custom tools as they are now, and its rules by their names of now; nothing
    is read for one that has none. Not to be recorded."""
    ids = custom_ids(design.tool_ids)
    if not ids:
        return design
    return holding(design, await queries.custom_tools(org, ids))


def holding(design: AgentDesign, custom: list[CustomTool]) -> AgentDesign:
    """The agent with these custom tools, and its rules by their names. Not to be recorded."""
    now = design.model_copy(update={"custom_tools": custom})
    rules = with_current_names(design.config.tool_rules, now.names_now)
    if rules != design.config.tool_rules:
        now.config = design.config.model_copy(update={"tool_rules": rules})
    return now


async def tools_of_rows(rows: Sequence[Sequence[Any]]) -> list[CustomTool]:
    """The tools of rows of `COLUMNS`. Their schemas, which may be long, are read in pieces."""
    found, chars = list[CustomTool](), 0
    for *named, schema, description, parallel, needs_approval, most in rows:
        given = None if schema is None else from_json(schema)
        found.append(custom_tool([*named, given, description, parallel, needs_approval, most]))
        chars += len(schema or "")
        if chars > PIECE_CHARS:
            chars = 0
            await asyncio.sleep(0)
    return found


def custom_tool(row: Sequence[Any]) -> CustomTool:
    """A tool as a row of `COLUMNS` says, with its schema read; what a client gave may lack
    anything. Nothing is checked again: that takes three times as long as reading it."""
    tool_id, revision, name, tool_type, schema, description, parallel, needs_approval, most = row
    given = schema if isinstance(schema, dict) else {}
    parameters, described = given.get("parameters"), given.get("description")
    return CustomTool.model_construct(
        id=tool_id,
        revision=revision,
        name=name,
        tool_type=tool_type,
        description=described if isinstance(described, str) else description or "",
        parameters=parameters if isinstance(parameters, dict) else {},
        parallel=bool(parallel),
        needs_approval=needs_approval,
        return_chars_max=TOOL_RETURN_CHARS_MAX if most is None else max(most, 1),
    )


@dataclass(frozen=True, slots=True)
class ToolRunProgress:
    """The state of a call: `result` once there is one; `alive` while a process makes it."""

    result: dict[str, Any] | None
    alive: bool


class ToolRunQueries(DatabaseQueries):
    """The query about a tool run, for the process that waits for it."""

    async def tool_run(self, org: str, tool_run_id: str) -> ToolRunProgress | None:
        """A call, if it was begun."""
        row = await self.database.fetch_one(
            "select result, alive and status = 'running' from tools.tool_run_view"
            " where id = %s and org = %s",
            [tool_run_id, org],
        )
        return ToolRunProgress(*row) if row else None
