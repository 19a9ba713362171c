"""Projects in SQL: what handlers and policies read, and which agents are in a project."""

from __future__ import annotations

from dataclasses import dataclass

from libs.eventstore.connection_pool import DatabaseQueries

SWEPT_MAX = 100

# The ids of the agents that are in a project: those that name it themselves, and those that were
# put into it. `{}` is the project's id.
AGENTS_OF_PROJECT = (
    "select p.id from agent.agent_view p where p.fields->>'project_id' = {} and p.org = %(org)s"
    " union all select target_id from api.project_agent_view"
    " where project_id = {} and org = %(org)s"
)
IN_PROJECT = f"v.id in ({AGENTS_OF_PROJECT})"
# The projects `v` that the agent %(agent)s is in.
OF_AGENT = (
    "v.id in (select project_id from api.project_agent_view"
    " where target_id = %(agent)s and org = %(org)s"
    " union all select a.fields->>'project_id' from agent.agent_view a"
    " where a.id = %(agent)s and a.org = %(org)s)"
)
# The agents of a project that are in no other one.
ONLY_IN_PROJECT = f"""
select distinct a.id from agent.agent_view a
where a.id in ({AGENTS_OF_PROJECT.replace("{}", "%(project)s")}) and a.org = %(org)s
  and not exists (
    select from api.project_agent_view o
    where o.target_id = a.id and o.org = a.org and o.project_id <> %(project)s)
  and not exists (
    select from api.project_view o
    where o.id = a.fields->>'project_id' and o.org = a.org and o.id <> %(project)s)
order by a.id limit %(limit)s"""

CASCADED = """
select a.id, r.org from api.project_removals r cross join lateral unnest(r.agent_ids) as wanted(id)
join agent.agent_view a on a.id = wanted.id and a.org = r.org
limit %s"""
NAMING_AGENTS = """
select a.id, r.org from api.project_removals r
join agent.agent_view a on a.fields->>'project_id' = r.id and a.org = r.org
where a.id <> all(r.agent_ids)
limit %s"""
NAMING_BLOCKS = """
select b.id, r.org from api.project_removals r
join memory.block_view b on b.fields->>'project_id' = r.id and b.org = r.org
limit %s"""
SETTLED = """
select r.id, r.org from api.project_removals r
where r.deleted_at < now() - make_interval(secs => %s) limit %s"""


@dataclass(frozen=True, slots=True)
class LeftByProject:
    """Something that a deleted project leaves behind: an agent that goes with it, an agent or a
    block that names it, or, when there is none of these any more, the project itself."""

    id: str
    org: str
    cascaded: bool = False


class ProjectQueries(DatabaseQueries):
    """The queries about projects."""

    async def count_projects(self, org: str) -> int:
        """The number of projects of an organisation."""
        return await self.number(
            'select count(*) from api.projects where org collate "C" = %s', [org]
        )

    async def projects_of(self, org: str, agent_id: str) -> int:
        """The number of projects that an agent was put into."""
        return await self.number(
            "select count(*) from api.project_agent_view where target_id = %s and org = %s",
            [agent_id, org],
        )

    async def agents_only_in(self, org: str, project_id: str, limit: int) -> list[str]:
        """The ids of some agents of a project that are in no other one."""
        return await self.column(
            ONLY_IN_PROJECT, {"org": org, "project": project_id, "limit": limit}
        )

    async def left_by_projects(self, settled_seconds: float) -> list[LeftByProject]:
        """The remains of deleted projects, `SWEPT_MAX` of each kind at most: agents that go with
        them, and what names them; without any, the projects that were deleted so long ago."""
        if not await self.database.any_row("api.project_removals"):
            return []
        found = [
            LeftByProject(agent_id, org, cascaded=True)
            for agent_id, org in await self.database.fetch(CASCADED, [SWEPT_MAX])
        ]
        for naming in (NAMING_AGENTS, NAMING_BLOCKS):
            found += [LeftByProject(*row) for row in await self.database.fetch(naming, [SWEPT_MAX])]
        if found:
            return found
        rows = await self.database.fetch(SETTLED, [settled_seconds, SWEPT_MAX])
        return [LeftByProject(*row) for row in rows]
