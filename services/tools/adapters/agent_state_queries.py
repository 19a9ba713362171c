"""Agents as tools are shown them: from the views that their services publish."""

from __future__ import annotations

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import Database

AGENT_STATE = """
select a.fields || jsonb_build_object('id', a.id, 'name', a.name, 'blocks', coalesce((
    select jsonb_agg(jsonb_build_object(
        'id', b.id, 'label', b.label, 'value', b.fields->>'value',
        'description', b.fields->>'description', 'limit', (b.fields->>'limit')::int,
        'read_only', (b.fields->>'read_only')::boolean) order by wanted.place)
    from unnest(case when cardinality(%(blocks)s::text[]) > 0 then %(blocks)s::text[]
                     else a.block_ids end) with ordinality as wanted(id, place)
    cross join lateral (select * from memory.block_view where id = wanted.id limit 1) b
    where b.org = a.org), '[]'))
from agent.agent_view a where a.id = %(id)s and a.org = %(org)s"""


class PostgresAgentStates:
    """Keeps the contract of `AgentQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def agent_state(self, org: str, agent_id: str, block_ids: list[str]) -> JsonObject | None:
        row = await self.database.fetch_one(
            AGENT_STATE, {"id": agent_id, "org": org, "blocks": block_ids}
        )
        return row[0] if row else None
