"""The reads of replays, in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

from libs.contracts.agent.run_replays import ReplayedRun
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import StoredEvent
from libs.work.work_lease import DueWork
from services.agent.adapters.reconciliation_queries import SWEPT_MAX
from services.agent.adapters.replay_queries import (
    HISTORY_PAGE_EVENTS_MAX,
    RunToReplay,
)
from services.agent.domain.tools.custom_tools import CustomTool


class InMemoryReplayQueries:
    """Keeps the contract of `ReplayQueries`, from in-memory tables."""

    database: InMemoryDatabase
    tools: dict[tuple[str, str], CustomTool]

    def rows(self, table: str, service: str = "agent", org: str | None = None) -> list[Any]:
        """The rows of a table, of one organisation if it is named."""
        raise NotImplementedError

    async def run_to_replay(self, org: str, run_id: str) -> RunToReplay | None:
        found = [row for row in self.rows("runs", org=org) if row["id"] == run_id]
        if not found:
            return None
        [row] = found
        stream = self.database.schema("agent").streams[row["conversation_id"]]
        accepted = next(
            stored for stored in stream if (stored.topic, stored.about) == ("run.accepted", run_id)
        )
        replied = [
            stored.payload
            for stored in stream
            if (stored.topic, stored.about) == ("model.replied", run_id)
        ]
        calls: list[Any] = [call for reply in replied for call in reply["tool_calls"]]  # type: ignore[union-attr]
        run = ReplayedRun(
            run_id=run_id,
            agent_id=row["agent_id"],
            conversation_id=row["conversation_id"],
            accepted_version=accepted.version,
        )
        gated = sorted({call["name"] for call in calls if call.get("gated")})
        is_compaction = "compaction" in accepted.payload
        called = sorted({call["name"] for call in calls})
        return RunToReplay(run, row["status"], len(replied), gated, called, is_compaction)

    async def history_page_of(self, org: str, aggregate_id: str, after: int) -> list[StoredEvent]:
        stream = self.database.schema("agent").streams.get(aggregate_id, [])
        found = [stored for stored in stream if stored.org == org and stored.version > after]
        return found[:HISTORY_PAGE_EVENTS_MAX]

    async def custom_tools_at(self, org: str, tool_ids: list[str], order: int) -> list[CustomTool]:
        found = (self.tools.get((org, tool_id)) for tool_id in tool_ids)
        return [tool for tool in found if tool is not None]

    async def open_replays(self, org: str) -> int:
        return sum(row["status"] == "running" for row in self.rows("run_replays", org=org))

    async def due_replays(self, of_org: int, limit: int) -> list[DueWork]:
        leases, clock = self.database.schema("agent").leases, self.database.clock()
        held = {key for key, lease in leases.items() if lease.expires_at >= clock}
        places: Counter[str] = Counter()
        placed = []
        for row in sorted(self.rows("run_replays"), key=lambda row: (row["created_at"], row["id"])):
            if row["status"] == "running" and row["id"] not in held:
                places[row["org"]] += 1
                placed.append((places[row["org"]], row))
        placed.sort(key=lambda entry: entry[0])
        due = [DueWork(row["id"], row["org"]) for place, row in placed if place <= of_org]
        return due[:limit]

    async def lost_replays(self) -> list[DueWork]:
        runs = {(row["id"], row["org"]) for row in self.rows("runs")}
        return [
            DueWork(row["id"], row["org"])
            for row in self.rows("run_replays")
            if (row["run_id"], row["org"]) not in runs
        ][:SWEPT_MAX]
