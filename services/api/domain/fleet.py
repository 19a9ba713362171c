"""A fleet: agents that files describe together. One plan of it is applied at a time."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.api.fleets import (
    ApplyStatus,
    CreateFleet,
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
    being_applied,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Event, Rejected

FLEETS_MAX = 1_000  # of an organisation
MEMBERS_MAX = 20_000


class RunningApply(BaseModel):
    """The apply that is under way: `done` of its units have ended. `by` is who wanted it in words,
    `requested_by` the user in whose name it is done."""

    apply_id: str
    plan_id: str
    by: str
    requested_by: str
    since: datetime
    units: int
    done: int = 0
    counts: dict[str, int] = {}


class FleetState(BaseModel):
    """The state of a fleet."""

    key: str = ""
    name: str = ""
    origin: str = ""
    running: RunningApply | None = None
    last_apply_id: str = ""
    deleted: bool = False


class Fleet(Aggregate[FleetState]):
    """One fleet. What it owns are rows that its events make."""

    State = FleetState

    @property
    def deleted(self) -> bool:
        """Whether it has been forgotten."""
        return self.state.deleted

    @property
    def is_there(self) -> bool:
        """Whether it was made, and is not forgotten."""
        return self.exists and not self.deleted

    def create(self, command: CreateFleet, *, at: datetime) -> None:
        """Be there, under this name."""
        if not self.is_there:
            name, origin = command.name, command.origin
            self.record(FleetCreated, at=at, key=command.key, name=name, origin=origin)
        elif self.state.name != command.name:
            self.record(FleetRenamed, at=at, name=command.name)

    def start(self, command: StartFleetApply, *, actor: str, at: datetime) -> Rejected | None:
        """Begin to apply a plan; the same once more changes nothing."""
        running = self.state.running
        if not self.is_there:
            return missing_fleet(self.id)
        if command.apply_id == self.state.last_apply_id:
            return None
        if running is not None:
            since = f"{running.since:%Y-%m-%dT%H:%M:%SZ}"
            words = self.state.name, running.by, since, running.done, running.units
            return Rejected(code=CONFLICT, reason=being_applied(*words))
        if command.after != self.state.last_apply_id:
            reason = f"The fleet '{self.state.name}' was applied meanwhile: plan again"
            return Rejected(code=CONFLICT, reason=reason)
        if command.members > MEMBERS_MAX:
            reason = f"A fleet owns at most {MEMBERS_MAX} things: make two of it"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        self.record(
            FleetApplyStarted,
            at=at,
            apply_id=command.apply_id,
            plan_id=command.plan_id,
            by=command.by,
            requested_by=actor,
            undoes=command.undoes,
            units=command.units,
        )
        return None

    def end_unit(self, outcome: UnitOutcome, *, at: datetime) -> None:
        """Record what came of the next unit; said once."""
        running = self.state.running
        if running is not None and outcome.number == running.done:
            self.record(FleetUnitEnded, at=at, apply_id=running.apply_id, outcome=outcome)

    def release(self, member: FleetMember, *, at: datetime) -> None:
        """Record that it owns something no more."""
        if self.is_there:
            self.record(FleetMemberReleased, at=at, member=member)

    def end(self, *, at: datetime, reason: str = "") -> None:
        """Record that nothing is left to do, or why it is not done; said once."""
        running = self.state.running
        if running is not None:
            status: ApplyStatus = "failed" if reason else "completed"
            self.record(
                FleetApplyEnded,
                at=at,
                apply_id=running.apply_id,
                status=status,
                counts=running.counts,
                reason=reason,
            )

    def delete(self, *, at: datetime) -> Rejected | None:
        """Be forgotten, while nothing is applied."""
        if not self.is_there:
            return missing_fleet(self.id)
        if self.state.running is not None:
            reason = f"The fleet '{self.state.name}' is being applied: wait for its end"
            return Rejected(code=CONFLICT, reason=reason)
        self.record(FleetDeleted, at=at)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case FleetCreated():
                self.state = FleetState(key=event.key, name=event.name, origin=event.origin)
            case FleetRenamed():
                state.name = event.name
            case FleetApplyStarted():
                state.last_apply_id = event.apply_id
                state.running = RunningApply(
                    apply_id=event.apply_id,
                    plan_id=event.plan_id,
                    by=event.by,
                    requested_by=event.requested_by,
                    since=event.timestamp,
                    units=event.units,
                )
            case FleetUnitEnded() if state.running is not None:
                state.running.done = event.outcome.number + 1
                result = str(event.outcome.fields.get("result"))
                counts = state.running.counts
                state.running.counts = {**counts, result: counts.get(result, 0) + 1}
            case FleetApplyEnded():
                state.running = None
            case FleetDeleted():
                self.state = FleetState(deleted=True)


def missing_fleet(fleet_id: str) -> Rejected:
    """The refusal for a fleet that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Fleet with ID {fleet_id} not found")
