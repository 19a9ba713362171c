"""What the calls of an agent's tools have used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from libs.eventstore.connection_pool import Database

# Of an agent that called more often the latest calls count, and the answer says since when.
CALLS_MAX = 10_000
USAGE = """
select r.name, r.status, count(*), min(r.created_at),
       coalesce(sum((r.result->>'seconds')::float8), 0),
       coalesce(sum((r.result->>'cpu_seconds')::float8), 0),
       coalesce(max((r.result->>'memory_bytes_max')::int8), 0),
       coalesce(max((r.result->>'processes_max')::int8), 0),
       coalesce(sum((r.result->>'output_bytes')::int8), 0)::int8,
       coalesce(sum((r.result->'sampling'->>'requests')::int8), 0)::int8,
       coalesce(sum((r.result->'sampling'->>'prompt_tokens')::int8), 0)::int8,
       coalesce(sum((r.result->'sampling'->>'completion_tokens')::int8), 0)::int8
from (select v.name, v.status, v.created_at, v.result from tools.tool_run_view v
      where v.agent_id = %(agent)s and v.org = %(org)s
      order by v.created_at desc, v.id collate "C" desc limit %(limit)s) r
group by r.name, r.status
order by r.name, r.status"""


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """What the calls of one tool used that ended in one way. CPU, seconds and output are sums;
    memory and processes are what the greatest call used at once. `sampling_*` is what MCP servers
    asked of the agent's model in the course of calls, and the tokens that took."""

    name: str
    status: str
    calls: int
    since: datetime
    seconds: float
    cpu_seconds: float
    memory_bytes_max: int
    processes_max: int
    output_bytes: int
    sampling_requests: int
    sampling_prompt_tokens: int
    sampling_completion_tokens: int


class ToolUsageQueries:
    """Reads the calls of tools."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def usage(self, org: str, agent_id: str) -> list[ToolUsage]:
        """What the latest calls of an agent used, by tool and by how they ended."""
        values: dict[str, Any] = {"agent": agent_id, "org": org, "limit": CALLS_MAX}
        return [ToolUsage(*row) for row in await self.database.fetch(USAGE, values)]
