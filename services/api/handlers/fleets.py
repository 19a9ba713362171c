"""Commands about fleets: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.fleets import CreateFleet, DeleteFleet, StartFleetApply
from libs.contracts.bus_messages import Accepted, Command
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.api.domain.fleet import FLEETS_MAX, Fleet
from services.api.domain.refusals import no_room
from services.api.engine.fleet_applies import FleetApplies
from services.api.handlers.ports import HandlerPorts, Reply


class FleetHandlers:
    """Makes fleets, and begins to apply their plans."""

    def __init__(self, ports: HandlerPorts, applies: FleetApplies) -> None:
        self.ports = ports
        self.applies = applies

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateFleet: self.create_fleet,
            StartFleetApply: self.start_apply,
            DeleteFleet: self.delete_fleet,
        }

    async def create_fleet(self, command: CreateFleet, work: UnitOfWork) -> Reply:
        """Have a fleet, as many as there is room for."""
        fleet = await work.load(Fleet, command.fleet_id)
        if not fleet.is_there:
            fleets = await self.applies.ports.queries.count_fleets(work.context.org)
            if refused := no_room("fleets", fleets, FLEETS_MAX):
                return refused
        fleet.create(command, at=self.ports.clock.now())
        return Accepted()

    async def start_apply(self, command: StartFleetApply, work: UnitOfWork) -> Reply:
        """Begin to apply a plan, at once if there is room for it."""
        fleet = await work.load(Fleet, command.fleet_id)
        refused = fleet.start(command, actor=work.context.actor, at=self.ports.clock.now())
        if refused is None and fleet.state.running is not None:
            self.applies.begin_after_commit(DueWork(fleet.id, work.context.org), work)
        return refused or Accepted(result={"apply_id": command.apply_id})

    async def delete_fleet(self, command: DeleteFleet, work: UnitOfWork) -> Reply:
        """Forget a fleet and its plans, unless it is being applied."""
        fleet = await work.load(Fleet, command.fleet_id)
        if refused := fleet.delete(at=self.ports.clock.now()):
            return refused
        await self.applies.ports.queries.forget_plans(work.context.org, fleet.id)
        return Accepted()
