"""The search in an agent's history, by words and by meaning."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from libs.bus.ports import Bus, BusUnavailable
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.semantic_message_search import CANDIDATES_MIN, NearestMessages
from libs.embeddings.rank_fusion import fuse_ranks
from libs.eventstore.connection_pool import DatabaseQueries
from libs.eventstore.text_search import has_text
from services.agent.adapters.tool_owner_port import Calling

# In the agent's own conversation and in each other one, which are looked through from their ends. A
# fork has the messages of its source again: they are found once.
SEARCH = f"""
select role, created_at, text from (
    select m.role, m.created_at, m.text, max(m.position) as position
    from (select %(main)s::text as id union all
          select id from agent.conversations where agent_id = %(agent_id)s and org = %(org)s) c
    cross join lateral (
        select role, created_at, text, position from agent.messages
        where conversation_id = c.id and org = %(org)s
          and role = any(%(roles)s) and text <> ''
          and (%(text)s::text is null or {has_text("text", "%(text)s")})
          and (%(since)s::timestamptz is null or created_at >= %(since)s)
          and (%(until)s::timestamptz is null or created_at <= %(until)s)
        order by position desc limit %(limit)s) m
    group by m.role, m.created_at, m.text
) found
order by created_at desc, position desc limit %(limit)s"""

NAMED = """
select m.role, m.created_at, m.text
from unnest(%(ids)s::text[]) with ordinality as named(id, place)
cross join lateral (select * from agent.messages where id = named.id limit 1) m
where m.org = %(org)s and m.agent_id = %(agent_id)s and m.role = any(%(roles)s)
  and (%(since)s::timestamptz is null or m.created_at >= %(since)s)
  and (%(until)s::timestamptz is null or m.created_at <= %(until)s)
order by named.place"""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that a search found."""

    role: str
    created_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """The filters of `conversation_search`; None means anything."""

    org: str
    agent_id: str
    text: str | None
    roles: list[str]
    since: datetime | None
    until: datetime | None
    limit: int


class ConversationSearch(DatabaseQueries):
    """The queries of the tool `conversation_search`."""

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        """Messages of an agent's history, the newest first."""
        rows = await self.database.fetch(
            SEARCH, {**asdict(search), "main": main_conversation(search.agent_id)}
        )
        return [FoundMessage(*row) for row in rows]

    async def messages_named(self, search: Search, ids: list[str]) -> list[FoundMessage]:
        """Of these messages those that the search is about, whatever they say, in their order."""
        rows = await self.database.fetch(NAMED, {**asdict(search), "ids": ids})
        return [FoundMessage(*row) for row in rows]


log = logging.getLogger(__name__)

# Without an answer in this time what has the words is all that is found.
SECONDS_MAX = 5.0


class HybridConversationSearch:
    """Finds what has a text, and what is near to it in meaning, as the memory service knows."""

    def __init__(self, bus: Bus, queries: ConversationSearch) -> None:
        self.bus = bus
        self.queries = queries

    async def search(self, calling: Calling, search: Search) -> list[FoundMessage]:
        """The matches, best first by both rankings; without a text the newest first. Where the
        memory service does not answer or cannot embed, messages that contain the text."""
        if not (search.text or "").strip("\x00 \n\t"):
            return await self.queries.search_messages(search)
        worded, near = await asyncio.gather(
            self.queries.search_messages(search), self.near(calling, search)
        )
        return [message for message, _ in fuse_ranks(worded, near)][: search.limit]

    async def near(self, calling: Calling, search: Search) -> list[FoundMessage]:
        """The messages nearest in meaning to a text, the nearest first, each once."""
        assert search.text is not None, "a text is near to a text"
        asker = derived_id("search", calling.step_id, calling.call.id)
        command = NearestMessages(
            asker=asker,
            query=search.text.replace("\x00", ""),
            agent_id=search.agent_id,
            roles=search.roles,
            after=search.since,
            before=search.until,
            limit=max(search.limit, CANDIDATES_MIN),
        )
        try:
            context = calling.context.follow_up(asker)
            reply = await self.bus.request(command, context, seconds_max=SECONDS_MAX)
        except BusUnavailable as away:
            log.warning("messages are found by their words alone: %s", away)
            return []
        if isinstance(reply, Rejected):
            log.warning("messages are found by their words alone: %s", reply.reason)
            return []
        nearest: Any = reply.result["messages"]
        found = await self.queries.messages_named(search, [passage["id"] for passage in nearest])
        return [*dict.fromkeys(found)]  # a fork has the messages of its source again
