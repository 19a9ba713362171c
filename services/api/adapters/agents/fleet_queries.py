"""Queries of fleets' plans and applies, and the plans themselves, sealed: they have secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from libs.agent_document.plan_parts import FleetPlan, Member, Owner, Wanted
from libs.agent_document.requests import Ref
from libs.contracts.bus_messages import JsonObject
from libs.encryption.sealer import CannotOpen, Sealer
from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork

PLAN_CHARS_MAX = 64 << 20
PLANS_CHARS_MAX = 256 << 20  # of an organisation
KEPT_SECONDS = 24 * 3600.0
UNDO_SECONDS = 30 * 24 * 3600.0  # of one that was applied: so long it can be taken back
SWEEP_SECONDS, SWEPT_AT_ONCE = 60.0, 100

DUE = """
select f.id, f.org from api.fleets f
where f.applying is not null
  and not exists (select from api.leases l where l.key = f.id and l.expires_at > now())
limit %(limit)s"""
COUNT = 'select count(*) from api.fleets f where f.org collate "C" = %(org)s'
NEWEST = "select f.newest_apply from api.fleets f where f.id = %(fleet)s and f.org = %(org)s"
MEMBERS = """
select m.kind, m.key, m.thing_id, m.name, m.applied from api.fleet_members m
where m.fleet_id = %(fleet)s and m.org = %(org)s"""
OWNERS = """
select m.thing_id, m.kind, m.key, f.id, f.name
from unnest(%(ids)s::text[]) wanted (id) cross join lateral (
    select thing_id, kind, key, fleet_id, org from api.fleet_members where thing_id = wanted.id) m
join api.fleets f on f.id = m.fleet_id where m.org = %(org)s"""
UNITS = """
select u.number, u.fields, u.ids from api.fleet_units u
where u.apply_id = %(apply)s and u.org = %(org)s order by u.number"""
APPLY = """
select a.fleet_id, a.plan_id, a.undoes, a.status from api.fleet_applies a
where a.id = %(apply)s and a.org = %(org)s"""
# Of more than there is room for the oldest go, but for the one that is being applied.
MAKE_ROOM = """
delete from api.fleet_plans where id in (
    select older.id from (
        select p.id, sum(p.size) over (order by p.created_at desc, p.id) as bytes
        from api.fleet_plans p where p.org collate "C" = %(org)s) older
    where older.bytes + %(size)s > %(most)s and not exists (
        select from api.fleet_applies a where a.plan_id = older.id and a.status = 'running'))"""
KEEP = """
insert into api.fleet_plans (id, org, fleet_id, shown, sealed, size, kept_until)
values (%(id)s, %(org)s, %(fleet)s, %(shown)s::json, %(sealed)s, %(size)s,
        now() + make_interval(secs => %(seconds)s))"""
KEEP_LONGER = """
update api.fleet_plans set kept_until = now() + make_interval(secs => %(seconds)s),
       sealed = coalesce(%(sealed)s::text, sealed)
where id = %(id)s and org = %(org)s returning id"""
PLAN = "select p.sealed from api.fleet_plans p where p.id = %(id)s and p.org = %(org)s"
SHOWN = "select p.shown::text from api.fleet_plans p where p.id = %(id)s and p.org = %(org)s"
FORGET = """
delete from api.fleet_plans p
where p.org collate "C" = %(org)s and p.fleet_id = %(fleet)s returning p.id"""
SWEEP = """
delete from api.fleet_plans where id in (
    select id from api.fleet_plans where kept_until < now() order by kept_until limit %(limit)s)
returning id"""


class StoredPlan(BaseModel):
    """A plan with all that it was made from. `ids` are those of what its requests name and is there
    already, by `kind name`; `undoes` is the apply that it takes back."""

    id: str
    fleet_id: str
    wanted: Wanted
    plan: FleetPlan
    ids: dict[str, str] = {}
    undoes: str | None = None

    def known_ids(self) -> dict[Ref, str]:
        """The ids of present things, by their references in requests."""
        return {ref_of(name): thing_id for name, thing_id in self.ids.items()}


def name_of(ref: Ref) -> str:
    """A ref as a text."""
    return f"{ref.kind} {ref.name}"


def ref_of(name: str) -> Ref:
    """The ref that a text names."""
    kind, _, rest = name.partition(" ")
    return Ref(kind=kind, name=rest)


@dataclass(frozen=True, slots=True)
class EndedUnit:
    """A unit that ended: what clients read of it, and the ids of what it made."""

    number: int
    fields: JsonObject
    ids: dict[str, str]


@dataclass(frozen=True, slots=True)
class KnownApply:
    """The state of an apply."""

    fleet_id: str
    plan_id: str
    undoes: str | None
    status: str


class PlanTooLong(Exception):
    """A plan is longer than one may be; the words say how long."""


class FleetQueries:
    """The queries and records of plans and applies."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self.database = database
        self.sealer = sealer

    async def due_fleets(self, limit: int) -> Sequence[DueWork]:
        """Fleets that are being applied, and that nobody works on."""
        if not await self.database.any_row("api.fleets where applying is not null"):
            return []
        return [DueWork(*row) for row in await self.database.fetch(DUE, {"limit": limit})]

    async def count_fleets(self, org: str) -> int:
        """The number of fleets of an organisation."""
        row = await self.database.fetch_one(COUNT, {"org": org})
        return int(row[0]) if row else 0

    async def newest_apply(self, org: str, fleet_id: str) -> str:
        """The id of the newest apply of a fleet; empty where there is none."""
        row = await self.database.fetch_one(NEWEST, {"fleet": fleet_id, "org": org})
        return str(row[0]) if row else ""

    async def members(self, org: str, fleet_id: str) -> Sequence[Member]:
        """The things that a fleet owns."""
        rows = await self.database.fetch(MEMBERS, {"fleet": fleet_id, "org": org})
        return [
            Member(kind=kind, key=key, id=thing_id, name=name, applied=applied)
            for kind, key, thing_id, name, applied in rows
        ]

    async def owners(
        self, org: str, ids: Sequence[str]
    ) -> tuple[Mapping[str, Owner], frozenset[str]]:
        """Which fleets own these things, and which of them are blocks that a fleet shares."""
        rows = await self.database.fetch(OWNERS, {"ids": [*ids], "org": org})
        owners = {
            thing_id: Owner(fleet_id=fleet_id, fleet=name, key=key)
            for thing_id, _, key, fleet_id, name in rows
        }
        shared = frozenset(row[0] for row in rows if row[1] == "shared_block")
        return owners, shared

    async def ended_units(self, org: str, apply_id: str) -> Sequence[EndedUnit]:
        """The units of an apply that have ended."""
        rows = await self.database.fetch(UNITS, {"apply": apply_id, "org": org})
        return [EndedUnit(*row) for row in rows]

    async def apply(self, org: str, apply_id: str) -> KnownApply | None:
        """The state of an apply."""
        row = await self.database.fetch_one(APPLY, {"apply": apply_id, "org": org})
        return KnownApply(*row) if row else None

    async def plan(self, org: str, plan_id: str) -> StoredPlan | None:
        """A plan that is kept, and can be opened."""
        row = await self.database.fetch_one(PLAN, {"id": plan_id, "org": org})
        return await asyncio.to_thread(self.open, row[0]) if row else None

    def open(self, sealed: str) -> StoredPlan | None:
        """A plan that was sealed; None if its key is gone. A large one takes long."""
        try:
            return StoredPlan.model_validate_json(self.sealer.open(sealed))
        except CannotOpen:
            return None

    def seal(self, plan: StoredPlan) -> str:
        """A plan as it is kept. A large one takes long. Raises PlanTooLong."""
        text = plan.model_dump_json()
        if len(text) > PLAN_CHARS_MAX:
            raise PlanTooLong(
                f"The plan has {len(text):,} characters, and may have {PLAN_CHARS_MAX:,}: apply"
                " fewer files at once"
            )
        return self.sealer.seal(text)

    async def forget_plans(self, org: str, fleet_id: str) -> None:
        """Remove all plans of a fleet."""
        await self.database.fetch(FORGET, {"org": org, "fleet": fleet_id})

    async def shown_plan(self, org: str, plan_id: str) -> str | None:
        """A plan as clients read it."""
        row = await self.database.fetch_one(SHOWN, {"id": plan_id, "org": org})
        return row[0] if row else None

    async def keep_plan(self, org: str, plan: StoredPlan, shown: str) -> None:
        """Keep a plan for a day, if there is room as long. Raises PlanTooLong."""
        sealed = await asyncio.to_thread(self.seal, plan)
        size = len(sealed) + len(shown)
        room: dict[str, Any] = {"org": org, "size": size, "most": PLANS_CHARS_MAX}
        await self.database.fetch(MAKE_ROOM, room)
        values = {"id": plan.id, "org": org, "fleet": plan.fleet_id, "seconds": KEPT_SECONDS}
        kept = {"shown": shown, "sealed": sealed, "size": size}
        await self.database.fetch(KEEP, {**values, **kept})

    async def keep_longer(self, org: str, plan_id: str, started: StoredPlan | None = None) -> None:
        """Keep a plan that is applied as long as it can be taken back; once that has `started`,
        without all that it was made from, which is of the whole fleet."""
        sealed = None
        if started is not None:
            rest = started.model_copy(update={"wanted": Wanted()})
            sealed = self.sealer.seal(rest.model_dump_json())
        values = {"id": plan_id, "org": org, "seconds": UNDO_SECONDS, "sealed": sealed}
        await self.database.fetch(KEEP_LONGER, values)

    async def sweep(self) -> None:
        """Remove the plans that nobody needs any more."""
        while await self.database.any_row("api.fleet_plans where kept_until < now()"):
            await self.database.fetch(SWEEP, {"limit": SWEPT_AT_ONCE})
