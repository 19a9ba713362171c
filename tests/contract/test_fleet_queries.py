"""What plans and applies of fleets read, from Postgres and in memory: the same of the same rows;
and plans, which Postgres alone keeps, sealed."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet

from libs.agent_document.desired import DesiredAgent
from libs.agent_document.plan_parts import Applied, FleetPlan, Member, Owner, Unit, Wanted
from libs.agent_document.requests import Ref, Request
from libs.contracts.service_registry import database_role
from libs.encryption.sealer import Sealer
from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork
from services.api.adapters.agents import fleet_queries
from services.api.adapters.agents.fleet_queries import (
    EndedUnit,
    FleetQueries,
    KnownApply,
    PlanTooLong,
    StoredPlan,
)
from services.api.projections import tables
from tests.contract.read_models import ORG, SEALER, Rows, put

OTHER = "org-2"
FLEET, APPLY = "fleet-1", "apply-1"
SECRET = "correct horse battery staple"


def member(row_id: str, **row: Any) -> dict[str, Any]:
    """A row of an agent that the fleet owns."""
    usual = {"fleet_id": FLEET, "kind": "agent", "key": f"{row_id}.toml", "name": row_id}
    return {"id": row_id, **usual, "thing_id": f"agent-{row_id}", **row}


def unit(number: int, **row: Any) -> dict[str, Any]:
    """A row of a unit that has ended."""
    usual = {"fleet_id": FLEET, "apply_id": APPLY, "number": number}
    return {"id": f"{row.get('apply_id', APPLY)}.{number}", **usual, **row}


async def test_a_fleet_is_due_while_it_is_applied_and_nobody_works_on_it(rows: Rows) -> None:
    assert await rows.fleets.due_fleets(10) == []
    await put(
        rows,
        tables.FLEETS,
        {"id": "fleet-idle"},
        *({"id": f"fleet-{name}", "applying": APPLY} for name in ("free", "held")),
        {"id": "fleet-other", "applying": APPLY, "org": OTHER},
    )
    await rows.take_lease("api", "fleet-held")
    due = [DueWork("fleet-free", ORG), DueWork("fleet-other", OTHER)]
    assert sorted(await rows.fleets.due_fleets(10), key=lambda work: work.id) == due
    assert len(await rows.fleets.due_fleets(1)) == 1


async def test_fleets_and_what_they_own_are_those_of_the_organisation(rows: Rows) -> None:
    await put(
        rows,
        tables.FLEETS,
        {"id": FLEET, "name": "shop", "newest_apply": "apply-1"},
        {"id": "fleet-2", "org": OTHER},
    )
    applied = {"fingerprint": "1", "tools": ["web_search"], "permissions": True}
    await put(
        rows,
        tables.FLEET_MEMBERS,
        member("ada", applied=applied),
        member("theirs", org=OTHER, fleet_id="fleet-2"),
        member("human", kind="shared_block", key="human", thing_id="block-1"),
    )
    assert await rows.fleets.newest_apply(ORG, FLEET) == "apply-1"
    assert await rows.fleets.newest_apply(OTHER, FLEET) == ""
    assert await rows.fleets.count_fleets(ORG) == 1
    assert await rows.fleets.count_fleets("org-3") == 0
    ada = Member(
        kind="agent",
        key="ada.toml",
        id="agent-ada",
        name="ada",
        applied=Applied(fingerprint="1", tools=["web_search"], permissions=True),
    )
    human = Member(kind="shared_block", key="human", id="block-1", name="human")
    members = await rows.fleets.members(ORG, FLEET)
    assert sorted(members, key=lambda each: each.key) == [ada, human]
    assert await rows.fleets.members(OTHER, FLEET) == []

    asked = ["agent-ada", "agent-theirs", "block-1", "agent-nobody"]
    owners, shared = await rows.fleets.owners(ORG, asked)
    assert owners == {
        "agent-ada": Owner(fleet_id=FLEET, fleet="shop", key="ada.toml"),
        "block-1": Owner(fleet_id=FLEET, fleet="shop", key="human"),
    }
    assert shared == {"block-1"}
    assert await rows.fleets.owners(ORG, []) == ({}, frozenset())


async def test_an_apply_is_known_with_its_units_in_their_order(rows: Rows) -> None:
    undoing = {"undoes": "apply-0", "status": "completed"}
    await put(rows, tables.FLEET_APPLIES, {"id": APPLY, "fleet_id": FLEET, **undoing})
    await put(
        rows,
        tables.FLEET_UNITS,
        unit(10),
        unit(2, fields={"result": "created"}, ids={"agent a.toml": "agent-a"}),
        unit(1, apply_id="apply-other"),
    )
    known = KnownApply(FLEET, "plan-1", "apply-0", "completed")
    assert await rows.fleets.apply(ORG, APPLY) == known
    ended = [
        EndedUnit(2, {"result": "created"}, {"agent a.toml": "agent-a"}),
        EndedUnit(10, {}, {}),
    ]
    assert await rows.fleets.ended_units(ORG, APPLY) == ended
    assert await rows.fleets.apply(OTHER, APPLY) is None
    assert await rows.fleets.ended_units(OTHER, APPLY) == []
    assert await rows.fleets.plan(ORG, "plan-1") is None


# Plans


def plan(plan_id: str = "plan-1", name: str = "ada") -> StoredPlan:
    """A plan that makes an agent with a secret."""
    agent = DesiredAgent(name=name, key="ada.toml", file="ada.toml", fields={"secrets": SECRET})
    ref = Ref(kind="agent", name="ada.toml")
    make = Request(method="POST", path=("/v1/agents",), body={"secrets": SECRET}, creates=ref)
    made = Unit(kind="agent", key="ada.toml", name=name, action="create", steps=[make])
    return StoredPlan(
        id=plan_id,
        fleet_id=FLEET,
        wanted=Wanted(agents=[agent], folders=[""]),
        plan=FleetPlan(units=[made], notes=["it is new"]),
        ids={"tool weather": "tool-1"},
        undoes="apply-0",
    )


@pytest.fixture
def plans(database: Database) -> FleetQueries:
    """The plans that a process of the api keeps."""
    return FleetQueries(database, SEALER)


async def kept(database: Database) -> list[str]:
    """The plans that are stored."""
    return [row[0] for row in await database.fetch("select id from api.fleet_plans order by id")]


async def age(database: Database, seconds: float) -> None:
    """Have so much time go by for all plans."""
    passed = "kept_until = kept_until - make_interval(secs => %s)"
    await database.fetch(f"update api.fleet_plans set {passed} returning id", [seconds])


async def test_a_plan_is_read_back_as_it_was_and_by_its_organisation_alone(
    plans: FleetQueries,
) -> None:
    await plans.keep_plan(ORG, plan(), '{"id":"plan-1"}')
    assert await plans.plan(ORG, "plan-1") == plan()
    assert await plans.shown_plan(ORG, "plan-1") == '{"id":"plan-1"}'
    assert (await plans.plan(OTHER, "plan-1"), await plans.shown_plan(OTHER, "plan-1")) == (
        None,
        None,
    )


async def test_what_a_plan_has_of_secrets_is_sealed_and_gone_with_its_key(
    database: Database, plans: FleetQueries
) -> None:
    await plans.keep_plan(ORG, plan(), "{}")
    [(stored,)] = await database.fetch("select p::text from api.fleet_plans p")
    assert SECRET not in stored
    elsewhere = FleetQueries(database, Sealer([Fernet.generate_key().decode()]))
    assert await elsewhere.plan(ORG, "plan-1") is None


async def test_plans_are_read_by_the_api_alone(database: Database) -> None:
    rows = await database.fetch(
        "select rolname from pg_roles where rolname like 'heeler\\_%' and"
        " has_table_privilege(rolname, 'api.fleet_plans', 'select')"
    )
    assert {role for (role,) in rows} == {database_role("api")}


async def test_a_plan_is_removed_after_a_day_and_one_that_was_applied_after_thirty(
    database: Database, plans: FleetQueries
) -> None:
    for name in ("plan-applied", "plan-seen"):
        await plans.keep_plan(ORG, plan(name), "{}")
    await plans.keep_longer(OTHER, "plan-seen")
    await plans.keep_longer(ORG, "plan-applied")
    await age(database, fleet_queries.KEPT_SECONDS - 60)
    await plans.sweep()
    assert await kept(database) == ["plan-applied", "plan-seen"]
    await age(database, 61)
    await plans.sweep()
    assert await kept(database) == ["plan-applied"]
    await age(database, fleet_queries.UNDO_SECONDS)
    await plans.sweep()
    assert await kept(database) == []


async def test_a_plan_that_is_applied_is_kept_without_what_it_was_made_from(
    plans: FleetQueries,
) -> None:
    await plans.keep_plan(ORG, plan(), "{}")
    await plans.keep_longer(ORG, "plan-1")
    assert await plans.plan(ORG, "plan-1") == plan()
    await plans.keep_longer(ORG, "plan-1", started=plan())
    assert await plans.plan(ORG, "plan-1") == plan().model_copy(update={"wanted": Wanted()})


async def test_the_plans_of_a_fleet_are_forgotten_with_it(
    database: Database, plans: FleetQueries
) -> None:
    await plans.keep_plan(ORG, plan(), "{}")
    await plans.keep_plan(ORG, plan("plan-2").model_copy(update={"fleet_id": "fleet-2"}), "{}")
    for org, fleet_id in ((OTHER, FLEET), (ORG, "fleet-3")):
        await plans.forget_plans(org, fleet_id)
    assert await kept(database) == ["plan-1", "plan-2"]
    await plans.forget_plans(ORG, FLEET)
    assert await kept(database) == ["plan-2"]


async def test_a_sweep_removes_all_that_is_due_some_at_a_time(
    database: Database, plans: FleetQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_queries, "SWEPT_AT_ONCE", 2)
    for number in range(5):
        await plans.keep_plan(ORG, plan(f"plan-{number}"), "{}")
    await age(database, fleet_queries.KEPT_SECONDS + 1)
    await plans.sweep()
    assert await kept(database) == []


async def test_of_more_plans_than_an_organisation_has_room_for_the_oldest_go(
    database: Database, plans: FleetQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plans.keep_plan(ORG, plan(), "{}")
    [(size,)] = await database.fetch("select size from api.fleet_plans")
    monkeypatch.setattr(fleet_queries, "PLANS_CHARS_MAX", 2 * size)
    await plans.keep_plan(ORG, plan("plan-2"), "{}")
    await plans.keep_plan(OTHER, plan("plan-3"), "{}")
    await plans.keep_plan(ORG, plan("plan-4"), "{}")
    assert await kept(database) == ["plan-2", "plan-3", "plan-4"]


async def test_a_plan_that_is_too_long_is_not_kept(
    database: Database, plans: FleetQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_queries, "PLAN_CHARS_MAX", 1_000)
    with pytest.raises(PlanTooLong, match="and may have 1,000: apply fewer files at once"):
        await plans.keep_plan(ORG, plan(name="a" * 400), "{}")
    assert await kept(database) == []
