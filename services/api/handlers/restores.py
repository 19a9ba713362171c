"""The command that wants an agent to get back what it had: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.restores import RequestRestore
from libs.contracts.bus_messages import Accepted, Command
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.api.domain.agent_restore import AgentRestores
from services.api.engine.restores import Restores
from services.api.handlers.ports import HandlerPorts, Reply


class RestoreHandlers:
    """Begins restores of agents."""

    def __init__(self, ports: HandlerPorts, restores: Restores) -> None:
        self.ports = ports
        self.restores = restores

    def table(self) -> Mapping[type[Command], Handler]:
        """The command of these handlers, with its method."""
        return {RequestRestore: self.request_restore}

    async def request_restore(self, command: RequestRestore, work: UnitOfWork) -> Reply:
        """Begin a restore, at once if there is room for it."""
        known = await work.load(AgentRestores, command.target)
        context, at = work.context, self.ports.clock.now()
        refused = known.request(command, actor=context.actor, at=at)
        if refused is None and known.is_open:
            self.restores.begin_after_commit(DueWork(known.id, context.org), work)
        return refused or Accepted(result={"restore_id": command.restore_id})
