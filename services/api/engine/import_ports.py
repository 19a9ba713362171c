"""Ports of the engine of imports."""

from __future__ import annotations

from dataclasses import dataclass

from libs.bus.ports import request_as_service
from libs.bus.process_ports import ProcessPorts
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError
from libs.contracts.bus_messages import CONFLICT, Accepted, Command, Context, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.encryption.sealer import Sealer
from services.api.adapters.agents.import_queries import ImportQueries
from services.api.adapters.agents.import_sources import ImportSources, WantedImport
from services.api.adapters.memory.uploaded_file_store import Uploads

COMMAND_SECONDS_MAX = 15.0


@dataclass(slots=True, kw_only=True)
class ImportPorts(ProcessPorts):
    """The ports of imports, besides those of each engine."""

    queries: ImportQueries
    sources: ImportSources
    sealer: Sealer
    uploads: Uploads


class Sender:
    """Sends the commands of one import. Each has a name that follows from what it is for, so that
    it may be sent again."""

    def __init__(self, ports: ImportPorts, wanted: WantedImport) -> None:
        self.ports = ports
        self.wanted = wanted

    def context(self, *names: str) -> Context:
        """The context of a command; without a name it is another one each time."""
        import_id = self.wanted.import_id
        name = derived_id("cmd", import_id, *names) if names else self.ports.ids.new("cmd")
        return Context(name, org=self.wanted.org, actor=self.wanted.actor, correlation_id=import_id)

    async def ask(self, command: Command, *names: str) -> Accepted | Rejected:
        """The answer to a command. Raises BusUnavailable."""
        return await request_as_service(
            self.ports.bus, command, self.context(*names), seconds_max=COMMAND_SECONDS_MAX
        )

    async def send(self, command: Command, entry: str, *names: str) -> Accepted:
        """Send a command about an entry of the source. Raises BadSource with its refusal."""
        reply = await self.ask(command, *names)
        if isinstance(reply, Rejected):
            errors = [EntryError(entry=entry, message=reply.reason)]
            raise BadSource(errors, conflict=reply.code == CONFLICT)
        return reply
