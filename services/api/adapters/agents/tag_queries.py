"""The tags of agents and blocks, each named once, without a look at all that have them."""

from __future__ import annotations

from dataclasses import dataclass

from libs.eventstore.connection_pool import DatabaseQueries
from libs.eventstore.text_search import has_text
from services.api.adapters.resource_query_builder import Order

# From one tag of the agents to the next by the index; those of blocks from the blocks that have
# any.
TAGS = """with recursive named (tag) as (
 (select t.tag from agent.agent_tag_view t where t.org = %(org)s and {within}
  order by t.tag collate "C" {order} limit 1)
 union all
 select (select t.tag from agent.agent_tag_view t where t.org = %(org)s
   and t.tag collate "C" {beyond} named.tag and {within}
   order by t.tag collate "C" {order} limit 1)
 from named where named.tag is not null
)
select json_agg(page.tag)::text from (
 select t.tag from (
  select named.tag from named where named.tag is not null
  union select t.tag from memory.block_tag_view t where t.org = %(org)s and {within}
 ) t where (%(text)s::text is null or {has_text})
 order by t.tag collate "C" {order} limit %(limit)s) page"""


@dataclass(frozen=True, slots=True)
class TagSlice:
    """Which tags: those beyond `after` and short of `before` in the order, with this text."""

    org: str
    text: str | None = None
    after: str | None = None
    before: str | None = None
    limit: int | None = 50
    order: Order = "asc"


class TagQueries(DatabaseQueries):
    """Reads tags."""

    async def tags(self, part: TagSlice) -> bytes:
        """Tags as a JSON array, in the order of their characters."""
        beyond, short = (">", "<") if part.order == "asc" else ("<", ">")
        conditions = ["true"]
        values = {"org": part.org, "limit": part.limit, "text": part.text or None}
        for name, value, sign in (("after", part.after, beyond), ("before", part.before, short)):
            if value is not None:
                conditions.append(f't.tag collate "C" {sign} %({name})s')
                values[name] = value
        query = TAGS.format(
            order=part.order,
            beyond=beyond,
            within=" and ".join(conditions),
            has_text=has_text("t.tag", "%(text)s"),
        )
        return await self.database.fetch_text(query, values) or b"[]"
