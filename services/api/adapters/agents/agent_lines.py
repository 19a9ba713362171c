"""An agent as the lines of the full form, read from the logs and the views of the services."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent_file import (
    Definition,
    DefinitionKind,
    Footer,
    Header,
    SecretValues,
)
from libs.contracts.appended_histories import APPENDED_EVENTS_MAX
from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.memory.agent_folders import agent_folders_id
from libs.contracts.version import HEELER_VERSION
from libs.eventstore.connection_pool import Database
from services.api.adapters.agents.agent_line_queries import (
    AGENT,
    ARCHIVES,
    BLOCKS_NOW,
    CONVERSATIONS,
    FOLDERS,
    GROUPS,
    IDENTITIES,
    OWN_BLOCKS,
    PASSAGES,
    PAST_FOLDERS,
    PAST_PASSAGES,
    PROJECTS,
    SCHEDULES,
    SECRETS,
    SHARED_BLOCKS,
    TOOLS,
)
from services.api.adapters.agents.agent_log import IDS_AT_ONCE, AgentLog, LoggedEvent
from services.api.adapters.agents.file_lines import FileLines
from services.api.adapters.agents.past_archives import PastArchive, past_archives
from services.api.adapters.agents.unfinished_runs import UnfinishedRuns

SCHEDULE_ROW_FIELDS = ("last_slot", "last_error", "last_skipped")
# Of a history that is imported the values of secrets are not a part: they are sealed by the keys of
# this server.
SECRETS_TOPIC = "agent.secrets_replaced"
# What stands in the log about this agent alone, and not about what it is.
NOT_A_PART = frozenset({SECRETS_TOPIC, "agent.forked", "callback.attempted"})
ARCHIVE_FIELDS = ("name", "description", "embedding_config", "metadata")
FOLDER_FIELDS = ("name", "description", "instructions", "metadata", "embedding_config")
# Of the events in one line, unless a single event is larger: while a line is written, packed or
# read, nobody else is answered.
HISTORY_LINE_BYTES_MAX = 64 << 10


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
            await asyncio.sleep(0)  # others have something to do too
        footer = Footer(counts=dict(counts), sha256=digest.hexdigest())
        yield to_json(footer) + b"\n"

    async def kinds_and_lines(self, wanted: WantedAgent) -> AsyncIterator[tuple[str, bytes]]:
        """The lines before the footer, and of which kind each is."""
        groups = [] if wanted.is_fork else await self.groups(wanted)
        members = [each for group in groups for each in group.attached_to]
        names = list(dict.fromkeys([wanted.agent_id, *members]))
        agents = [replace(wanted, agent_id=agent_id) for agent_id in names]
        header = Header(
            written_by=f"heeler {HEELER_VERSION}",
            exported_at=wanted.now,
            agent_ids=tuple(names),
            at=wanted.at,
        )
        yield "header", to_json(header) + b"\n"
        definitions = await self.all_definitions(agents)
        for definition in definitions:
            yield "definition", to_json(definition) + b"\n"
        async for line in self.histories_of_memory(agents, with_value(definitions, "archive")):
            yield "history", line
        async for line in self.files.lines(wanted.org, with_value(definitions, "folder")):
            yield "file_text", line
        for agent in agents:
            async for line in self.conversations(agent):
                yield "history", line
            if wanted.seal is not None and (secrets := await self.secrets(agent)):
                sealed = SecretValues(agent_id=agent.agent_id, sealed=await wanted.seal(secrets))
                yield "secrets", to_json(sealed) + b"\n"
        for agent in agents:
            async for line in self.history(agent, "agent", agent.agent_id):
                yield "history", line
        for group in groups:
            yield "definition", to_json(group) + b"\n"

    async def groups(self, wanted: WantedAgent) -> list[Definition]:
        """The groups that the agent manages, with their other agents."""
        found = []
        for group_id, members, fields, metadata, state in await self.rows(GROUPS, wanted):
            config = {name: fields[name] for name in GroupConfig.model_fields if name in fields}
            config |= {"metadata": metadata or {}, "agent_ids": members}
            value: JsonObject = {"config": config, "shared_state": state or {}}
            attached = tuple(dict.fromkeys([wanted.agent_id, *members]))
            found.append(definition_of("group", group_id, value, attached))
        return found

    async def all_definitions(self, agents: Sequence[WantedAgent]) -> list[Definition]:
        """Things that these agents use, each once, with all of them that have it."""
        found: dict[str, Definition] = {}
        for agent in agents:
            async for definition in self.definitions(agent):
                known = found.get(definition.id)
                before = known.attached_to if known else ()
                attached = (*before, *definition.attached_to)
                found[definition.id] = definition.model_copy(update={"attached_to": attached})
        return [*found.values()]

    async def histories_of_memory(
        self, agents: Sequence[WantedAgent], archives: list[str]
    ) -> AsyncIterator[bytes]:
        """The histories of the blocks of agents, and of the passages of archives, each once."""
        wanted = agents[0]
        every = [block for agent in agents for block in await self.own_blocks(agent)]
        blocks = list(dict.fromkeys(every))
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
        for archive in await self.archives(wanted):
            stays = wanted.is_fork and archive.is_shared
            yield definition_of("archive", archive.id, {} if stays else archive.value, attached)
        query = FOLDERS if wanted.cut is None else PAST_FOLDERS
        folders = agent_folders_id(wanted.agent_id)
        for folder_id, document in await self.rows(query, wanted, folders=folders):
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

    async def archives(self, wanted: WantedAgent) -> list[PastArchive]:
        """The archives that the agent has, or had at the cut."""
        if wanted.cut is not None:
            return await past_archives(
                self.database, self.log, wanted.org, wanted.agent_id, wanted.cut
            )
        found = []
        for archive_id, _, document, created_at, shared in await self.rows(ARCHIVES, wanted):
            value = {name: from_json(document).get(name) for name in ARCHIVE_FIELDS}
            value["created_at"] = created_at.isoformat()
            found.append(PastArchive(archive_id, value, shared))
        return found

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
        """A history, some events in each line. Runs that have not ended end with it."""
        runs, parts = UnfinishedRuns(), HistoryParts(service, aggregate_id)
        pages = self.log.history(service, wanted.org, aggregate_id, wanted.cut)
        async for page in pages:
            for event in page:
                if self.is_part(event, wanted):
                    runs.note(event.topic, event.payload)
                    if line := parts.add(event_json(event)):
                        yield line
        for past in runs.endings(wanted.now):
            if line := parts.add(to_json(past)):
                yield line
        if line := parts.end():
            yield line

    def is_part(self, event: LoggedEvent, wanted: WantedAgent) -> bool:
        """Whether an event is a part of what goes elsewhere: a fork stays on this server."""
        return event.topic not in NOT_A_PART or (wanted.is_fork and event.topic == SECRETS_TOPIC)

    async def short(self, wanted: WantedAgent, ids: Sequence[str]) -> AsyncIterator[bytes]:
        """The histories of blocks or passages, those that are there at the cut."""
        found = await self.log.short_histories("memory", wanted.org, ids, wanted.cut)
        for aggregate_id in ids:
            events = present_life(found.get(aggregate_id, []))
            for line in lines_of_history("memory", aggregate_id, events):
                yield line

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


def with_value(definitions: Sequence[Definition], of: DefinitionKind) -> list[str]:
    """The things of a kind that are not used as they are here."""
    return [each.id for each in definitions if each.of == of and each.value]


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


class HistoryParts:
    """The events of an aggregate as lines: one line may not have all events of a long history."""

    def __init__(self, service: str, aggregate_id: str) -> None:
        self.service = service
        self.aggregate_id = aggregate_id
        self.first = 1
        self.held: list[bytes] = []
        self.bytes = 0

    def add(self, event: bytes) -> bytes | None:
        """Add the next event; returns the line before it, if that is full."""
        is_long = self.bytes + len(event) > HISTORY_LINE_BYTES_MAX
        is_full = is_long or len(self.held) >= APPENDED_EVENTS_MAX
        line = self.line(complete=False) if self.held and is_full else None
        self.held.append(event)
        self.bytes += len(event)
        return line

    def end(self) -> bytes | None:
        """The last line; None of a history without events."""
        return self.line(complete=True) if self.held else None

    def line(self, *, complete: bool) -> bytes:
        """The line of the events that are held, which are held no longer."""
        events = b", ".join(self.held)
        line = line_of(self.service, self.aggregate_id, self.first, events, complete=complete)
        self.first, self.held, self.bytes = self.first + len(self.held), [], 0
        return line


def lines_of_history(
    service: str, aggregate_id: str, events: Sequence[LoggedEvent]
) -> Iterator[bytes]:
    """The lines with the events of an aggregate: a block that was changed often has more of them
    than one line may have."""
    parts = HistoryParts(service, aggregate_id)
    for event in map(event_json, events):
        if line := parts.add(event):
            yield line
    if line := parts.end():
        yield line


def line_of(service: str, aggregate_id: str, first: int, events: bytes, *, complete: bool) -> bytes:
    """A line with the next events of an aggregate."""
    history = to_json({"aggregate_id": aggregate_id, "first_version": first, "complete": complete})
    return b"".join(
        [
            b'{"kind": "history", "service": ' + to_json(service) + b', "history": ',
            history[:-1] + b', "events": [' + events + b"]}}\n",
        ]
    )
