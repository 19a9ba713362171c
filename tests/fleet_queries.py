"""What plans and applies of fleets read, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libs.agent_document.plan_parts import Member, Owner
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.work.work_lease import DueWork
from services.api.adapters.agents.fleet_queries import EndedUnit, KnownApply, StoredPlan
from services.api.engine.fleet_planning import to_do


class InMemoryFleetQueries:
    """Keeps the contract of `FleetQueries` on the rows of a database in memory."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.plans: dict[tuple[str, str], str] = {}

    def rows(self, table: str, **wanted: Any) -> list[Any]:
        """The rows of a table that have these values."""
        rows: list[Any] = self.database.schema("api").rows(table)
        return [row for row in rows if all(row[name] == wanted[name] for name in wanted)]

    async def due_fleets(self, limit: int) -> Sequence[DueWork]:
        leases, now = self.database.schema("api").leases, self.database.clock()
        held = {key for key, lease in leases.items() if lease.expires_at > now}
        return [
            DueWork(row["id"], row["org"])
            for row in self.rows("fleets")
            if row["applying"] is not None and row["id"] not in held
        ][:limit]

    async def count_fleets(self, org: str) -> int:
        return len(self.rows("fleets", org=org))

    async def newest_apply(self, org: str, fleet_id: str) -> str:
        rows = self.rows("fleets", org=org, id=fleet_id)
        return str(rows[0]["newest_apply"]) if rows else ""

    async def members(self, org: str, fleet_id: str) -> Sequence[Member]:
        return [
            Member.model_validate(
                {
                    **{name: row[name] for name in ("kind", "key", "name", "applied")},
                    "id": row["thing_id"],
                }
            )
            for row in self.rows("fleet_members", org=org, fleet_id=fleet_id)
        ]

    async def owners(
        self, org: str, ids: Sequence[str]
    ) -> tuple[Mapping[str, Owner], frozenset[str]]:
        rows = [row for row in self.rows("fleet_members", org=org) if row["thing_id"] in set(ids)]
        names = {row["id"]: row["name"] for row in self.rows("fleets")}
        owners = {
            row["thing_id"]: Owner(
                fleet_id=row["fleet_id"], fleet=names[row["fleet_id"]], key=row["key"]
            )
            for row in rows
        }
        return owners, frozenset(row["thing_id"] for row in rows if row["kind"] == "shared_block")

    async def ended_units(self, org: str, apply_id: str) -> Sequence[EndedUnit]:
        rows = self.rows("fleet_units", org=org, apply_id=apply_id)
        rows.sort(key=lambda row: row["number"])
        return [EndedUnit(row["number"], row["fields"], row["ids"]) for row in rows]

    async def apply(self, org: str, apply_id: str) -> KnownApply | None:
        for row in self.rows("fleet_applies", org=org, id=apply_id):
            known = (row[name] for name in ("fleet_id", "plan_id", "undoes", "status"))
            return KnownApply(*known)
        return None

    async def plan(self, org: str, plan_id: str) -> StoredPlan | None:
        text = self.plans.get((org, plan_id))
        return None if text is None else StoredPlan.model_validate_json(text)

    async def forget_plans(self, org: str, fleet_id: str) -> None:
        for key, text in [*self.plans.items()]:
            if key[0] == org and StoredPlan.model_validate_json(text).fleet_id == fleet_id:
                del self.plans[key]

    def keep(self, org: str, stored: StoredPlan) -> None:
        """Keep a plan as the api does."""
        self.plans[org, stored.id] = to_do(stored).model_dump_json()
