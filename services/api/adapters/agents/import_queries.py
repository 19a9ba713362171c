"""Queries of imports: those that are due, and the things of theirs that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from libs.eventstore.connection_pool import DatabaseQueries
from libs.work.work_lease import DueWork

DUE = """
select id, org from (
    select i.id, i.org, i.created_at,
           row_number() over (partition by i.org order by i.created_at, i.id) as place
    from api.imports i
    where i.completed_at is null
      and not exists (select from api.leases l where l.key = i.id and l.expires_at > now())
) due
where place <= %(of_org)s order by place, created_at limit %(limit)s"""
UNFINISHED = """
select count(*) from api.imports where org collate "C" = %(org)s and completed_at is null
  and (source->>'form' = 'fork') = %(forks)s"""
# The last fork of an agent that a request asked for which came again.
SAME_FORK = """
select id from api.import_view
where org collate "C" = %(org)s and created_at > now() - make_interval(secs => %(seconds)s)
  and source->>'agent_id' = %(agent)s and source->>'request_hash' = %(hash)s
  and id <> all(%(excluded)s::text[])
order by created_at desc limit 1"""
PRESENT = """
select id from agent.agent_view where id = any(%(ids)s)
union all select id from memory.block_view where id = any(%(ids)s)
union all select id from memory.archive_view where id = any(%(ids)s)
union all select id from memory.folder_view where id = any(%(ids)s)
union all select id from agent.conversation_view where id = any(%(ids)s)
union all select id from scheduler.schedule_view where id = any(%(ids)s)
union all select id from groups.group_view where id = any(%(ids)s)
union all select id from tools.tool_view where id = any(%(ids)s)
union all select id from tools.mcp_server_view where id = any(%(ids)s)
union all select id from api.identity_view where id = any(%(ids)s)
union all select id from api.project_view where id = any(%(ids)s)"""
OF_ORG = """
select id from memory.block_view where id = any(%(ids)s) and org = %(org)s
union all select id from memory.archive_view where id = any(%(ids)s) and org = %(org)s
union all select id from memory.folder_view where id = any(%(ids)s) and org = %(org)s
union all select id from tools.tool_view where id = any(%(ids)s) and org = %(org)s
union all select id from tools.mcp_server_view where id = any(%(ids)s) and org = %(org)s
union all select id from groups.group_view where id = any(%(ids)s) and org = %(org)s
union all select id from scheduler.schedule_view where id = any(%(ids)s) and org = %(org)s
union all select id from api.identity_view where id = any(%(ids)s) and org = %(org)s
union all select id from api.project_view where id = any(%(ids)s) and org = %(org)s"""
# What goes when agents are deleted: the blocks that were made with them, and their own archives,
# unless another agent has them.
GOING = """
select b.id from unnest(%(ids)s::text[]) as b(id)
where b.id like 'block-%%'
  and exists (
    select from memory.recorded_event_view e where e.aggregate_id = b.id and e.version = 1
    and (e.payload->>'agent_id' = any(%(agents)s) or exists (
        select from agent.recorded_event_view c where c.aggregate_id = any(%(agents)s)
        and c.topic = 'agent.created' and c.payload->>'own_block_ids' like '%%' || b.id || '%%')))
  and not exists (
    select from agent.agent_view a where a.block_ids @> array[b.id] and a.id <> all(%(agents)s))
union all
select b.id from unnest(%(ids)s::text[]) as b(id)
where b.id = any(%(own_archives)s) and not exists (
    select from memory.archive_agent_view a where a.archive_id = b.id
    and a.agent_id <> all(%(agents)s))
union all
select id from agent.conversation_view where agent_id = any(%(agents)s) and org = %(org)s
union all
select id from scheduler.schedule_view where agent_id = any(%(agents)s) and org = %(org)s"""
SCHEDULES = """
select id from scheduler.schedule_view where agent_id = any(%(agents)s) and org = %(org)s"""
BEGUN = """
select aggregate_id from agent.recorded_event_view
where metadata->>'import' = %(import)s and metadata ? 'begins' and aggregate_id = any(%(ids)s)
union all
select aggregate_id from memory.recorded_event_view
where metadata->>'import' = %(import)s and metadata ? 'begins' and aggregate_id = any(%(ids)s)"""
# What other imports have begun that are going on: it does not go away.
COMING = """
select b.aggregate_id from (
    select aggregate_id, metadata from agent.recorded_event_view
    where aggregate_id = any(%(ids)s) and metadata ? 'begins'
    union all
    select aggregate_id, metadata from memory.recorded_event_view
    where aggregate_id = any(%(ids)s) and metadata ? 'begins'
) b join api.imports i on i.id = b.metadata->>'import'
where i.id <> %(import)s and i.status in ('pending', 'importing')"""
DELETED_ARCHIVES = """
select aggregate_id from memory.recorded_event_view
where aggregate_id = any(%(ids)s) and topic = 'archive.deleted' and org = %(org)s"""
TOOLS = """
select name, id, tool_type, document from tools.tool_view
where org collate "C" = %(org)s and name collate "C" = any(%(names)s)"""
TOOLS_NEEDING_APPROVAL = """
select id, name from tools.tool_view where id = any(%(ids)s) and org = %(org)s
and (fields->>'default_requires_approval')::boolean"""
FOLDER_NAMES = """
select name from memory.folder_view
where org collate "C" = %(org)s and name collate "C" = any(%(names)s)"""
MCP_SERVER_NAMES = """
select name from tools.mcp_server_view
where org collate "C" = %(org)s and name collate "C" = any(%(names)s)"""
# Which imports are looked at: some, by their ids or those of their agents; those of which nothing
# came; all.
type ChosenImports = Literal["some", "undone", "all"]
CHOSEN_IMPORTS: dict[ChosenImports, str] = {
    "some": "(i.agent_ids && %(keys)s::text[] or i.id = any(%(keys)s::text[]))",
    "undone": "i.status in ('failed', 'cancelled')",
    "all": "true",
}
# Those of which nothing came are kept for a while, for clients that ask why.
FORGETTABLE = """
select i.id, i.org from api.imports i
where {chosen}
  and (i.status = 'completed'
    or i.status in ('failed', 'cancelled')
      and i.completed_at < now() - make_interval(secs => %(seconds)s))
  and not exists (select from agent.agent_view a where a.id = any(i.agent_ids))
order by i.id limit %(limit)s"""
FORGOTTEN_AT_ONCE_MAX = 100
FILE = """
select id from memory.file_view where id = %(file)s"""
UPLOAD = """
select file_id from api.uploads where file_id = %(file)s and org = %(org)s"""
AGENTS = """
select id, name, files_max from agent.agent_view where id = any(%(ids)s) and org = %(org)s"""


@dataclass(frozen=True, slots=True)
class PresentTool:
    """A tool that the organisation has."""

    id: str
    tool_type: str
    document: str


@dataclass(frozen=True, slots=True)
class PresentAgent:
    """An agent that is there, and how many files it may have open."""

    name: str
    files_max: int


class ImportQueries(DatabaseQueries):
    """The queries of the engine and the handlers of imports."""

    async def due_imports(self, of_org: int, limit: int) -> list[DueWork]:
        """Imports that have something left to do, and that nobody works on."""
        if not await self.database.any_row("api.imports where completed_at is null"):
            return []
        rows = await self.database.fetch(DUE, {"of_org": of_org, "limit": limit})
        return [DueWork(import_id, org) for import_id, org in rows]

    async def forgettable(
        self, chosen: ChosenImports, keys: list[str], *, kept_seconds: float
    ) -> Sequence[DueWork]:
        """Some imports that have ended and of whose agents none is left."""
        text = FORGETTABLE.format(chosen=CHOSEN_IMPORTS[chosen])
        values = {"keys": keys, "seconds": kept_seconds, "limit": FORGOTTEN_AT_ONCE_MAX}
        return [DueWork(*row) for row in await self.database.fetch(text, values)]

    async def unfinished_imports(self, org: str, *, forks: bool) -> int:
        """The number of an organisation's imports of files, or forks, that have not ended."""
        return await self.number(UNFINISHED, {"org": org, "forks": forks})

    async def present(self, ids: Sequence[str]) -> set[str]:
        """Which of these things there are, whoever has them."""
        return await self.ids(PRESENT, ids=[*ids])

    async def usable(self, org: str, ids: Sequence[str]) -> set[str]:
        """Which of these blocks, archives and folders an organisation has, and can use."""
        return await self.ids(OF_ORG, ids=[*ids], org=org)

    async def going_with(
        self, org: str, agent_ids: Sequence[str], own_archives: Sequence[str], ids: Sequence[str]
    ) -> set[str]:
        """Which of these things, and which conversations, are deleted when these agents are."""
        values = {"ids": [*ids], "agents": [*agent_ids], "own_archives": [*own_archives]}
        return await self.ids(GOING, org=org, **values)

    async def schedules_of(self, org: str, agent_ids: Sequence[str]) -> set[str]:
        """The schedules of these agents."""
        return await self.ids(SCHEDULES, org=org, agents=[*agent_ids])

    async def begun_by(self, import_id: str, ids: Sequence[str]) -> set[str]:
        """Which of these things an import has begun itself."""
        return await self.ids(BEGUN, ids=[*ids], **{"import": import_id})

    async def coming(self, import_id: str, ids: Sequence[str]) -> set[str]:
        """Which of these things another import has begun that goes on."""
        return await self.ids(COMING, ids=[*ids], **{"import": import_id})

    async def deleted_archives(self, org: str, ids: Sequence[str]) -> set[str]:
        """Which of these archives were deleted at some time."""
        return await self.ids(DELETED_ARCHIVES, ids=[*ids], org=org)

    async def tools_by_name(self, org: str, names: Sequence[str]) -> dict[str, PresentTool]:
        """The tools of an organisation that have these names."""
        rows = await self.database.fetch(TOOLS, {"org": org, "names": [*names]})
        return {name: PresentTool(*tool) for name, *tool in rows}

    async def tools_needing_approval(self, org: str, tool_ids: Sequence[str]) -> dict[str, str]:
        """The names of those of these tools that need an approval by themselves, by id."""
        rows = await self.database.fetch(TOOLS_NEEDING_APPROVAL, {"org": org, "ids": [*tool_ids]})
        return dict(rows)

    async def agents(self, org: str, agent_ids: Sequence[str]) -> dict[str, PresentAgent]:
        """Those of these agents that are there."""
        rows = await self.database.fetch(AGENTS, {"org": org, "ids": [*agent_ids]})
        return {agent_id: PresentAgent(name, most or 0) for agent_id, name, most in rows}

    async def folder_names(self, org: str, names: Sequence[str]) -> set[str]:
        """Which of these names folders of an organisation have."""
        return await self.ids(FOLDER_NAMES, org=org, names=[*names])

    async def has_file(self, file_id: str) -> bool:
        """Whether a file is there, whoever has it."""
        return bool(await self.ids(FILE, file=file_id))

    async def has_upload(self, org: str, file_id: str) -> bool:
        """Whether an organisation has begun to upload a file."""
        return bool(await self.ids(UPLOAD, file=file_id, org=org))

    async def mcp_server_names(self, org: str, names: Sequence[str]) -> set[str]:
        """Which of these names MCP servers of an organisation have."""
        return await self.ids(MCP_SERVER_NAMES, org=org, names=[*names])

    async def ids(self, query: str, **values: Any) -> set[str]:
        """The ids that a query finds."""
        return {row[0] for row in await self.database.fetch(query, values)}
