"""The reads about batches of the agent service, in memory."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from libs.contracts.agent.batches import ITEMS_AT_ONCE_MAX, BatchItem
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.work.work_lease import DueWork
from services.agent.adapters.batch_queries import (
    ACTIVE,
    DueBatchCallback,
    LeftConversation,
    StoredItem,
)
from tests.unit.given import NOW


class InMemoryBatchQueries:
    """Keeps the contract of `BatchQueries`, from in-memory tables."""

    database: InMemoryDatabase

    def rows(self, table: str, service: str = "agent", org: str | None = None) -> list[Any]:
        """The rows of a table, of one organisation if it is named."""
        raise NotImplementedError

    async def due_batches(self, limit: int) -> list[DueWork]:
        clock, leases = self.database.clock(), self.database.schema("agent").leases
        held = {key for key, lease in leases.items() if lease.expires_at > clock}
        due = [row for row in self.open_rows() if row["id"] not in held and self.is_due(row)]
        due.sort(key=lambda row: (row["created_at"], row["id"]))
        turns: Counter[str] = Counter()
        placed: list[tuple[int, str, str, str]] = []
        for row in due:
            turns[row["org"]] += 1
            placed.append((turns[row["org"]], row["created_at"], row["id"], row["org"]))
        return [DueWork(batch_id, org) for _, _, batch_id, org in sorted(placed)[:limit]]

    def open_rows(self) -> list[Any]:
        return [row for row in self.rows("batches") if row["completed_at"] is None]

    def is_due(self, batch: Any) -> bool:
        items = [row for row in self.rows("batch_items") if row["batch_id"] == batch["id"]]
        runs = {row["id"]: row["status"] for row in self.rows("runs")}
        running = [item for item in items if item["status"] == "running"]
        pending = [item for item in items if item["status"] == "pending"]
        busy = self.running_items(None)
        return (
            any(runs.get(item["run_id"]) not in ACTIVE for item in running)
            or (batch["status"] == "cancelled" and bool(running))
            or (
                len(running) < batch["at_once"]
                and any(busy[item["agent_id"]] < ITEMS_AT_ONCE_MAX for item in pending)
            )
            or not (running or pending)
        )

    def running_items(self, org: str | None) -> Counter[str]:
        """How many items of each agent run."""
        return Counter(
            row["agent_id"]
            for row in self.rows("batch_items", org=org)
            if row["status"] == "running"
        )

    async def due_batch_callbacks(self, limit: int) -> list[DueBatchCallback]:
        now = NOW + timedelta(seconds=self.database.clock())
        due = [
            row
            for row in self.rows("batches")
            if row["callback_url"]
            and row["callback_next_at"]
            and datetime.fromisoformat(row["callback_next_at"]) <= now
        ]
        due.sort(key=lambda row: row["callback_next_at"])
        callbacks = [
            DueBatchCallback(
                row["id"],
                row["org"],
                row["callback_url"],
                row["callback_attempts"],
                row["status"],
                row["fields"]["completed_at"],
            )
            for row in due
        ]
        leases, clock = self.database.schema("agent").leases, self.database.clock()
        held = {key for key, lease in leases.items() if lease.expires_at > clock}
        return [callback for callback in callbacks if callback.id not in held][:limit]

    async def has_open_batches(self) -> bool:
        return bool(self.open_rows())

    async def open_batches(self, org: str) -> int:
        return len([row for row in self.open_rows() if row["org"] == org])

    def items_of(self, org: str, batch_id: str) -> list[Any]:
        items = [row for row in self.rows("batch_items", org=org) if row["batch_id"] == batch_id]
        return sorted(items, key=lambda row: row["number"])

    async def batch_items(self, org: str, batch_id: str, numbers: list[int]) -> list[StoredItem]:
        runs = {row["id"]: row for row in self.rows("runs")}
        found = [
            (item, runs.get(item["run_id"], {}))
            for item in self.items_of(org, batch_id)
            if item["number"] in numbers
        ]
        return [
            StoredItem(
                item["number"],
                BatchItem.model_validate(item["request"]),
                run.get("status"),
                run.get("stop_reason") or "",
                run.get("usage"),
                run.get("error"),
            )
            for item, run in found
        ]

    async def busy_agents(self, org: str, batch_id: str) -> set[str]:
        of_batch = {item["agent_id"] for item in self.items_of(org, batch_id)}
        counts = self.running_items(org)
        return {agent_id for agent_id in of_batch if counts[agent_id] >= ITEMS_AT_ONCE_MAX}

    async def left_conversations(
        self, org: str, batch_id: str, numbers: list[int] | None
    ) -> list[LeftConversation]:
        there = {row["id"] for row in self.rows("conversations", org=org)}
        return [
            LeftConversation(item["conversation_id"], item["agent_id"])
            for item in self.items_of(org, batch_id)
            if item["conversation_id"] in there and (numbers is None or item["number"] in numbers)
        ]
