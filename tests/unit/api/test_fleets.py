"""What may happen to a fleet: made, applied once at a time, given up, forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from cli.fleet.server_transport import Refusal
from libs.agent_document.plan_parts import FleetPlan, Wanted
from libs.agent_document.requests import Ref, Request
from libs.contracts.api.fleets import (
    CreateFleet,
    DeleteFleet,
    FleetMember,
    StartFleetApply,
    UnitOutcome,
    fleet_id_of,
)
from libs.contracts.bus_messages import Context
from services.api.adapters.agents.fleet_queries import StoredPlan
from services.api.domain import fleet as domain
from services.api.domain.fleet import Fleet
from services.api.engine.requests_with_ids import body_of, mcp_servers_named
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.fleets import ORG, USER, Fleets
from tests.unit.given import NOW

FLEET, OTHER = (fleet_id_of(ORG, key) for key in ("shop", "other"))
ADA = FleetMember(kind="agent", key="ada.toml", id="agent-ada", name="ada")


@pytest.fixture
def fleets() -> Fleets:
    return Fleets(FakeServer())


async def create(fleets: Fleets, key: str = "shop", name: str = "shop") -> None:
    """Make a fleet."""
    fleet_id = fleet_id_of(ORG, key)
    await fleets.command(CreateFleet(fleet_id=fleet_id, key=key, name=name, origin="/srv"))


async def start(fleets: Fleets, apply_id: str = "apply-1", **fields: Any) -> None:
    """Begin to apply a plan of two units."""
    usual = {"fleet_id": FLEET, "apply_id": apply_id, "plan_id": "plan-1", "by": "ada@laptop"}
    newest = await fleets.queries.newest_apply(ORG, FLEET)
    command = {**usual, "members": 2, "units": 2, "after": newest, **fields}
    await fleets.command(StartFleetApply.model_validate(command))


async def end_unit(fleets: Fleets, number: int, **fields: Any) -> None:
    """Record that a unit has ended."""
    unit = fleets.process().ports.repository.work(Context("end", org=ORG))
    outcome = UnitOutcome(number=number, fields={"result": "created"}, **fields)
    (await unit.load(Fleet, FLEET)).end_unit(outcome, at=NOW)
    await unit.commit()


async def end(fleets: Fleets, reason: str = "") -> None:
    """Record that the apply is over."""
    unit = fleets.process().ports.repository.work(Context("end", org=ORG))
    (await unit.load(Fleet, FLEET)).end(at=NOW, reason=reason)
    await unit.commit()


async def test_a_fleet_is_made_once_and_called_as_its_files_say_last(fleets: Fleets) -> None:
    await create(fleets)
    await create(fleets)
    assert (await fleets.state(FLEET)).version == 1
    await create(fleets, name="store")
    [row] = fleets.queries.rows("fleets")
    assert (row["key"], row["name"], row["origin"]) == ("shop", "store", "/srv")


async def test_there_is_room_for_so_many_fleets(
    fleets: Fleets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.api.handlers.fleets.FLEETS_MAX", 1)
    await create(fleets)
    with pytest.raises(Refusal, match="There are 1 fleets, and at most 1: delete some first"):
        await create(fleets, "other")
    await create(fleets, name="store")
    await fleets.command(DeleteFleet(fleet_id=FLEET))
    await create(fleets, "other")


async def test_one_plan_is_applied_at_a_time_and_the_same_apply_begins_once(
    fleets: Fleets,
) -> None:
    await create(fleets)
    await start(fleets)
    await start(fleets)
    running = (await fleets.state(FLEET)).state.running
    assert running is not None
    assert (running.by, running.requested_by, running.units) == ("ada@laptop", USER, 2)
    await end_unit(fleets, 0)
    with pytest.raises(Refusal, match=r"being applied by ada@laptop since .* \(1 of 2 done\)"):
        await start(fleets, "apply-2")
    await end(fleets)
    await start(fleets)
    assert (await fleets.state(FLEET)).state.running is None, "it has ended"
    await start(fleets, "apply-2")


async def test_a_unit_ends_once_and_in_its_turn(fleets: Fleets) -> None:
    await create(fleets)
    await start(fleets)
    for number in (1, 0, 0, 1):
        await end_unit(fleets, number)
    assert [row["number"] for row in fleets.queries.rows("fleet_units")] == [0, 1]
    await end(fleets)
    await end(fleets)
    [row] = fleets.queries.rows("fleet_applies")
    assert (row["status"], row["counts"]) == ("completed", {"created": 2})


async def test_an_apply_that_is_given_up_says_why_and_makes_place_for_the_next(
    fleets: Fleets,
) -> None:
    await create(fleets)
    await start(fleets)
    await end_unit(fleets, 0, members=[ADA])
    await end(fleets, "the process ended")
    [row] = fleets.queries.rows("fleet_applies")
    assert (row["status"], row["reason"]) == ("failed", "the process ended")
    assert [each.key for each in await fleets.queries.members(ORG, FLEET)] == ["ada.toml"]
    await start(fleets, "apply-2")


async def test_a_fleet_owns_so_many_things_at_most(fleets: Fleets) -> None:
    await create(fleets)
    await start(fleets, members=domain.MEMBERS_MAX)
    await end(fleets)
    with pytest.raises(Refusal, match="owns at most 20000 things: make two of it"):
        await start(fleets, "apply-2", members=domain.MEMBERS_MAX + 1)


async def test_a_fleet_is_forgotten_with_all_that_was_applied_but_not_while_it_is(
    fleets: Fleets,
) -> None:
    await create(fleets)
    await create(fleets, "other")
    plan = StoredPlan(id="plan-1", fleet_id=FLEET, wanted=Wanted(), plan=FleetPlan())
    fleets.queries.keep(ORG, plan)
    await start(fleets)
    await end_unit(fleets, 0, members=[ADA])
    with pytest.raises(Refusal, match="'shop' is being applied: wait for its end"):
        await fleets.command(DeleteFleet(fleet_id=FLEET))
    assert await fleets.queries.plan(ORG, "plan-1") == plan
    await end(fleets)
    await fleets.command(DeleteFleet(fleet_id=FLEET))
    assert await fleets.queries.plan(ORG, "plan-1") is None
    left = {name: fleets.queries.rows(f"fleet_{name}") for name in ("members", "applies", "units")}
    assert left == {"members": [], "applies": [], "units": []}
    assert [row["id"] for row in fleets.queries.rows("fleets")] == [OTHER]


async def test_nothing_is_done_with_a_fleet_that_is_not_there(fleets: Fleets) -> None:
    await create(fleets, "other")
    for command in (start(fleets), fleets.command(DeleteFleet(fleet_id=FLEET))):
        with pytest.raises(Refusal, match=f"Fleet with ID {FLEET} not found"):
            await command


def test_what_is_no_id_is_sent_as_it_is_for_the_api_to_refuse() -> None:
    ada = Ref(kind="agent", name="ada")
    ids = {ada: "agent-1"}
    kept = ada.model_dump(mode="json")
    body = {"agent_ids": [ada, kept, 5, {"kind": "x"}], "agent_id": 7, "tool_ids": {"a": [ada]}}
    sent = {"agent_ids": ["agent-1", "agent-1", 5, {"kind": "x"}]}
    assert body_of(body, ids) == {**body, **sent}
    assert body_of({"agent_ids": [ada, kept]}, ids) == {"agent_ids": ["agent-1"]}
    request = Request(method="POST", path=("/v1/agents/",), body={"tool_ids": 5})
    assert mcp_servers_named(request) == set()
