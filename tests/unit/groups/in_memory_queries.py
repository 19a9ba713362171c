"""What the groups service reads in SQL, from in-memory tables."""

from __future__ import annotations

from typing import Any

from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.work.agent_runs import RunProgress
from libs.work.work_lease import DueWork
from services.groups.adapters.group_queries import (
    SWEPT_MAX,
    LostPart,
    OtherSharing,
    UnequalGroup,
)
from services.groups.domain.group_rules import GroupFacts, KnownAgent
from services.groups.domain.managers.decisions import Participant


class InMemoryGroupQueries:
    """Keeps the contract of `GroupQueries`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.schema = database.schema("groups")

    def known(self, service: str, table: str, org: str) -> dict[str, Any]:
        """The rows of another service by their ids."""
        rows: list[Any] = self.database.schema(service).rows(table)
        return {row["id"]: row for row in rows if row["org"] == org}

    async def facts(self, org: str, agent_ids: list[str], block_ids: list[str]) -> GroupFacts:
        agents = self.known("agent", "agents", org)
        labels = {
            block_id: row["label"] for block_id, row in self.known("memory", "blocks", org).items()
        }
        return GroupFacts(
            {
                agent_id: KnownAgent(
                    agents[agent_id]["name"],
                    {
                        labels[block_id]: block_id
                        for block_id in agents[agent_id]["block_ids"]
                        if block_id in labels
                    },
                )
                for agent_id in agent_ids
                if agent_id in agents
            },
            {block_id: labels[block_id] for block_id in block_ids if block_id in labels},
        )

    async def group_count(self, org: str) -> int:
        return sum(row["org"] == org for row in self.schema.rows("groups"))

    async def shared_by_others(
        self, org: str, group_id: str, agent_ids: list[str]
    ) -> list[OtherSharing]:
        rows: list[Any] = self.schema.rows("shared_blocks")
        return [
            OtherSharing(row["group_id"], f"{row['agent_id']} {row['block_id']}", row["status"])
            for row in rows
            if row["org"] == org
            and row["agent_id"] in agent_ids
            and row["group_id"] != group_id
            and row["status"] != "had_before"
        ]

    async def lost_members(self, agent_ids: list[str] | None) -> list[LostPart]:
        gone = {
            event.aggregate_id
            for event in self.database.schema("agent").committed
            if event.topic == "agent.deleted"
        }
        return [
            LostPart(str(row["group_id"]), str(row["agent_id"]), str(row["org"]))
            for row in self.schema.rows("group_members")
            if row["agent_id"] in gone and (agent_ids is None or row["agent_id"] in agent_ids)
        ][:SWEPT_MAX]

    async def lost_blocks(self) -> list[LostPart]:
        rows: list[Any] = self.schema.rows("groups")
        return [
            LostPart(row["id"], block_id, row["org"])
            for row in rows
            for block_id in row["fields"]["shared_block_ids"]
            if block_id not in self.known("memory", "blocks", row["org"])
        ][:SWEPT_MAX]

    async def unequal_groups(self, group_ids: list[str] | None) -> list[UnequalGroup]:
        rows: list[Any] = self.schema.rows("groups")
        shared: dict[str, Any] = {str(row["id"]): row for row in self.schema.rows("shared_blocks")}
        wanted, due = set(), {}
        for row in rows:
            agents = self.known("agent", "agents", row["org"])
            blocks = self.known("memory", "blocks", row["org"])
            for agent_id in [*row["agent_ids"], *filter(None, [row["manager_agent_id"]])]:
                for block_id in row["fields"]["shared_block_ids"]:
                    key = f"{row['id']} {agent_id} {block_id}"
                    wanted.add(key)
                    if key not in shared and agent_id in agents and block_id in blocks:
                        due[row["id"]] = row["org"]
        due |= {
            row["group_id"]: row["org"]
            for key, row in shared.items()
            if key not in wanted or row["status"] == "offered"
        }
        return [
            UnequalGroup(group_id, org)
            for group_id, org in sorted(due.items())
            if group_ids is None or group_id in group_ids
        ][:SWEPT_MAX]


class InMemoryGroupRunQueries:
    """Keeps the contracts of `GroupRunQueries` and of `GroupMessageQueries`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.schema = database.schema("groups")

    async def due_conversations(self) -> list[DueWork]:
        now = self.database.clock()
        held = {key for key, lease in self.schema.leases.items() if lease.expires_at >= now}
        groups = {row["id"] for row in self.schema.rows("groups")}
        return [
            DueWork(str(row["id"]), str(row["org"]))
            for row in self.schema.rows("group_conversations")
            if (row["is_pending"] or (row["is_open"] and row["group_id"] not in groups))
            and row["id"] not in held
        ]

    async def participants(self, org: str, agent_ids: list[str]) -> list[Participant]:
        rows: list[Any] = self.database.schema("agent").rows("agents")
        names = {row["id"]: row["name"] for row in rows if row["org"] == org}
        return [
            Participant(agent_id, names[agent_id]) for agent_id in agent_ids if agent_id in names
        ]

    async def has_message(self, org: str, group_id: str, message_id: str) -> bool:
        rows = self.schema.rows("group_messages")
        return any(row["id"] == message_id and row["group_id"] == group_id for row in rows)


class InMemoryAgentRunQueries:
    """Keeps the contract of `AgentRunQueries`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.schema = database.schema("agent")

    async def run_progress(self, org: str, run_id: str) -> RunProgress | None:
        rows: list[Any] = self.schema.rows("runs")
        return next(
            (
                RunProgress(
                    row["status"], row.get("stop_reason") or "", row.get("usage"), row.get("error")
                )
                for row in rows
                if (row["id"], row["org"]) == (run_id, org)
            ),
            None,
        )

    async def run_messages(self, org: str, run_id: str) -> list[dict[str, Any]]:
        rows: list[Any] = self.schema.rows("messages")
        mine = [row for row in rows if (row["run_id"], row["org"]) == (run_id, org)]
        mine.sort(key=lambda row: row["position"])
        return [message for row in mine for message in row["v1_messages"]]
