"""Queries that compare an agent at two moments, besides its document.

Queries are answered as of the moment that they are asked at (`reading_as_of`); only what happened
to passages between two places in the order of commits is read from events, and asked at no moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from libs.contracts.agent.conversations import main_conversation
from libs.eventstore.connection_pool import DatabaseQueries

LISTED_MAX = 100
CONVERSATIONS_MAX = 10_000
TEXT_CHARS_MAX = 200
LAST_ORDER = 2**63 - 1

CONVERSATIONS = """select %(main)s as id union all select c.id from agent.conversation_view c
 where c.agent_id = %(agent)s and c.org = %(org)s order by id limit %(limit)s"""
# Versions are positions of messages: what came after a commit has a greater one.
ADDED = """
with since as materialized (
 select c.id, agent.version_at(c.id, %(after)s, %(last)s) as version
 from unnest(%(conversations)s::text[]) c (id)
), added as materialized (
 select m.id, m.conversation_id, m.role, m.created_at, m.recorded_at, m.position, left(m.text, 200)
 as text from since s cross join lateral (select v.* from agent.message_view v
  where v.conversation_id = s.id and v.position > s.version and v.org = %(org)s offset 0) m
)
select (select count(*) from added), coalesce((select json_agg(json_build_object('id', a.id,
 'conversation_id', a.conversation_id, 'role', a.role, 'text', a.text)) from (
 select * from added order by recorded_at, conversation_id, position limit %(limit)s) a), '[]')"""
COUNT = """select count(*) from unnest(%(conversations)s::text[]) c (id) cross join lateral (
 select v.id from agent.message_view v where v.conversation_id = c.id and v.org = %(org)s offset 0
) m"""
LISTED = """select m.id from unnest(%(conversations)s::text[]) c (id) cross join lateral (
 select v.id, v.position from agent.message_view v where v.conversation_id = c.id
 and v.org = %(org)s order by v.position limit %(limit)s) m
 order by c.id, m.position limit %(limit)s"""
ARCHIVES = """select a.archive_id from memory.archive_agent_view a where a.agent_id = %(agent)s
 and a.org = %(org)s order by a.archive_id"""
PASSAGES = """
select (select count(*) from unnest(%(archives)s::text[]) a (id) cross join lateral (
  select v.id from memory.passage_view v where v.collection_id = a.id and v.org = %(org)s offset 0
 ) p), coalesce((select json_agg(json_build_object('id', f.id, 'archive_id', f.collection_id,
 'text', left(f.text, %(chars)s))) from (select p.* from unnest(%(archives)s::text[]) a (id)
  cross join lateral (select v.id, v.collection_id, v.text, v.created_at from memory.passage_view v
   where v.collection_id = a.id and v.org = %(org)s
   order by v.created_at, v.id collate "C" limit %(limit)s) p limit %(limit)s) f), '[]')"""
CHANGED_PASSAGES = """
with happened as materialized (
 select p.aggregate_id as id, a.id as archive_id, bool_or(p.topic = 'passage.created') as created,
  bool_or(p.topic = 'passage.deleted') as deleted, min(p.position) as position
 from unnest(%(archives)s::text[]) a (id) cross join lateral (
  select e.aggregate_id, e.topic, e.position from memory.passage_event_view e
  where e.archive_id = a.id and e.commit_order > %(after)s and e.commit_order <= %(until)s
  and e.topic <> 'passage.embedded' and e.org = %(org)s offset 0) p
 group by p.aggregate_id, a.id
), changed as materialized (
 select id, archive_id, position from happened where {change} order by position
)
select (select count(*) from changed), coalesce((select json_agg(json_build_object('id', c.id,
 'archive_id', c.archive_id, 'text', (select left(e.payload->>'text', %(chars)s)
  from memory.recorded_event_view e where e.aggregate_id = c.id and e.version = 1)))
 from (select * from changed order by position limit %(limit)s) c), '[]')"""


@dataclass(frozen=True, slots=True)
class Listed:
    """The number of things, and the first of them."""

    total: int = 0
    items: list[Any] = field(default_factory=list)

    def and_also(self, other: Listed) -> Listed:
        """These, and others behind them."""
        return Listed(self.total + other.total, [*self.items, *other.items][:LISTED_MAX])


class AgentDifferenceQueries(DatabaseQueries):
    """Reads what changed of an agent."""

    async def conversations(self, org: str, agent_id: str) -> list[str]:
        """The conversations of an agent, its own among them."""
        values = {
            "main": main_conversation(agent_id),
            "agent": agent_id,
            "org": org,
            "limit": CONVERSATIONS_MAX,
        }
        return await self.column(CONVERSATIONS, values)

    async def messages_after(self, org: str, conversations: Sequence[str], after: int) -> Listed:
        """The messages of conversations that came after a commit."""
        values = {"conversations": [*conversations], "after": after, "last": LAST_ORDER}
        return await self.count_and_list(ADDED, {**values, "org": org, "limit": LISTED_MAX})

    async def message_count(self, org: str, conversations: Sequence[str]) -> int:
        """The number of messages of conversations."""
        values = {"conversations": [*conversations], "org": org}
        return await self.number(COUNT, values)

    async def first_messages(self, org: str, conversations: Sequence[str]) -> list[str]:
        """The first messages of conversations."""
        values = {"conversations": [*conversations], "org": org, "limit": LISTED_MAX}
        return await self.column(LISTED, values)

    async def archives(self, org: str, agent_id: str) -> list[str]:
        """The archives that are attached to an agent."""
        return await self.column(ARCHIVES, {"agent": agent_id, "org": org})

    async def passages_of(self, org: str, archives: Sequence[str]) -> Listed:
        """All passages that archives have, with their texts."""
        values = {"archives": [*archives], "org": org, "limit": LISTED_MAX, "chars": TEXT_CHARS_MAX}
        return await self.count_and_list(PASSAGES, values)

    async def changed_passages(
        self, org: str, archives: Sequence[str], after: int, until: int, *, deleted: bool
    ) -> Listed:
        """The passages that came into archives after one commit and up to another and are still
        there, or (`deleted`) those that went and were there before."""
        change = "deleted and not created" if deleted else "created and not deleted"
        values = {"archives": [*archives], "after": after, "until": until, "org": org}
        bounds = {"limit": LISTED_MAX, "chars": TEXT_CHARS_MAX}
        return await self.count_and_list(
            CHANGED_PASSAGES.format(change=change), {**values, **bounds}
        )

    async def count_and_list(self, query: str, values: dict[str, Any]) -> Listed:
        """The total and the list that a query gives."""
        row = await self.database.fetch_one(query, values)
        assert row is not None, "an aggregate has a row"
        return Listed(int(row[0]), row[1])
