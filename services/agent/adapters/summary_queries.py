"""The messages that a summary is about, and the summaries that are to be written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from libs.contracts.agent.summaries import MESSAGES_SUMMARISED_MAX, SummarisedMessages
from libs.eventstore.connection_pool import DatabaseQueries
from services.agent.domain.summaries.summary_transcript import HistoryMessage

SUMMARISED_ROLES = ("user", "assistant", "tool")
# A message is read whole up to so many bytes of JSON; of a larger one, such as one with an image,
# the beginning of its text is read.
MESSAGE_BYTES_MAX = 256 * 1024
TEXT_CHARS_MAX = 20_000
UNFINISHED = "agent.summaries where status = 'running'"
# `+ interval '0'` keeps Postgres from reading the messages of those dates of all conversations.
EXTENT = """
select count(*), min(position), max(position), min(created_at), max(created_at),
       coalesce(sum(least(octet_length(v1_messages::text), %(bytes)s)), 0)
from (select position, created_at, v1_messages from agent.messages
      where conversation_id = %(conversation)s and org = %(org)s and role = any(%(roles)s)
        and created_at + interval '0' >= coalesce(%(since)s, '-infinity'::timestamptz)
        and created_at + interval '0' <= coalesce(%(until)s, 'infinity'::timestamptz)
      order by position desc limit %(limit)s) wanted"""
PAGE = """
select position, role, left(text, %(chars)s),
       case when octet_length(v1_messages::text) <= %(bytes)s then v1_messages end
from agent.messages
where conversation_id = %(conversation)s and org = %(org)s and role = any(%(roles)s)
  and position > %(after)s and position between %(first)s and %(last)s
  and created_at + interval '0' between %(since)s and %(until)s
order by position limit %(limit)s"""
DUE = """
select summaries_id, org, agent_id, id from (
    select s.*, row_number() over (partition by s.org order by s.created_at, s.id) as place
    from agent.summaries s
    where s.status = 'running' and not exists (
        select from agent.leases l where l.key = s.summaries_id and l.expires_at > now())
) due
where place <= %(of_org)s order by place, created_at limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class DueSummary:
    """A summary that is to be written; `id` is the aggregate that decides about it."""

    id: str
    org: str
    agent_id: str
    summary_id: str


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """The newest `count` messages of those between two dates, both included."""

    count: int = MESSAGES_SUMMARISED_MAX
    since: datetime | None = None
    until: datetime | None = None


class SummaryQueries(DatabaseQueries):
    """The queries about summaries."""

    async def summarised_messages(
        self, org: str, conversation_id: str, wanted: WantedMessages
    ) -> SummarisedMessages | None:
        """Where the wanted messages of a conversation stand; None if there are none."""
        row = await self.database.fetch_one(
            EXTENT,
            {
                "conversation": conversation_id,
                "org": org,
                "roles": list(SUMMARISED_ROLES),
                "since": wanted.since,
                "until": wanted.until,
                "limit": min(wanted.count, MESSAGES_SUMMARISED_MAX),
                "bytes": MESSAGE_BYTES_MAX,
            },
        )
        if row is None or not row[0]:
            return None
        extent = dict(zip(("count", "first", "last", "start", "end", "bytes"), row, strict=True))
        return SummarisedMessages(conversation_id=conversation_id, **extent)

    async def history_page(
        self, org: str, messages: SummarisedMessages, after: int, limit: int
    ) -> list[HistoryMessage]:
        """The next of these messages after a position, so many at most."""
        rows = await self.database.fetch(
            PAGE,
            {
                "conversation": messages.conversation_id,
                "org": org,
                "roles": list(SUMMARISED_ROLES),
                "first": messages.first,
                "last": messages.last,
                "since": messages.start,
                "until": messages.end,
                "after": after,
                "limit": limit,
                "chars": TEXT_CHARS_MAX,
                "bytes": MESSAGE_BYTES_MAX,
            },
        )
        return [HistoryMessage(*row) for row in rows]

    async def due_summaries(self, of_org: int, limit: int) -> list[DueSummary]:
        """Summaries that nobody writes; at most `of_org` of each organisation."""
        if not await self.database.any_row(UNFINISHED):
            return []
        rows = await self.database.fetch(DUE, {"of_org": of_org, "limit": limit})
        return [DueSummary(*row) for row in rows]
