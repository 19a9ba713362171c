"""The tools that an agent has, as a schedule calls them: from the views of their services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from libs.contracts.tools.tool_runs import RUNNABLE_TYPES
from libs.eventstore.connection_pool import Database

TOOL_OF_AGENT = """
select t.id, t.tool_type, coalesce(a.fields->>'project_id', ''), coalesce((
    select jsonb_object_agg(s->>'key', s->>'value') from jsonb_array_elements(a.secrets) s), '{}')
from agent.agent_view a cross join lateral (
    select b->>'id' as id, b->>'tool_type' as tool_type from jsonb_array_elements(a.tools) b
    where b->>'name' = %(name)s
    union all
    select c.id, c.tool_type from tools.tool_view c
    where c.id = any(a.custom_tool_ids) and c.org = a.org and c.name = %(name)s limit 1) t
where a.id = %(id)s and a.org = %(org)s"""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool of an agent, with the sealed environment in which its calls run."""

    id: str
    tool_type: str
    project_id: str
    environment: dict[str, str]

    @property
    def runs_alone(self) -> bool:
        """Whether the tools service carries it out, so that no conversation is needed."""
        return self.tool_type in RUNNABLE_TYPES


class AgentTools(Protocol):
    """The queries about the tools of agents."""

    async def tool_of_agent(self, org: str, agent_id: str, name: str) -> AgentTool | None:
        """The tool of an agent that has this name."""


class PostgresAgentTools:
    """Keeps the contract of `AgentTools`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def tool_of_agent(self, org: str, agent_id: str, name: str) -> AgentTool | None:
        row = await self.database.fetch_one(
            TOOL_OF_AGENT, {"org": org, "id": agent_id, "name": name}
        )
        return AgentTool(*row) if row else None
