"""What the agent service reads in SQL: its own rows, and memory's published view of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.contracts.conversation import main_conversation
from libs.eventstore.database import Database
from libs.eventstore.gather import Gathered
from services.agent.domain.context import SeenBlock

SWEPT_MAX = 64

# A system message is read, stored and sent as a whole, so the blocks in it have a bound together.
SEEN_BYTES_MAX = 16 << 20
NOT_SEEN = (
    "(not shown: your blocks are too large together; shorten or detach those before this one)"
)
SEEN_BLOCKS = """
select list, id, version, label,
       case when sum(octet_length(value)) over (
           partition by list order by place rows unbounded preceding) <= %(bytes)s
       then value else %(not_seen)s end,
       description, "limit", read_only
from (
    select wanted.list, wanted.place, b.id, b.version, b.label, b.doc->>'value' as value,
           b.doc->>'description' as description, (b.doc->>'limit')::int as "limit",
           (b.doc->>'read_only')::boolean as read_only
    from unnest(%(ids)s::text[], %(lists)s::int[]) with ordinality as wanted(id, list, place)
    join memory.block_view b on b.id = wanted.id and b.id = any(%(ids)s::text[])
) seen
order by list, place"""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that a search found."""

    role: str
    created_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """What `conversation_search` looks for; None means anything."""

    agent_id: str
    text: str | None
    roles: list[str]
    since: datetime | None
    until: datetime | None
    limit: int


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something that should be worked on, and that nobody works on."""

    id: str
    org: str
    actor: str


@dataclass(frozen=True, slots=True)
class LostBlock:
    """A block that is gone, and that an agent still sees."""

    agent_id: str
    block_id: str
    org: str


class Queries(Protocol):
    """The reads of the agent service."""

    async def seen_blocks(self, block_ids: list[str]) -> list[SeenBlock]:
        """These blocks as they are now, in this order, without those that are gone."""
        ...

    async def labels(self, block_ids: list[str]) -> dict[str, str]:
        """The labels of those of these blocks that are there."""
        ...

    async def agents_seeing(self, block_id: str) -> list[str]:
        """The agents that a block is attached to."""
        ...

    async def lost_blocks(self, agent_ids: list[str] | None) -> list[LostBlock]:
        """Blocks that are gone and that these agents, or any, still see; `SWEPT_MAX` at most."""
        ...

    async def latest_run(
        self, agent_id: str, request_hash: str, since: datetime, excluded: list[str]
    ) -> str | None:
        """The newest run that the same request started, and that is not excluded."""
        ...

    async def cancelled_runs(self, run_ids: list[str]) -> list[str]:
        """Those of these runs that were cancelled."""
        ...

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        """Messages of an agent's history, the newest first."""
        ...

    async def orphaned_turns(self) -> list[Orphan]:
        """Conversations whose turn nobody drives."""
        ...

    async def unfinished_creations(self) -> list[Orphan]:
        """Agents whose making has begun and is not done; `SWEPT_MAX` at most."""
        ...

    async def origin_of_run(self, conversation_id: str, run_id: str) -> str:
        """The span in which a run was accepted, as W3C writes it; empty if nobody traced it."""
        ...


# A turn without a lease should not be. It is looked for all the same, because nobody else would
# ever find it: among the runs that have not ended, by their index.
ORPHANED_TURNS = """
(select l.key, coalesce(m.org, ''), '' from agent.leases l left join lateral (
    select org from agent.messages where conversation_id = l.key limit 1) m on true
 where l.expires_at < now() and l.key like 'conv-%%'
 order by l.expires_at limit %(limit)s)
union all
(select r.conversation_id, r.org, '' from agent.runs r
 where r.status in ('created', 'running') and r.status = 'running'
   and not exists (select from agent.leases l where l.key = r.conversation_id)
 limit %(limit)s)"""


class PostgresQueries:
    """Keeps the contract of `Queries`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.seen = Gathered(self.seen_by_many, called=lambda _: "SELECT memory.block_view")

    async def seen_blocks(self, block_ids: list[str]) -> list[SeenBlock]:
        """These blocks as they are now, in this order, without those that are gone."""
        return await self.seen.answer(block_ids) if block_ids else []

    async def seen_by_many(self, wanted: list[list[str]]) -> list[list[SeenBlock]]:
        """The blocks of several agents, in one query."""
        asked = [(n, one) for n, block_ids in enumerate(wanted) for one in block_ids]
        rows = await self.database.fetch(
            SEEN_BLOCKS,
            {
                "ids": [one for _, one in asked],
                "lists": f"{{{','.join(str(n) for n, _ in asked)}}}",
                "bytes": SEEN_BYTES_MAX,
                "not_seen": NOT_SEEN,
            },
        )
        found: list[list[SeenBlock]] = [[] for _ in wanted]
        for n, *columns in rows:
            found[n].append(SeenBlock(*columns))
        return found

    async def labels(self, block_ids: list[str]) -> dict[str, str]:
        """The labels of those of these blocks that are there."""
        rows = await self.database.fetch(
            "select id, label from memory.block_view where id = any(%s)", [block_ids]
        )
        return dict(rows)

    async def agents_seeing(self, block_id: str) -> list[str]:
        """The agents that a block is attached to."""
        rows = await self.database.fetch(
            "select id from agent.agents where block_ids @> array[%s]", [block_id]
        )
        return [agent_id for (agent_id,) in rows]

    async def lost_blocks(self, agent_ids: list[str] | None) -> list[LostBlock]:
        """Blocks that are gone and that these agents, or any, still see."""
        chosen = "true" if agent_ids is None else "a.id = any(%(agents)s)"
        rows = await self.database.fetch(
            "select a.id, seen.id, a.org from agent.agents a, unnest(a.block_ids) as seen(id)"
            f" where {chosen} and not exists"
            " (select from memory.block_view b where b.id = seen.id) limit %(limit)s",
            {"agents": agent_ids, "limit": SWEPT_MAX},
        )
        return [LostBlock(*row) for row in rows]

    async def latest_run(
        self, agent_id: str, request_hash: str, since: datetime, excluded: list[str]
    ) -> str | None:
        """The newest run that the same request started, and that is not excluded."""
        row = await self.database.fetch_one(
            "select id from agent.runs where agent_id = %s and request_hash = %s"
            " and created_at > %s and id <> all(%s) order by created_at desc limit 1",
            [agent_id, request_hash, since, excluded],
        )
        return row[0] if row else None

    async def cancelled_runs(self, run_ids: list[str]) -> list[str]:
        """Those of these runs that were cancelled."""
        rows = await self.database.fetch(
            "select id from agent.runs where id = any(%s) and status = 'cancelled'", [run_ids]
        )
        return [run_id for (run_id,) in rows]

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        """Messages of an agent's history, the newest first."""
        pattern = None if search.text is None else f"%{escaped(search.text)}%"
        rows = await self.database.fetch(
            "select role, created_at, text from agent.messages"
            " where conversation_id = %(conversation)s"
            " and role = any(%(roles)s) and text <> ''"
            " and (%(pattern)s::text is null or text ilike %(pattern)s)"
            " and (%(since)s::timestamptz is null or created_at >= %(since)s)"
            " and (%(until)s::timestamptz is null or created_at <= %(until)s)"
            " order by position desc limit %(limit)s",
            {
                "conversation": main_conversation(search.agent_id),
                "roles": search.roles,
                "pattern": pattern,
                "since": search.since,
                "until": search.until,
                "limit": search.limit,
            },
        )
        return [FoundMessage(*row) for row in rows]

    async def orphaned_turns(self) -> list[Orphan]:
        """Conversations whose turn nobody drives: its lease has run out, or there is none. One
        that was deleted meanwhile has no messages and no turn; but its lease is still there, and
        somebody has to clear it away."""
        rows = await self.database.fetch(ORPHANED_TURNS, {"limit": SWEPT_MAX})
        return [Orphan(*row) for row in rows]

    async def unfinished_creations(self) -> list[Orphan]:
        """Agents whose making has begun and is not done."""
        rows = await self.database.fetch(
            "select agent_id, org, actor from agent.creations order by requested_at limit %s",
            [SWEPT_MAX],
        )
        return [Orphan(*row) for row in rows]

    async def origin_of_run(self, conversation_id: str, run_id: str) -> str:
        """The span in which a run was accepted, as W3C writes it; empty if nobody traced it."""
        row = await self.database.fetch_one(
            "select metadata->>'traceparent' from agent.events where aggregate_id = %s"
            " and topic = 'run.accepted' and about = %s order by version desc limit 1",
            [conversation_id, run_id],
        )
        return row[0] or "" if row else ""


def escaped(text: str) -> str:
    """The text for LIKE, its wildcards taken literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
