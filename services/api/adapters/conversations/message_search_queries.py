"""The search for words in messages, from the views that the agent service publishes; and messages
that were found by their meaning.

The newest messages of the conversation, of the agent or of all are looked through first; only what
they do not have enough of is looked up in the index of words, which knows the words of each agent.
So a common word costs no look at all that have it, and a rare one none at all that have it not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from libs.eventstore.connection_pool import DatabaseQueries
from services.api.adapters.resource_query_builder import ALL_OF_ORG, Filter

NEWEST_LOOKED_AT = 1_000
# Of a word that is so common and yet not among the newest, the rest is not looked at.
FOUND_IN_INDEX_MAX = 10_000
# As the index has it: system prompts are not searched.
WORDS = (
    "to_tsvector('simple', left(v.text, 20000)) @@ websearch_to_tsquery('simple', %(query)s)"
    " and v.role <> 'system'"
)
COLUMNS = (
    "v.id, v.agent_id, v.conversation_id, v.created_at, v.role, v.run_id, v.step_id, v.text,"
    " v.v1_messages"
)
VIEW = "agent.message_text_view v"
# A conversation and an agent are looked through by indexes of their own.
AGENT = 'v.agent_id collate "C"'
AGENT_OF_CONVERSATION = (
    "(select m.agent_id from agent.message_view m"
    " where m.conversation_id = %(conversation)s and m.org = %(org)s order by m.position limit 1)"
)
NEWEST_FIRST = 'v.created_at desc, v.conversation_id collate "C" desc, v.position desc'


@dataclass(frozen=True, slots=True)
class Searched:
    """The filters of a search; None means anything."""

    org: str
    query: str | None
    roles: Sequence[str]
    limit: int
    agent_id: str | None = None
    conversation_id: str | None = None
    project_id: str | None = None
    template_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that has the words, with the V1 messages that it is served as."""

    id: str
    agent_id: str
    conversation_id: str
    created_at: datetime
    role: str
    run_id: str | None
    step_id: str | None
    text: str
    v1_messages: list[dict[str, Any]]


class MessageSearchQueries(DatabaseQueries):
    """Searches the messages of an organisation."""

    async def search(self, asked: Searched) -> list[FoundMessage]:
        """The newest messages with all of these words, the newest first."""
        found, looked = narrow(asked), looked_through(asked)
        values = {**found.values, "limit": asked.limit}
        if asked.query is not None:
            values["query"] = asked.query
        newest = f"(select * from {VIEW} where {found.sql} order by {looked} limit {{}}) v"
        if asked.query is None:
            return await self.rows(newest.format("%(limit)s"), values)
        rows = await self.rows(f"{newest.format(NEWEST_LOOKED_AT)} where {WORDS}", values)
        if len(rows) >= asked.limit:
            return rows
        # `offset 0`: the words are looked up first, whatever else is asked.
        worded = f"{WORDS} and v.org = %(org)s{of_one_agent(asked)}"
        indexed = f"(select * from {VIEW} where {worded} offset 0) v"
        limited = f"(select * from {indexed} where {found.sql} limit {FOUND_IN_INDEX_MAX}) v"
        return await self.rows(limited, values)

    async def by_ids(self, asked: Searched, ids: Sequence[str]) -> list[FoundMessage]:
        """Of these messages those that the search is about, whatever they say, in their order."""
        found = narrow(asked).by_key("v.id = any(%(ids)s)", ids=[*ids])
        rows = await self.rows(f"{VIEW} where {found.sql}", {**found.values, "limit": len(ids)})
        by_id = {row.id: row for row in rows}
        return [by_id[message_id] for message_id in ids if message_id in by_id]

    async def rows(self, source: str, values: dict[str, Any]) -> list[FoundMessage]:
        """The newest of the messages of a source."""
        rows = await self.database.fetch(
            f"select {COLUMNS} from {source} order by {NEWEST_FIRST} limit %(limit)s", values
        )
        return [FoundMessage(*row) for row in rows]


def looked_through(asked: Searched) -> str:
    """The order in which the newest messages are looked through: that of an index."""
    if asked.conversation_id is not None:
        return "v.position desc"
    return NEWEST_FIRST if asked.agent_id is None else "v.recorded_at desc"


def of_one_agent(asked: Searched) -> str:
    """The condition that a message is of the agent that is named, or whose conversation is."""
    if asked.agent_id is not None:
        return f" and {AGENT} = %(agent)s"
    return f" and {AGENT} = {AGENT_OF_CONVERSATION}" if asked.conversation_id is not None else ""


def narrow(asked: Searched) -> Filter:
    """The conditions besides the words."""
    found = Filter([ALL_OF_ORG, "v.text <> ''"], {"org": asked.org})
    found.add("v.role = any(%(roles)s)", roles=[*asked.roles])
    if asked.conversation_id is not None:
        found.by_key("v.conversation_id = %(conversation)s", conversation=asked.conversation_id)
    if asked.agent_id is not None:
        agent = "v.agent_id" if asked.conversation_id else AGENT
        found.by_key(f"{agent} = %(agent)s", agent=asked.agent_id)
    if asked.since is not None:
        found.add("v.created_at > %(since)s", since=asked.since)
    if asked.until is not None:
        found.add("v.created_at <= %(until)s", until=asked.until)
    for name in ("project_id", "template_id"):
        value = getattr(asked, name)
        if value is not None:
            agent = "from agent.agent_view a where a.id = v.agent_id and a.org = v.org"
            found.add(f"%({name})s = (select a.fields->>'{name}' {agent})", **{name: value})
    return found
