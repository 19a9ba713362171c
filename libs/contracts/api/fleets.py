"""The language of fleets: agents that files describe together, with what they use, and what was
applied of these files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject, Value
from libs.contracts.deterministic_ids import derived_id

SERVICE = "api"

ApplyStatus = Literal["running", "completed", "failed"]


def fleet_id_of(org: str, key: str) -> str:
    """The id of the fleet that an organisation's files know under a key."""
    return derived_id("fleet", org, key)


def member_id(fleet_id: str, thing_id: str) -> str:
    """The id of the row of a thing that a fleet owns."""
    return derived_id("member", fleet_id, thing_id)


def being_applied(fleet: str, by: str, since: str, done: int, units: int) -> str:
    """Why nothing else can be planned or applied just now."""
    return (
        f"The fleet '{fleet}' is being applied by {by} since {since} ({done} of {units} done): wait"
        " for its end, and plan again"
    )


class FleetMember(Value):
    """A thing that a fleet owns. `key` is what its files know it by, `applied` what they said of it
    when they were applied last."""

    kind: str
    key: str
    id: str
    name: str
    applied: JsonObject = Field(default_factory=dict)


class UnitOutcome(Value):
    """The outcome of one unit of a plan: the ids of new things, the members that the fleet gains,
    and those that it loses. `fields` is for clients."""

    number: int
    fields: JsonObject
    ids: dict[str, str] = Field(default_factory=dict)
    members: list[FleetMember] = Field(default_factory=list)
    released: list[FleetMember] = Field(default_factory=list)


class FleetCommand(Command, service=SERVICE):
    """A command about one fleet."""

    fleet_id: str

    @property
    def target(self) -> str:
        return self.fleet_id


class CreateFleet(FleetCommand, topic="fleet.create"):
    """Make a fleet; one that is there stays as it is, but for its name."""

    key: str
    name: str
    origin: str


class StartFleetApply(FleetCommand, topic="fleet.start_apply"):
    """Apply a plan that is stored, unless another apply is under way, or has begun since `after`,
    which was the newest one when the plan was found to be right; empty for none."""

    apply_id: str
    plan_id: str
    by: str
    undoes: str | None = None
    members: int
    units: int
    after: str


class DeleteFleet(FleetCommand, topic="fleet.delete"):
    """Forget a fleet; what it owned stays, and is nobody's."""


class FleetEvent(Event, service=SERVICE):
    """Something about a fleet."""


class FleetCreated(FleetEvent, topic="fleet.created"):
    """A fleet is there; `origin` says where its files were, in words."""

    key: str
    name: str
    origin: str


class FleetRenamed(FleetEvent, topic="fleet.renamed"):
    """A fleet is called otherwise."""

    name: str


class FleetApplyStarted(FleetEvent, topic="fleet.apply_started"):
    """A plan of so many units is to be applied; `undoes` names the apply that it takes back."""

    apply_id: str
    plan_id: str
    by: str
    requested_by: str
    undoes: str | None = None
    units: int


class FleetUnitEnded(FleetEvent, topic="fleet.unit_ended"):
    """A unit of a plan was applied, or refused."""

    apply_id: str
    outcome: UnitOutcome


class FleetMemberReleased(FleetEvent, topic="fleet.member_released"):
    """A thing belongs to another fleet now."""

    member: FleetMember


class FleetApplyEnded(FleetEvent, topic="fleet.apply_ended"):
    """An apply is over, or was given up for a reason; `counts` says what came of how many units."""

    apply_id: str
    status: ApplyStatus
    counts: dict[str, int] = Field(default_factory=dict)
    reason: str = ""


class FleetDeleted(FleetEvent, topic="fleet.deleted"):
    """A fleet is forgotten."""
