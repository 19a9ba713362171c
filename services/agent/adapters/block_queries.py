"""The blocks of an agent, from the view that the memory service publishes."""

from __future__ import annotations

from operator import itemgetter

from pydantic_core import from_json

from libs.eventstore.connection_pool import Database, DatabaseQueries
from libs.eventstore.query_batching import Batched
from services.agent.domain.prompts.system_prompt import AttachedBlock

# A system message is read, stored and sent as a whole, so the blocks in it have a bound together.
SEEN_BYTES_MAX = 16 << 20
NOT_SEEN = (
    "(not shown: your blocks are too large together; shorten or detach those before this one)"
)
# The usual case: each block is so small that all of an agent's are small enough together. Adding up
# what there is, and taking the documents apart, costs Postgres more than finding them.
SMALL_BLOCKS = """
select wanted.list, wanted.place, b.id, b.version, b.label,
       case when octet_length(b.fields->>'value') <= %(share)s then b.fields::text end, b.changed_by
from unnest(%(ids)s::text[], %(orgs)s::text[], %(lists)s::int[]) with ordinality
    as wanted(id, org, list, place)
cross join lateral (select * from memory.block_view where id = wanted.id limit 1) b
where b.org = wanted.org"""
SEEN_BLOCKS = """
select list, id, version, label,
       case when sum(octet_length(value)) over (
           partition by list order by place rows unbounded preceding) <= %(bytes)s
       then value else %(not_seen)s end,
       description, "limit", read_only, changed_by
from (
    select wanted.list, wanted.place, b.id, b.version, b.label, b.fields->>'value' as value,
           b.fields->>'description' as description, (b.fields->>'limit')::int as "limit",
           (b.fields->>'read_only')::boolean as read_only, b.changed_by
    from unnest(%(ids)s::text[], %(orgs)s::text[], %(lists)s::int[]) with ordinality
        as wanted(id, org, list, place)
    cross join lateral (select * from memory.block_view where id = wanted.id limit 1) b
    where b.org = wanted.org
) seen
order by list, place"""


class BlockQueries(DatabaseQueries):
    """The queries of prompts, handlers and memory tools about blocks."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.seen = Batched(self.seen_by_many, called=lambda _: "SELECT memory.block_view")

    async def seen_by_many(self, wanted: list[tuple[str, list[str]]]) -> list[list[AttachedBlock]]:
        """The blocks of several agents, in one query."""
        asked = [(n, org, block_id) for n, (org, ids) in enumerate(wanted) for block_id in ids]
        named = {
            "ids": [block_id for _, _, block_id in asked],
            "orgs": [org for _, org, _ in asked],
            "lists": f"{{{','.join(str(n) for n, _, _ in asked)}}}",
        }
        share = SEEN_BYTES_MAX // max(len(ids) for _, ids in wanted)
        small = await self.database.fetch(SMALL_BLOCKS, {**named, "share": share})
        found: list[list[AttachedBlock]] = [[] for _ in wanted]
        if all(document is not None for *_, document, _ in small):
            for n, _, *columns in sorted(small, key=itemgetter(0, 1)):
                found[n].append(small_block(*columns))
            return found
        rows = await self.database.fetch(
            SEEN_BLOCKS, {**named, "bytes": SEEN_BYTES_MAX, "not_seen": NOT_SEEN}
        )
        for n, *columns in rows:
            found[n].append(AttachedBlock(*columns))
        return found

    async def seen_blocks(self, org: str, block_ids: list[str]) -> list[AttachedBlock]:
        """These blocks as they are now, in this order, without those that are gone."""
        return await self.seen.answer((org, block_ids)) if block_ids else []

    async def labels(self, org: str, block_ids: list[str]) -> dict[str, str]:
        """The labels of those of these blocks that are there."""
        rows = await self.database.fetch(
            "select b.id, b.label from unnest(%s::text[]) as wanted(id) cross join lateral"
            " (select id, label, org from memory.block_view where id = wanted.id limit 1) b"
            " where b.org = %s",
            [block_ids, org],
        )
        return dict(rows)

    async def attached_block(self, org: str, agent_id: str, label: str) -> str | None:
        """The block of this label that is attached to an agent by now; of several the first."""
        row = await self.database.fetch_one(
            "select b.id from agent.agents a"
            " cross join unnest(a.block_ids) with ordinality as attached(id, place)"
            " cross join lateral (select id, label, org from memory.block_view"
            " where id = attached.id limit 1) b"
            " where a.id = %(agent)s and a.org = %(org)s and b.org = a.org"
            " and b.label = %(label)s order by attached.place limit 1",
            {"agent": agent_id, "org": org, "label": label},
        )
        return row[0] if row else None


def small_block(
    block_id: str, version: int, label: str, document: str, changed_by: str | None
) -> AttachedBlock:
    """A block as its document says."""
    said = from_json(document)
    return AttachedBlock(
        id=block_id,
        version=version,
        label=label,
        value=said["value"],
        description=said.get("description"),
        limit=said.get("limit"),
        read_only=said.get("read_only"),
        changed_by=changed_by,
    )
