"""Queries of agent files besides the V1 document, from the views of the services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from libs.bus.pauses import with_pauses
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import DatabaseQueries

# Of all files of one agent file together; the texts of those that have more are left out.
TEXTS_CHARS_MAX = 20_000_000
FILES_MAX = 10_000

# What models are shown, as it was recorded, and what clients said about calls since then. The
# system's message is made anew now and then: its words stand in its row.
MESSAGES = """
select v.in_context, v.role, v.v1_messages, e.payload->'message'
from agent.message_view v
join agent.recorded_event_view e
  on e.aggregate_id = v.conversation_id and e.version = v.position
where v.conversation_id = %(conversation)s and v.agent_id = %(agent)s and v.org = %(org)s
  and (v.in_context or v.role = 'approval' and v.position > (
    select min(f.position) from agent.message_view f
    where f.conversation_id = v.conversation_id and f.org = v.org and f.in_context
    and f.role not in ('system', 'summary')))
order by v.position"""
FOLDERS = """
select distinct on (f.created_at, f.id) f.document from memory.agent_folder_view a
join memory.folder_view f on f.id = a.folder_id and f.org = a.org
where a.agent_id = any(%(agents)s) and a.org = %(org)s order by f.created_at, f.id"""
OPENED = """
select a.agent_id, json_build_object('file_id', a.id, 'folder_id', a.folder_id, 'name', a.name,
    'is_open', a.is_open, 'start_line', a.first_line, 'end_line', a.last_line,
    'last_accessed_at', a.opened_at)
from memory.agent_file_view a
where a.agent_id = any(%(agents)s) and a.org = %(org)s
order by a.created_at, a.id limit %(limit)s"""
FILES = """
select f.document::jsonb || jsonb_build_object('content', case
    when sum(f.chars) over (order by f.created_at, f.id) <= %(chars)s then (
        select string_agg(t.text, '' order by t.number) from memory.file_text_view t
        where t.file_id = f.id and t.org = f.org) end)
from memory.file_view f
where f.id = any(%(files)s) and f.org = %(org)s order by f.created_at, f.id"""
UNREAD = """
select f.name from memory.agent_folder_view a
join memory.file_view f on f.folder_id = a.folder_id and f.org = a.org
where a.agent_id = any(%(agents)s) and a.org = %(org)s
  and f.status in ('parsing', 'pending') and f.text_id is null
order by f.created_at, f.id limit %(limit)s"""
UNREAD_SHOWN_MAX = 5
MCP_SERVERS = """
select document from tools.mcp_server_view
where id = any(%(servers)s) and org = %(org)s order by created_at, id"""


class AgentFileQueries(DatabaseQueries):
    """Reads what is written into agent files."""

    async def messages(self, org: str, agent_id: str, conversation_id: str) -> list[Message]:
        """The messages of a conversation that models are shown, in that order, with the client's
        answers to calls that waited for it."""
        rows = await self.database.fetch(
            MESSAGES, {"conversation": conversation_id, "agent": agent_id, "org": org}
        )
        found = [recorded_message(*row[1:]) async for row in with_pauses(rows)]
        return [
            *found[:1],
            *(message for message in found[1:] if message.summary is not None),
            *(message for message in found[1:] if message.summary is None),
        ]

    async def folders(self, org: str, agent_ids: Sequence[str]) -> list[JsonObject]:
        """The folders that these agents have, each once."""
        rows = await self.database.fetch(FOLDERS, {"agents": [*agent_ids], "org": org})
        return [object_of(document) for (document,) in rows]

    async def files_of_agents(
        self, org: str, agent_ids: Sequence[str]
    ) -> dict[str, list[JsonObject]]:
        """The files that these agents may open, by their ids."""
        values = {"agents": [*agent_ids], "org": org, "limit": FILES_MAX}
        found: dict[str, list[JsonObject]] = {agent_id: [] for agent_id in agent_ids}
        for agent_id, file in await self.database.fetch(OPENED, values):
            found[agent_id].append(object_of(file))
        return found

    async def files(self, org: str, file_ids: Sequence[str]) -> list[JsonObject]:
        """Files with their texts, as many of these as there is room for."""
        values = {"files": [*file_ids], "org": org, "chars": TEXTS_CHARS_MAX}
        rows = await self.database.fetch(FILES, values)
        return [object_of(document) for (document,) in rows]

    async def unread_files(self, org: str, agent_ids: Sequence[str]) -> list[str]:
        """The names of some files of these agents that are still parsed."""
        values = {"agents": [*agent_ids], "org": org, "limit": UNREAD_SHOWN_MAX}
        return await self.column(UNREAD, values)

    async def mcp_servers(self, org: str, server_ids: Sequence[str]) -> list[JsonObject]:
        """MCP servers, whose secrets are sealed."""
        rows = await self.database.fetch(MCP_SERVERS, {"servers": [*server_ids], "org": org})
        return [object_of(document) for (document,) in rows]


def recorded_message(role: str, v1_messages: Any, recorded: Any) -> Message:
    """A message as it was recorded; that of the system with the words that it has now."""
    message = Message.model_validate(object_of(recorded))
    if role != "system" or not v1_messages:
        return message
    return message.model_copy(update={"content": str(v1_messages[0]["content"])})


def object_of(document: Any) -> JsonObject:
    """A document that came as text, or as what the driver made of it."""
    value = from_json(document) if isinstance(document, str | bytes) else document
    assert isinstance(value, dict), "a document is an object"
    return value
