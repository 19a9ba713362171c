"""Queries about templates, deployments, and their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic_core import from_json

from libs.contracts.api.deployments import PresentBlock
from libs.contracts.api.templates import TemplateContent
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import DatabaseQueries
from libs.work.work_lease import DueWork

SWEPT_MAX = 100
UNFINISHED = "api.deployments d where d.status in ('started', 'undoing', 'migrating')"
BEHIND = (
    "api.templates t join api.deployments d on d.template_id = t.id and d.status = 'completed'"
    " and d.follows_after < t.migrating_to where t.migrating_to > 0"
)
# Those of each organisation by turns.
DUE_DEPLOYMENTS = f"""
select w.id, w.org from (select d.id, d.org from {UNFINISHED}
  union all select d.id, d.org from {BEHIND}) w
where not exists (select from api.leases l where l.key = w.id and l.expires_at > now())
order by row_number() over (partition by w.org order by w.id), w.id
limit %(limit)s"""
# Refused ones are kept for a while, for clients that ask again.
type ChosenDeployments = Literal["some", "undone", "all"]
# Which deployments are looked at: some, by their ids or those of their agents; those that were
# undone; all.
CHOSEN_DEPLOYMENTS = {
    "some": "(d.agent_ids && %(keys)s::text[] or d.id = any(%(keys)s::text[]))",
    "undone": "d.status = 'undone'",
    "all": "true",
}
EMPTY_DEPLOYMENTS = """
select d.id, d.org from api.deployments d
where {chosen}
  and (d.status = 'completed' or (d.status = 'undone' and d.created_at < now() - interval '1 hour'))
  and not exists (select from agent.agent_view a where a.id = any(d.agent_ids))
order by d.id limit %(limit)s"""
BLOCKS_OF = """
select b.id, b.label, b.fields->>'deployment_id' from memory.block_view b
where b.id = any((select a.block_ids from agent.agent_view a
  where a.id = %(agent)s and a.org = %(org)s)::text[]) and b.org = %(org)s"""
ENTITIES = """
select 'block', b.id, coalesce(b.fields->>'template_name', b.label), b.fields->>'description',
       b.fields->>'entity_id', b.fields->>'project_id'
from memory.block_view b where b.fields->>'deployment_id' = %(deployment)s and b.org = %(org)s
union all
select 'agent', a.id, a.name, a.fields->>'description', a.fields->>'entity_id',
       a.fields->>'project_id'
from agent.agent_view a where a.fields->>'deployment_id' = %(deployment)s and a.org = %(org)s
union all
select 'group', g.id, null, g.fields->>'description', null, g.fields->>'project_id'
from groups.group_view g where g.fields->>'deployment_id' = %(deployment)s and g.org = %(org)s
limit %(limit)s"""


class TemplateQueries(DatabaseQueries):
    """The queries about templates, deployments and their sources."""

    async def count_templates(self, org: str) -> int:
        """The number of templates of an organisation."""
        return await self.number("select count(*) from api.templates where org = %s", [org])

    async def version_content(
        self, org: str, template_id: str, number: int
    ) -> TemplateContent | None:
        """The content of a saved version; None where there is no such version."""
        document = await self.database.fetch_text(
            "select content::text from api.template_versions"
            " where template_id = %s and number = %s and org = %s",
            [template_id, number, org],
        )
        return None if document is None else TemplateContent.model_validate_json(document)

    async def due_deployments(self) -> Sequence[DueWork]:
        """The deployments with something to do that nobody holds a lease for."""
        if not await self.database.any_row(UNFINISHED, BEHIND):
            return []
        rows = await self.database.fetch(DUE_DEPLOYMENTS, {"limit": SWEPT_MAX})
        return [DueWork(*row) for row in rows]

    async def empty_deployments(
        self, chosen: ChosenDeployments, keys: list[str]
    ) -> Sequence[DueWork]:
        """Some deployments that have none of their agents any more."""
        text = EMPTY_DEPLOYMENTS.format(chosen=CHOSEN_DEPLOYMENTS[chosen])
        rows = await self.database.fetch(text, {"keys": keys, "limit": SWEPT_MAX})
        return [DueWork(*row) for row in rows]

    async def files_max(self, org: str, agent_id: str) -> int | None:
        """The number of files that an agent may have open; None where it does not exist."""
        return await self.value(
            "select files_max from agent.agent_view where id = %s and org = %s", [agent_id, org]
        )

    async def known_tools(self, org: str, tool_ids: list[str]) -> set[str]:
        """Those of these tools of clients that exist."""
        rows = await self.database.fetch(
            "select id from tools.tool_view where id = any(%s) and org = %s", [tool_ids, org]
        )
        return {str(tool_id) for (tool_id,) in rows}

    async def blocks_of(self, org: str, agent_id: str) -> Sequence[PresentBlock]:
        """The blocks that an agent has."""
        rows = await self.database.fetch(BLOCKS_OF, {"org": org, "agent": agent_id})
        return [
            PresentBlock(id=block_id, label=label, deployment_id=deployment_id)
            for block_id, label, deployment_id in rows
        ]

    async def folders_of(self, org: str, agent_id: str) -> Sequence[str]:
        """The folders that an agent has."""
        return await self.column(
            "select folder_id from memory.agent_folder_view where agent_id = %s and org = %s",
            [agent_id, org],
        )

    async def entities(self, org: str, deployment_id: str, limit: int) -> list[JsonObject]:
        """The blocks, agents and groups that say that they are of a deployment."""
        values = {"org": org, "deployment": deployment_id, "limit": limit}
        names = ("type", "id", "name", "description", "entity_id", "project_id")
        rows = await self.database.fetch(ENTITIES, values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def tools_named(self, org: str, names: list[str]) -> dict[str, tuple[str, str | None]]:
        """The ids and the source codes of clients' tools with these names."""
        rows = await self.database.fetch(
            "select name, id, fields->>'source_code' from tools.tool_view"
            " where name = any(%s) and org = %s",
            [names, org],
        )
        return {name: (tool_id, source) for name, tool_id, source in rows}

    async def outcome(self, org: str, deployment_id: str) -> JsonObject | None:
        """The state of a deployment: its status, its things, and the reason of a refusal."""
        document = await self.database.fetch_text(
            "select json_build_object('status', status, 'agent_ids', agent_ids, 'group_id',"
            " group_id, 'code', refused_code, 'reason', refused_reason)::text"
            " from api.deployments where id = %s and org = %s",
            [deployment_id, org],
        )
        return None if document is None else from_json(document)
