"""An agent as the lines of the full form, read from the logs and the views of the services."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent_file import Definition, DefinitionKind, Footer, Header, SecretValues
from libs.contracts.bus_messages import JsonObject
from libs.contracts.version import HEELER_VERSION
from libs.eventstore.connection_pool import Database
from services.api.adapters.agent_log import IDS_AT_ONCE, AgentLog, LoggedEvent
from services.api.adapters.file_lines import FileLines
from services.api.adapters.unfinished_runs import UnfinishedRuns

AGENT = """
select payload::text from agent.recorded_event_view
where aggregate_id = %(agent)s and org = %(org)s
  and topic in ('agent.created', 'agent.updated')
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by version desc limit 1"""
BLOCKS_NOW = """
select payload->'block_ids' from agent.recorded_event_view
where aggregate_id = %(agent)s and org = %(org)s
  and topic in ('agent.created', 'agent.updated', 'agent.block_attached', 'agent.block_detached')
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by version desc limit 1"""
SECRETS = """
select payload->'secrets' from agent.recorded_event_view
where aggregate_id = %(agent)s and org = %(org)s and topic = 'agent.secrets_replaced'
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by version desc limit 1"""
CONVERSATIONS = """
select c.aggregate_id from agent.recorded_event_view c
where c.topic = 'conversation.created' and c.payload->'config'->>'agent_id' = %(agent)s
  and c.org = %(org)s and (%(cut)s::bigint is null or c.commit_order <= %(cut)s)
  and c.aggregate_id collate "C" > %(after)s
  and not exists (
    select from agent.recorded_event_view d
    where d.aggregate_id = c.aggregate_id and d.topic = 'conversation.deleted'
      and d.version > c.version and (%(cut)s::bigint is null or d.commit_order <= %(cut)s))
order by c.aggregate_id collate "C" limit %(limit)s"""
OWN_BLOCKS = """
select distinct b.value
from agent.recorded_event_view c
cross join lateral json_each_text(c.payload->'config'->'isolated_blocks') b
where c.aggregate_id = any(%(ids)s) and c.org = %(org)s and c.topic = 'conversation.created'"""
SHARED_BLOCKS = """
select distinct b.id from unnest(%(ids)s::text[]) as b(id) where exists (
    select from agent.agent_view a where a.block_ids @> array[b.id] and a.org = %(org)s
    and a.id <> %(agent)s)"""
TOOLS = """
select t.id, t.document from tools.tool_view t
where t.id = any(%(ids)s) and t.org = %(org)s and t.tool_type = 'custom' order by t.id"""
ARCHIVES = """
select v.id, v.name, v.document, v.created_at, exists (
    select from memory.archive_agent_view o
    where o.archive_id = v.id and o.org = v.org and o.agent_id <> %(agent)s)
from memory.archive_agent_view a join memory.archive_view v on v.id = a.archive_id and v.org = a.org
where a.agent_id = %(agent)s and a.org = %(org)s order by a.attached_at, v.id"""
PASSAGES = """
select id from memory.archive_passage_view where archive_id = %(archive)s and org = %(org)s
  and id collate "C" > %(after)s order by id collate "C" limit %(limit)s"""
PAST_PASSAGES = """
select distinct aggregate_id collate "C" from memory.passage_event_view
where archive_id = %(archive)s and org = %(org)s and topic = 'passage.created'
  and commit_order <= %(cut)s and aggregate_id collate "C" > %(after)s
order by aggregate_id collate "C" limit %(limit)s"""
FOLDERS = """
select f.id, f.document from memory.agent_folder_view a
join memory.folder_view f on f.id = a.folder_id and f.org = a.org
where a.agent_id = %(agent)s and a.org = %(org)s order by a.created_at, f.id"""
IDENTITIES = """
select i.id, json_build_object('identifier_key', i.identifier_key, 'name', i.name,
    'identity_type', i.identity_type, 'project_id', i.project_id, 'properties', i.properties)
from api.identity_attachment_view a
join api.identity_view i on i.id = a.identity_id and i.org = a.org
where a.target_id = %(agent)s and a.org = %(org)s order by a.created_at, i.id"""
PROJECTS = """
select p.id, json_build_object('name', p.name, 'description', p.description, 'tags', p.tags,
    'owner_id', p.owner_id)
from api.project_agent_view a join api.project_view p on p.id = a.project_id and p.org = a.org
where a.target_id = %(agent)s and a.org = %(org)s order by a.created_at, p.id"""
SCHEDULES = """
select id, fields from scheduler.schedule_view
where agent_id = %(agent)s and org = %(org)s and status <> 'completed' order by id"""
SCHEDULE_ROW_FIELDS = ("last_slot", "last_error", "last_skipped")
# Of a history that is imported the values of secrets are not a part: they are sealed by the keys of
# this server.
SECRETS_TOPIC = "agent.secrets_replaced"
# What stands in the log about this agent alone, and not about what it is.
NOT_A_PART = frozenset({SECRETS_TOPIC, "agent.forked", "callback.attempted"})
ARCHIVE_FIELDS = ("name", "description", "embedding_config", "metadata")
FOLDER_FIELDS = ("name", "description", "instructions", "metadata", "embedding_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAgent:
    """An agent as of a cut, and what for: a fork is given what the agent shares with others as it
    is there. `seal` seals the values of secrets again; without it they are left out."""

    org: str
    agent_id: str
    cut: int | None = None
    at: str = ""
    is_fork: bool = False
    now: datetime
    seal: Callable[[dict[str, str]], Awaitable[str]] | None = None


class AgentLines:
    """Writes agents as lines; a page of them is in memory at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.log = AgentLog(database)
        self.files = FileLines(database)

    async def lines(self, wanted: WantedAgent) -> AsyncGenerator[bytes]:
        """The lines of an agent, each with its line feed."""
        counts: Counter[str] = Counter()
        digest = hashlib.sha256()
        async for kind, line in self.kinds_and_lines(wanted):
            counts[kind] += 1
            digest.update(line)
            yield line
        footer = Footer(counts=dict(counts), sha256=digest.hexdigest())
        yield to_json(footer) + b"\n"

    async def kinds_and_lines(self, wanted: WantedAgent) -> AsyncIterator[tuple[str, bytes]]:
        """The lines before the footer, and of which kind each is."""
        header = Header(
            written_by=f"heeler {HEELER_VERSION}",
            exported_at=wanted.now,
            agent_ids=(wanted.agent_id,),
            at=wanted.at,
        )
        yield "header", to_json(header) + b"\n"
        archives: list[str] = []
        folders: list[str] = []
        async for definition in self.definitions(wanted):
            if definition.of == "archive" and definition.value:
                archives.append(definition.id)
            if definition.of == "folder" and definition.value:
                folders.append(definition.id)
            yield "definition", to_json(definition) + b"\n"
        async for line in self.histories_of_memory(wanted, archives):
            yield "history", line
        async for line in self.files.lines(wanted.org, folders):
            yield "file_text", line
        async for line in self.conversations(wanted):
            yield "history", line
        if wanted.seal is not None and (secrets := await self.secrets(wanted)):
            sealed = SecretValues(agent_id=wanted.agent_id, sealed=await wanted.seal(secrets))
            yield "secrets", to_json(sealed) + b"\n"
        async for line in self.history(wanted, "agent", wanted.agent_id):
            yield "history", line

    async def histories_of_memory(
        self, wanted: WantedAgent, archives: list[str]
    ) -> AsyncIterator[bytes]:
        """The histories of blocks, and of the passages of archives."""
        blocks = await self.own_blocks(wanted)
        for begin in range(0, len(blocks), IDS_AT_ONCE):
            async for line in self.short(wanted, blocks[begin : begin + IDS_AT_ONCE]):
                yield line
        for archive_id in archives:
            query = PASSAGES if wanted.cut is None else PAST_PASSAGES
            async for page in self.pages(query, wanted, archive=archive_id):
                async for line in self.short(wanted, page):
                    yield line

    async def conversations(self, wanted: WantedAgent) -> AsyncIterator[bytes]:
        """The histories of the conversations of an agent, its own first."""
        async for line in self.history(wanted, "agent", main_conversation(wanted.agent_id)):
            yield line
        async for page in self.pages(CONVERSATIONS, wanted):
            for conversation_id in page:
                async for line in self.history(wanted, "agent", conversation_id):
                    yield line

    async def definitions(self, wanted: WantedAgent) -> AsyncIterator[Definition]:
        """The definitions of what the agent uses."""
        attached = (wanted.agent_id,)
        values = self.values(wanted)
        row = await self.database.fetch_one(AGENT, values)
        tool_ids = from_json(row[0]).get("tool_ids", []) if row else []
        if not wanted.is_fork:
            for tool_id, document in await self.rows(TOOLS, wanted, ids=tool_ids):
                yield definition_of("tool", tool_id, {"tool": from_json(document)}, attached)
        for archive_id, _, document, created_at, shared in await self.rows(ARCHIVES, wanted):
            value = {name: from_json(document).get(name) for name in ARCHIVE_FIELDS}
            value["created_at"] = created_at.isoformat()
            stays = wanted.is_fork and shared
            yield definition_of("archive", archive_id, {} if stays else value, attached)
        for folder_id, document in await self.rows(FOLDERS, wanted):
            value = {name: from_json(document).get(name) for name in FOLDER_FIELDS}
            yield definition_of("folder", folder_id, {} if wanted.is_fork else value, attached)
        for identity_id, fields in await self.rows(IDENTITIES, wanted):
            value = {} if wanted.is_fork else {"identity": {**fields, "id": identity_id}}
            yield definition_of("identity", identity_id, value, attached)
        for project_id, fields in await self.rows(PROJECTS, wanted):
            yield definition_of("project", project_id, {} if wanted.is_fork else fields, attached)
        if wanted.is_fork:
            return
        for schedule_id, fields in await self.rows(SCHEDULES, wanted):
            value = {name: fields[name] for name in fields if name not in SCHEDULE_ROW_FIELDS}
            yield definition_of("schedule", schedule_id, value, attached)

    async def own_blocks(self, wanted: WantedAgent) -> list[str]:
        """The blocks that go with the agent: all that it sees, and its conversations' own; of a
        fork only those that no other agent sees."""
        row = await self.database.fetch_one(BLOCKS_NOW, self.values(wanted))
        blocks = list(row[0]) if row else []
        if wanted.is_fork:
            shared = {shared for (shared,) in await self.rows(SHARED_BLOCKS, wanted, ids=blocks)}
            blocks = [block_id for block_id in blocks if block_id not in shared]
        async for page in self.pages(CONVERSATIONS, wanted):
            blocks += [block_id for (block_id,) in await self.rows(OWN_BLOCKS, wanted, ids=page)]
        return list(dict.fromkeys(blocks))

    async def secrets(self, wanted: WantedAgent) -> dict[str, str]:
        """The sealed values of the agent's secrets."""
        row = await self.database.fetch_one(SECRETS, self.values(wanted))
        return dict(row[0]) if row else {}

    async def history(
        self, wanted: WantedAgent, service: str, aggregate_id: str
    ) -> AsyncIterator[bytes]:
        """A history, one line for each page. Runs that have not ended end with it."""
        runs, first, held = UnfinishedRuns(), 1, b""
        held_count = 0
        pages = self.log.history(service, wanted.org, aggregate_id, wanted.cut)
        async for page in pages:
            if held_count:
                yield line_of(service, aggregate_id, first, held, complete=False)
                first += held_count
            kept = [event for event in page if self.is_part(event, wanted)]
            for event in kept:
                runs.note(event.topic, event.payload)
            held, held_count = b", ".join(map(event_json, kept)), len(kept)
        endings = [to_json(past) for past in runs.endings(wanted.now)]
        if held_count or endings:
            events = b", ".join([held, *endings] if held else endings)
            yield line_of(service, aggregate_id, first, events, complete=True)

    def is_part(self, event: LoggedEvent, wanted: WantedAgent) -> bool:
        """Whether an event is a part of what goes elsewhere: a fork stays on this server."""
        return event.topic not in NOT_A_PART or (wanted.is_fork and event.topic == SECRETS_TOPIC)

    async def short(self, wanted: WantedAgent, ids: Sequence[str]) -> AsyncIterator[bytes]:
        """The histories of blocks or passages, those that are there at the cut."""
        found = await self.log.short_histories("memory", wanted.org, ids, wanted.cut)
        for aggregate_id in ids:
            events = present_life(found.get(aggregate_id, []))
            if events:
                joined = b", ".join(map(event_json, events))
                yield line_of("memory", aggregate_id, 1, joined, complete=True)

    async def pages(self, query: str, wanted: WantedAgent, **more: str) -> AsyncIterator[list[str]]:
        """The ids that a query finds, page by page."""
        after = ""
        while True:
            values = {**self.values(wanted), **more, "after": after, "limit": IDS_AT_ONCE}
            page = [row[0] for row in await self.database.fetch(query, values)]
            if not page:
                return
            yield page
            after = page[-1]

    async def rows(self, query: str, wanted: WantedAgent, **more: Any) -> list[tuple[Any, ...]]:
        """The rows of a query about the agent."""
        return await self.database.fetch(query, {**self.values(wanted), **more})

    def values(self, wanted: WantedAgent) -> dict[str, Any]:
        """The parameters of queries about the agent."""
        return {"agent": wanted.agent_id, "org": wanted.org, "cut": wanted.cut}


def definition_of(
    of: DefinitionKind, thing_id: str, value: JsonObject, attached: tuple[str, ...]
) -> Definition:
    """The definition of a thing."""
    return Definition(of=of, id=thing_id, value=value, attached_to=attached)


def present_life(events: list[LoggedEvent]) -> list[LoggedEvent]:
    """The events since a block or a passage began, for the first time or again; none if it is
    deleted."""
    for place in range(len(events) - 1, -1, -1):
        if events[place].topic.endswith(".deleted"):
            return events[place + 1 :]
    return events


def event_json(event: LoggedEvent) -> bytes:
    """An event as a line has it; the payload stays as its client wrote it."""
    head = {
        "topic": event.topic,
        "schema_version": event.schema_version,
        "occurred_at": event.occurred_at,
    }
    return to_json(head)[:-1] + b', "payload": ' + in_one_line(event.payload) + b"}"


def in_one_line(text: str) -> bytes:
    """JSON without the line feeds between its values: within them there are none."""
    return text.replace("\n", " ").replace("\r", " ").encode()


def line_of(service: str, aggregate_id: str, first: int, events: bytes, *, complete: bool) -> bytes:
    """A line with the next events of an aggregate."""
    history = to_json({"aggregate_id": aggregate_id, "first_version": first, "complete": complete})
    return b"".join(
        [
            b'{"kind": "history", "service": ' + to_json(service) + b', "history": ',
            history[:-1] + b', "events": [' + events + b"]}}\n",
        ]
    )
