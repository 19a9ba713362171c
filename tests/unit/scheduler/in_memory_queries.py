"""What the scheduler reads in SQL, from in-memory tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from libs.eventstore.in_memory_database import InMemoryDatabase
from services.scheduler.adapters.agent_tools import AgentTool
from services.scheduler.adapters.schedule_queries import (
    DUE_MAX,
    DueSchedule,
    Progress,
    ScheduleCounts,
    Started,
)
from tests.unit.given import NOW

ACTIVE = ("created", "running")
OPEN = ("running", "retrying")


class InMemoryScheduleQueries:
    """Keeps the contract of `ScheduleQueries`. The time of the database is that of its clock."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database

    def moment(self) -> datetime:
        """The time of the database."""
        return NOW + timedelta(seconds=self.database.clock())

    def rows(self, service: str, table: str) -> list[Any]:
        return self.database.schema(service).rows(table)

    async def now(self) -> datetime:
        return self.moment()

    async def due_schedules(self, open_max: int) -> list[DueSchedule]:
        now = self.moment()
        leases = self.database.schema("scheduler").leases
        held = {key for key, lease in leases.items() if lease.expires_at >= self.database.clock()}
        firings = self.rows("scheduler", "firings")
        due = {
            row["id"]: row["org"]
            for row in self.rows("scheduler", "schedules")
            if is_past(row["next_at"], now)
            and not (row["fields"]["missed"] == "all" and len(open_of(row, firings)) >= open_max)
        }
        runs = {row["id"]: row["status"] for row in self.rows("agent", "runs")}
        for row in firings:
            is_retried = row["status"] == "retrying" and is_past(row["retry_at"], now)
            is_over = row["status"] == "running" and runs.get(row["run_id"]) not in ACTIVE
            if is_retried or is_over:
                due[row["schedule_id"]] = row["org"]
        due |= {key: "" for key in leases.keys() - held - due.keys() if key.startswith("schedule-")}
        free = sorted((key, org) for key, org in due.items() if key not in held)
        return [DueSchedule(key, org, now) for key, org in free[:DUE_MAX]]

    async def find_progress(self, org: str, run_ids: list[str]) -> dict[str, Started]:
        agent = self.database.schema("agent")
        runs = {row["id"]: row for row in self.rows("agent", "runs") if row["org"] == org}
        accepted = {event.about for event in agent.committed if event.topic == "run.accepted"}
        return {run_id: self.progress(runs.get(run_id), run_id in accepted) for run_id in run_ids}

    def progress(self, run: Any, accepted: bool) -> Started:
        """How far a run is, by its row."""
        if run is None:
            return Started("gone" if accepted else "missing")
        status: Progress = "waiting" if run["status"] == "created" else run["status"]
        return Started(status, (run.get("error") or {}).get("message", ""))

    async def counts(self, org: str, agent_id: str) -> ScheduleCounts:
        there = [
            row
            for row in self.rows("scheduler", "schedules")
            if row["org"] == org and row["status"] != "completed"
        ]
        return ScheduleCounts(sum(row["agent_id"] == agent_id for row in there), len(there))

    async def has_agent(self, org: str, agent_id: str) -> bool:
        agents = self.rows("agent", "agents")
        return any(row["id"] == agent_id and row["org"] == org for row in agents)

    async def has_conversation(self, org: str, agent_id: str, conversation_id: str) -> bool:
        return any(
            (row["id"], row["org"], row["agent_id"]) == (conversation_id, org, agent_id)
            for row in self.rows("agent", "conversations")
        )

    async def has_group(self, org: str, group_id: str) -> bool:
        return False

    async def abandoned_schedules(
        self, limit: int, agent_ids: list[str] | None
    ) -> list[tuple[str, str]]:
        committed = self.database.schema("agent").committed
        gone = {event.aggregate_id for event in committed if event.topic == "agent.deleted"}
        gone &= gone if agent_ids is None else {*agent_ids}
        schedules = self.rows("scheduler", "schedules")
        return [(row["id"], row["org"]) for row in schedules if row["agent_id"] in gone][:limit]

    async def outdated_schedules(
        self, kept: int, limit: int, schedule_ids: list[str] | None
    ) -> list[tuple[str, str]]:
        firings = self.rows("scheduler", "firings")
        over = [
            row
            for row in self.rows("scheduler", "schedules")
            if row["status"] == "completed" and not open_of(row, firings)
        ]
        by_agent = {row["agent_id"]: [] for row in over}  # type: dict[str, list[Any]]
        for row in sorted(over, key=lambda row: (row["created_at"], row["id"]), reverse=True):
            by_agent[row["agent_id"]].append((row["id"], row["org"]))
        return [old for rows in by_agent.values() for old in rows[kept:]][:limit]


class NoAgentTools:
    """Keeps the contract of `AgentTools`: agents have no tools."""

    def __init__(self, _: object = None) -> None:
        pass

    async def tool_of_agent(self, org: str, agent_id: str, name: str) -> AgentTool | None:
        return None


def is_past(moment: str | None, now: datetime) -> bool:
    """Whether a moment, as a row has it, has come."""
    return moment is not None and datetime.fromisoformat(moment) <= now


def open_of(schedule: Any, firings: list[Any]) -> list[Any]:
    """The firings of a schedule that have not ended."""
    return [
        row for row in firings if row["schedule_id"] == schedule["id"] and row["status"] in OPEN
    ]
