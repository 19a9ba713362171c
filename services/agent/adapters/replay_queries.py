"""Queries of replays: the run, the histories of aggregates, and the replays that are due."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from libs.contracts.agent.run_replays import ReplayedRun
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tools import ToolCreated, ToolDeleted
from libs.eventstore.connection_pool import DatabaseQueries
from libs.eventstore.ports import StoredEvent
from libs.work.work_lease import DueWork
from services.agent.adapters.reconciliation_queries import SWEPT_MAX
from services.agent.adapters.tool_queries import custom_tool
from services.agent.domain.tools.custom_tools import CustomTool

HISTORY_PAGE_EVENTS_MAX = 200
CHANGES_OF_TOOL_MAX = 1_000
UNFINISHED = "agent.run_replays where status = 'running'"
RUN = """
select r.agent_id, r.conversation_id, a.version, r.status,
       (select count(*) from agent.step_view s
        where s.run_id = r.id and s.org = r.org and s.topic = 'model.replied'),
       coalesce((select array_agg(distinct c.call->>'name')
        from agent.step_view s, json_array_elements(s.payload->'tool_calls') c (call)
        where s.run_id = r.id and s.org = r.org and s.topic = 'model.replied'
          and (c.call->>'gated')::boolean), '{}'),
       coalesce((select array_agg(distinct c.call->>'name')
        from agent.step_view s, json_array_elements(s.payload->'tool_calls') c (call)
        where s.run_id = r.id and s.org = r.org and s.topic = 'model.replied'), '{}'),
       a.compaction
from agent.runs r cross join lateral (
    select version, payload->'compaction' is not null as compaction from agent.events
    where topic = 'run.accepted' and about = r.id and aggregate_id = r.conversation_id limit 1) a
where r.id = %(run)s and r.org = %(org)s"""
HISTORY = """
select aggregate_id, version, topic, schema_version, org, about, payload::text, metadata,
       occurred_at, 0, commit_order
from agent.events where aggregate_id = %(aggregate)s and org = %(org)s and version > %(after)s
order by version limit %(limit)s"""
# Of each tool the events up to a commit, or the first one where it came later.
TOOLS_THEN = """
select e.tool_id, e.version, e.topic, e.payload::text
from unnest(%(ids)s::text[]) as wanted(id) cross join lateral (
    select tool_id, version, topic, payload from tools.tool_event_view
    where tool_id = wanted.id and org = %(org)s and (commit_order <= %(order)s or version = 1)
    order by version limit %(limit)s) e
order by e.tool_id, e.version"""
DUE = """
select id, org from (
    select r.*, row_number() over (partition by r.org order by r.created_at, r.id) as place
    from agent.run_replays r
    where r.status = 'running' and not exists (
        select from agent.leases l where l.key = r.id and l.expires_at > now())
) due
where place <= %(of_org)s order by place, created_at limit %(limit)s"""
LOST = """
select p.id, p.org from agent.run_replays p
where not exists (select from agent.runs r where r.id = p.run_id and r.org = p.org)
limit %(limit)s"""


def tool_after(before: ToolState | None, topic: str, payload: dict[str, Any]) -> ToolState | None:
    """A tool after an event; None for one that is gone, or of which nothing is kept any more."""
    if topic == ToolDeleted.topic:
        return None
    if topic == ToolCreated.topic:
        return ToolState.model_validate(payload["tool"]) if "tool" in payload else None
    changes = payload.get("changes")
    if before is None or changes is None:
        return before
    return ToolState.model_validate({**before.model_dump(), **changes})


def custom_tool_of(tool: ToolState, revision: int) -> CustomTool:
    """A tool as agents hold it."""
    schema, parallel = tool.json_schema, tool.enable_parallel_execution
    asks, most = tool.default_requires_approval, tool.return_char_limit
    named = (tool.id, revision, tool.name, tool.tool_type.value)
    return custom_tool([*named, schema, tool.description, parallel, asks, most])


@dataclass(frozen=True, slots=True)
class RunToReplay:
    """A run as the decision about a replay needs it: `called` are the tools that it
    called, `gated` those whose calls waited for a client, `steps` how many its models answered."""

    run: ReplayedRun
    status: str
    steps: int
    gated: list[str]
    called: list[str]
    is_compaction: bool

    @property
    def question_count(self) -> int:
        """For how many steps a model was asked, at most: for one more than it answered, where the
        run ended before its answer."""
        return self.steps + (self.status != "completed")

    @property
    def has_ended(self) -> bool:
        """Whether nothing comes any more."""
        return self.status not in ("created", "running")


class ReplayQueries(DatabaseQueries):
    """The queries of replays."""

    async def run_to_replay(self, org: str, run_id: str) -> RunToReplay | None:
        """A run of an organisation; None for one that is not there."""
        row = await self.database.fetch_one(RUN, {"org": org, "run": run_id})
        if row is None:
            return None
        agent_id, conversation_id, version, status, steps, gated, called, is_compaction = row
        run = ReplayedRun(
            run_id=run_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            accepted_version=version,
        )
        return RunToReplay(run, status, steps, sorted(gated), sorted(called), is_compaction)

    async def history_page_of(self, org: str, aggregate_id: str, after: int) -> list[StoredEvent]:
        """The next events of an aggregate after a version, at most `HISTORY_PAGE_EVENTS_MAX`; the
        last page is shorter."""
        rows = await self.database.fetch(
            HISTORY,
            {
                "aggregate": aggregate_id,
                "org": org,
                "after": after,
                "limit": HISTORY_PAGE_EVENTS_MAX,
            },
        )
        return [StoredEvent(*row) for row in rows]

    async def custom_tools_at(self, org: str, tool_ids: list[str], order: int) -> list[CustomTool]:
        """These tools as they were after the commits up to this one, without those that were gone;
        one that came later as it was when it came."""
        if not tool_ids:
            return []
        rows = await self.database.fetch(
            TOOLS_THEN,
            {"org": org, "ids": tool_ids, "order": order, "limit": CHANGES_OF_TOOL_MAX},
        )
        found: dict[str, ToolState | None] = {}
        versions: dict[str, int] = {}
        for tool_id, version, topic, payload in rows:
            found[tool_id] = tool_after(found.get(tool_id), topic, json.loads(payload))
            versions[tool_id] = version
        return [
            custom_tool_of(tool, versions[tool_id])
            for tool_id in tool_ids
            if (tool := found.get(tool_id)) is not None
        ]

    async def open_replays(self, org: str) -> int:
        """The number of an organisation's replays that have not ended."""
        row = await self.database.fetch_one(
            "select count(*) from agent.run_replays where status = 'running' and org = %s", [org]
        )
        return row[0] if row else 0

    async def due_replays(self, of_org: int, limit: int) -> list[DueWork]:
        """Replays that nobody carries on; at most `of_org` of each organisation."""
        if not await self.database.any_row(UNFINISHED):
            return []
        rows = await self.database.fetch(DUE, {"of_org": of_org, "limit": limit})
        return [DueWork(*row) for row in rows]

    async def lost_replays(self) -> list[DueWork]:
        """Replays whose run is gone; `SWEPT_MAX` at most."""
        rows = await self.database.fetch(LOST, {"limit": SWEPT_MAX})
        return [DueWork(*row) for row in rows]
