"""The language of fleets: agents that files describe together, with what they use, and what was
applied of these files."""

from __future__ import annotations

from typing import ClassVar, Literal

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


class CreateFleet(Command):
    """Make a fleet; one that is there stays as it is, but for its name."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "fleet.create"
    fleet_id: str
    key: str
    name: str
    origin: str

    @property
    def target(self) -> str:
        return self.fleet_id


class StartFleetApply(Command):
    """Apply a plan that is stored, unless another apply is under way, or has begun since `after`,
    which was the newest one when the plan was found to be right; empty for none."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "fleet.start_apply"
    fleet_id: str
    apply_id: str
    plan_id: str
    by: str
    undoes: str | None = None
    members: int
    units: int
    after: str

    @property
    def target(self) -> str:
        return self.fleet_id


class DeleteFleet(Command):
    """Forget a fleet; what it owned stays, and is nobody's."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "fleet.delete"
    fleet_id: str

    @property
    def target(self) -> str:
        return self.fleet_id


class FleetEvent(Event):
    """Something about a fleet."""

    service: ClassVar[str] = SERVICE


class FleetCreated(FleetEvent):
    """A fleet is there; `origin` says where its files were, in words."""

    topic: ClassVar[str] = "fleet.created"
    key: str
    name: str
    origin: str


class FleetRenamed(FleetEvent):
    """A fleet is called otherwise."""

    topic: ClassVar[str] = "fleet.renamed"
    name: str


class FleetApplyStarted(FleetEvent):
    """A plan of so many units is to be applied; `undoes` names the apply that it takes back."""

    topic: ClassVar[str] = "fleet.apply_started"
    apply_id: str
    plan_id: str
    by: str
    requested_by: str
    undoes: str | None = None
    units: int


class FleetUnitEnded(FleetEvent):
    """A unit of a plan was applied, or refused."""

    topic: ClassVar[str] = "fleet.unit_ended"
    apply_id: str
    outcome: UnitOutcome


class FleetMemberReleased(FleetEvent):
    """A thing belongs to another fleet now."""

    topic: ClassVar[str] = "fleet.member_released"
    member: FleetMember


class FleetApplyEnded(FleetEvent):
    """An apply is over, or was given up for a reason; `counts` says what came of how many units."""

    topic: ClassVar[str] = "fleet.apply_ended"
    apply_id: str
    status: ApplyStatus
    counts: dict[str, int] = Field(default_factory=dict)
    reason: str = ""


class FleetDeleted(FleetEvent):
    """A fleet is forgotten."""

    topic: ClassVar[str] = "fleet.deleted"
