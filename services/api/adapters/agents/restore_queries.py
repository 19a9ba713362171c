"""Queries of restores: those that are due, and an agent's present and past things.

What it had is read as of a moment (`reading_as_of`), by the same queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.letta.blocks import BlockState
from libs.eventstore.connection_pool import DatabaseQueries
from libs.work.work_lease import DueWork

LAST_POSITION = 2**63 - 1
DUE = """
select r.restores_id, r.org from api.restores r
where r.completed_at is null
  and not exists (select from api.leases l where l.key = r.restores_id and l.expires_at > now())
order by r.created_at limit %(limit)s"""
CONTEXT = """
select m.id from agent.message_view m
where m.conversation_id = %(conversation)s and m.org = %(org)s and m.in_context
order by m.position"""
ATTACHED = "select a.block_ids from agent.agent_view a where a.id = %(agent)s and a.org = %(org)s"
BLOCKS = """
select b.document from unnest(%(blocks)s::text[]) with ordinality wanted (id, place)
cross join lateral (
    select v.org, v.document from memory.block_view v where v.id = wanted.id limit 1) b
where b.org = %(org)s order by wanted.place"""
CREATED = """
select wanted.id from unnest(%(blocks)s::text[]) wanted (id) where exists (
    select from memory.created_block_view c where c.id = wanted.id and c.org = %(org)s)"""
VERSIONS = """
select wanted.id, {service}.version_at(wanted.id, %(cut)s, %(last)s)
from unnest(%(ids)s::text[]) wanted (id) where %(org)s <> ''"""
REQUEST = """
select e.commit_order, e.settled from api.recorded_event_view e
where e.aggregate_id = %(restores)s and e.version = %(version)s and e.org = %(org)s"""
OUTCOME = """
select r.status, r.code, r.reason from api.restore_view r
where r.id = %(restore)s and r.org = %(org)s"""


@dataclass(frozen=True, slots=True)
class Memory:
    """The blocks of an agent: the ids of those that are attached, and those of them that are there,
    by their ids."""

    attached: list[str] = field(default_factory=list)
    blocks: dict[str, BlockState] = field(default_factory=dict)


class RestoreQueries(DatabaseQueries):
    """The queries of the engine of restores."""

    async def due_restores(self, limit: int) -> list[DueWork]:
        """Restores that have something left to do, and that nobody works on."""
        if not await self.database.any_row("api.restores where completed_at is null"):
            return []
        rows = await self.database.fetch(DUE, {"limit": limit})
        return [DueWork(*row) for row in rows]

    async def context(self, org: str, agent_id: str) -> list[str]:
        """The messages of an agent's own conversation that models are shown."""
        values = {"conversation": main_conversation(agent_id), "org": org}
        return await self.column(CONTEXT, values)

    async def memory(self, org: str, agent_id: str) -> Memory:
        """The blocks that are attached to an agent."""
        row = await self.database.fetch_one(ATTACHED, {"agent": agent_id, "org": org})
        attached = list(row[0]) if row else []
        return Memory(attached, await self.present_blocks(org, attached))

    async def present_blocks(self, org: str, block_ids: Sequence[str]) -> dict[str, BlockState]:
        """Those of these blocks that are there, by their ids."""
        rows = await self.database.fetch(BLOCKS, {"blocks": [*block_ids], "org": org})
        found = [BlockState.model_validate_json(document) for (document,) in rows]
        return {block.id: block for block in found}

    async def created_blocks(self, org: str, block_ids: Sequence[str]) -> set[str]:
        """Those of these blocks that were ever created."""
        rows = await self.database.fetch(CREATED, {"blocks": [*block_ids], "org": org})
        return {name for (name,) in rows}

    async def versions_at(
        self, org: str, service: str, ids: Sequence[str], cut: int
    ) -> dict[str, int]:
        """The version of each of these aggregates right after a commit; 0 for none."""
        values = {"ids": [*ids], "cut": cut, "last": LAST_POSITION, "org": org}
        return dict(await self.database.fetch(VERSIONS.format(service=service), values))

    async def commit_of(self, org: str, restores_id: str, version: int) -> int | None:
        """The commit of an event of the api, once none can come before it any more."""
        values = {"restores": restores_id, "version": version, "org": org}
        row = await self.database.fetch_one(REQUEST, values)
        return int(row[0]) if row and row[1] else None

    async def outcome(self, org: str, restore_id: str) -> tuple[str, str | None, str | None] | None:
        """The status of a restore, and of one that failed the code and the reason."""
        values = {"restore": restore_id, "org": org}
        row = await self.database.fetch_one(OUTCOME, values)
        return (row[0], row[1], row[2]) if row else None
