"""One example of each message about fleets."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.api.fleets import (
    CreateFleet,
    DeleteFleet,
    FleetApplyEnded,
    FleetApplyStarted,
    FleetCreated,
    FleetDeleted,
    FleetMember,
    FleetMemberReleased,
    FleetRenamed,
    FleetUnitEnded,
    StartFleetApply,
    UnitOutcome,
    fleet_id_of,
)
from libs.contracts.bus_messages import Command, Event
from tests.contract.identity_examples import AGENT

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = "git@example.com:shop/agents.git"
FLEET = fleet_id_of("org-1", KEY)
APPLY = "apply-47474747-4747-4747-8747-474747474747"
PLAN = "plan-48484848-4848-4848-8848-484848484848"
ADA = FleetMember(
    kind="agent",
    key="ada.toml",
    id=AGENT,
    name="ada",
    applied={"fingerprint": "sha256:1", "fields": {"system": "sha256:2"}, "tools": ["web_search"]},
)
RENAMED = ADA.model_copy(update={"key": "agents/ada.toml"})
OUTCOME = UnitOutcome(
    number=0,
    fields={
        "kind": "agent",
        "key": RENAMED.key,
        "name": ADA.name,
        "file": RENAMED.key,
        "action": "change",
        "id": AGENT,
        "result": "changed",
        "problems": [],
        "moment": None,
    },
    ids={f"agent {RENAMED.key}": AGENT},
    members=[RENAMED],
    released=[ADA],
)


def of_fleet[E: Event](kind: type[E], **fields: object) -> E:
    """An event of the fleet."""
    stored = {"originator_id": FLEET, "originator_version": 1, "timestamp": AT}
    return kind.model_validate({**stored, **fields})


FLEET_COMMANDS: list[Command] = [
    CreateFleet(fleet_id=FLEET, key=KEY, name="shop", origin="/srv/shop/agents"),
    StartFleetApply(
        fleet_id=FLEET,
        apply_id=APPLY,
        plan_id=PLAN,
        by="ada@laptop",
        undoes=None,
        members=3,
        units=2,
        after="",
    ),
    DeleteFleet(fleet_id=FLEET),
]
FLEET_EVENTS: list[Event] = [
    of_fleet(FleetCreated, key=KEY, name="shop", origin="/srv/shop/agents"),
    of_fleet(FleetRenamed, name="store"),
    of_fleet(
        FleetApplyStarted,
        apply_id=APPLY,
        plan_id=PLAN,
        by="ada@laptop",
        requested_by="user-1",
        units=2,
    ),
    of_fleet(FleetUnitEnded, apply_id=APPLY, outcome=OUTCOME),
    of_fleet(FleetMemberReleased, member=RENAMED),
    of_fleet(FleetApplyEnded, apply_id=APPLY, status="completed", counts={"changed": 2}),
    of_fleet(FleetDeleted),
]
SUBJECTS = {
    "CreateFleet": f"api.command.fleet.create.org-1.{FLEET}",
    "StartFleetApply": f"api.command.fleet.start_apply.org-1.{FLEET}",
    "DeleteFleet": f"api.command.fleet.delete.org-1.{FLEET}",
    **{
        f"Fleet{name}": f"api.event.fleet.{verb}.org-1.{FLEET}"
        for name, verb in {
            "Created": "created",
            "Renamed": "renamed",
            "ApplyStarted": "apply_started",
            "UnitEnded": "unit_ended",
            "MemberReleased": "member_released",
            "ApplyEnded": "apply_ended",
            "Deleted": "deleted",
        }.items()
    },
}
