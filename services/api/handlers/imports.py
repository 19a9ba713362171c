"""Commands about imports: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.imports import CancelImport, ForgetImport, RequestImport
from libs.contracts.bus_messages import Accepted, Command
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.api.adapters.agents.import_queries import ImportQueries
from services.api.domain.agent_import import AgentImport
from services.api.engine.imports import Imports
from services.api.handlers.ports import HandlerPorts, Reply


class ImportHandlers:
    """The handlers of commands to imports."""

    def __init__(self, ports: HandlerPorts, imports: Imports) -> None:
        self.ports = ports
        self.queries: ImportQueries = imports.ports.queries
        self.imports = imports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            RequestImport: self.request_import,
            CancelImport: self.cancel_import,
            ForgetImport: self.forget_import,
        }

    async def request_import(self, command: RequestImport, work: UnitOfWork) -> Reply:
        """Begin an import, at once if there is room for it."""
        org, actor = work.context.org, work.context.actor
        is_fork = command.source.form == "fork"
        unfinished = await self.queries.unfinished_imports(org, forks=is_fork)
        wanted = await work.load_new(AgentImport, command.import_id)
        at = self.ports.clock.now()
        refused = wanted.request(command, unfinished, at=at, actor=actor)
        if refused is None:
            self.imports.begin_after_commit(DueWork(wanted.id, org), work)
        return refused or Accepted(result={"import_id": wanted.id})

    async def cancel_import(self, command: CancelImport, work: UnitOfWork) -> Reply:
        """Give an import up; its attempt ends with its next commit."""
        wanted = await work.load(AgentImport, command.import_id)
        refused = wanted.cancel(at=self.ports.clock.now())
        if refused is None:
            work.after_commit.append(lambda _: self.imports.cancel(command.import_id))
        return refused or Accepted()

    async def forget_import(self, command: ForgetImport, work: UnitOfWork) -> Reply:
        """Note that nothing is left of an import."""
        ended = await work.load(AgentImport, command.import_id)
        ended.forget(at=self.ports.clock.now())
        return Accepted()
