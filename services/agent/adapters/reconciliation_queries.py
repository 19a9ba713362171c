"""Agents whose blocks or tools are gone, and blocks whose agent or conversation never came."""

from __future__ import annotations

from dataclasses import dataclass

from libs.eventstore.connection_pool import DatabaseQueries
from services.agent.domain.agents.agent import AgentDesign

SWEPT_MAX = 64

CHOSEN_AGENTS = (
    "unnest(%(agents)s::text[]) as chosen(id) cross join lateral"
    " (select id, org, block_ids, custom_tool_ids from agent.agents where id = chosen.id limit 1)"
)

UNCLAIMED_BLOCKS = """
select made.owner_id, made.block_id, made.org
from unnest(%s::text[], %s::text[], %s::text[]) as made(owner_id, block_id, org)
where not exists (
    select from agent.events e
    where e.aggregate_id = made.owner_id and e.org = made.org
      and (e.topic = 'agent.created'
           and (e.payload->'own_block_ids')::jsonb ? made.block_id
           or e.topic = 'conversation.created'
           and jsonb_path_query_array(
               (e.payload->'config'->'isolated_blocks')::jsonb, '$.*') ? made.block_id))"""


@dataclass(frozen=True, slots=True)
class LostPart:
    """A block or a tool that is gone, and that an agent still has."""

    agent_id: str
    part_id: str
    org: str


@dataclass(frozen=True, slots=True)
class MadeBlock:
    """A block, and the agent or the conversation that it was made for."""

    owner_id: str
    block_id: str
    org: str


CONFIGURATION_AT = """
select payload::text from agent.events
where aggregate_id = %(agent)s and version <= %(version)s and org = %(org)s
  and topic in ('agent.created', 'agent.updated')
order by version desc limit 1"""


class AgentQueries(DatabaseQueries):
    """The queries of the sweeps of agents and of the policies on deleted blocks and tools."""

    async def configuration_at(self, org: str, agent_id: str, version: int) -> AgentDesign | None:
        """The configuration that an agent had in a version, with the blocks and tools that were
        said with it last; None before it was created."""
        values = {"agent": agent_id, "version": version, "org": org}
        text = await self.database.fetch_text(CONFIGURATION_AT, values)
        return AgentDesign.model_validate_json(text) if text else None

    async def agents_attached_to(self, org: str, block_id: str) -> list[str]:
        """The agents that a block is attached to, although it is gone."""
        rows = await self.database.fetch(
            "select id from agent.agents where block_ids @> array[%(block)s] and org = %(org)s"
            # An import may have brought it back.
            " and not exists (select from memory.block_view b"
            " where b.id = %(block)s and b.org = %(org)s)",
            {"block": block_id, "org": org},
        )
        return [agent_id for (agent_id,) in rows]

    async def lost_blocks(self, agent_ids: list[str] | None) -> list[LostPart]:
        """Blocks that are gone and that these agents, or any, still see; `SWEPT_MAX` at most."""
        agents = "agent.agents" if agent_ids is None else CHOSEN_AGENTS
        rows = await self.database.fetch(
            f"select a.id, seen.id, a.org from {agents} a, unnest(a.block_ids) as seen(id)"
            " where not exists"
            " (select from memory.block_view b where b.id = seen.id and b.org = a.org)"
            " limit %(limit)s",
            {"agents": agent_ids, "limit": SWEPT_MAX},
        )
        return [LostPart(*row) for row in rows]

    async def agents_with_tool(self, org: str, tool_id: str) -> list[str]:
        """The agents that have a tool which a client made."""
        rows = await self.database.fetch(
            "select id from agent.agents where custom_tool_ids @> array[%s] and org = %s",
            [tool_id, org],
        )
        return [agent_id for (agent_id,) in rows]

    async def lost_tools(self, agent_ids: list[str] | None) -> list[LostPart]:
        """Tools that were deleted and that these agents, or any, still have; `SWEPT_MAX` at most.
        What was never made here is none of them: a newer release may bring it along."""
        agents = "agent.agents" if agent_ids is None else CHOSEN_AGENTS
        rows = await self.database.fetch(
            f"select a.id, held.id, a.org from {agents} a, unnest(a.custom_tool_ids) as held(id)"
            " cross join lateral (select org from tools.created_tool_view where id = held.id"
            " limit 1) made where made.org = a.org and not exists"
            " (select from tools.tool_view t where t.id = held.id and t.org = a.org)"
            " limit %(limit)s",
            {"agents": agent_ids, "limit": SWEPT_MAX},
        )
        return [LostPart(*row) for row in rows]

    async def unclaimed_blocks(self, blocks: list[MadeBlock]) -> list[MadeBlock]:
        """Those of these blocks that neither an agent nor a conversation was created with."""
        rows = await self.database.fetch(
            UNCLAIMED_BLOCKS,
            [
                [block.owner_id for block in blocks],
                [block.block_id for block in blocks],
                [block.org for block in blocks],
            ],
        )
        return [MadeBlock(*row) for row in rows]
