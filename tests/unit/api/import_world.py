"""Imports in memory: the api engine, and the services that take histories, on stores in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, cast

from libs.bus.ports import BusUnavailable
from libs.contracts.api.imports import ImportOptions, ImportSource, RequestImport
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.memory.archives import AttachArchive
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Fence
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork, WorkLease
from services.api.adapters.agents.import_queries import PresentAgent, PresentTool
from services.api.adapters.agents.import_sources import ImportSources, WantedImport
from services.api.domain.agent_import import AgentImport, ImportState
from services.api.engine.import_ports import ImportPorts
from services.api.engine.imports import Imports
from services.api.handlers.imports import ImportHandlers
from services.api.handlers.ports import HandlerPorts
from services.api.projections import project
from tests.clock_and_ids import CountingIds, ManualClock
from tests.unit.bus.test_appended_histories import Service

ORG = "org-1"
LEASE_SECONDS = 60.0
IMPORT = "import-1"


class Died(BaseException):
    """The process has died."""


class Elsewhere:
    """The other services. Each command is answered once under its name; what they do not take as
    histories they accept, unless it is `refused`."""

    def __init__(self) -> None:
        self.services = {name: Service(name) for name in ("agent", "memory")}
        self.inbox: dict[str, Accepted | Rejected] = {}
        self.refused: type[Command] | None = None
        self.dies: set[str] = set()
        self.lost: set[int] = set()
        self.sent: list[Command] = []

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = 1.0
    ) -> Accepted | Rejected:
        """Answer a command, once; the process may die before that, or before it hears of it."""
        self.sent.append(command)
        number = len(self.sent)
        self.die(f"before {number}")
        reply = self.inbox.get(context.message_id) or await self.carry_out(command)
        if isinstance(reply, Accepted):
            self.inbox[context.message_id] = reply
        self.die(f"after {number}")
        if number in self.lost:
            raise BusUnavailable("nobody answers")
        return reply

    def die(self, point: str) -> None:
        """Die here, once, if a test wants it."""
        if point in self.dies:
            self.dies.remove(point)
            raise Died(point)

    async def carry_out(self, command: Command) -> Accepted | Rejected:
        """What the service does that has the command."""
        if self.refused is not None and isinstance(command, self.refused):
            return Rejected(code="unprocessable", reason="a test refuses it")
        if "histories" in command.topic:
            return await self.services[command.service].send(command)
        return Accepted(result={"tool_id": getattr(getattr(command, "tool", None), "id", "")})

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table, whichever service has it."""
        return [row for service in self.services.values() for row in service.rows(table)]

    # The queries

    async def present(self, ids: Sequence[str]) -> set[str]:
        tables = ("agents", "blocks", "archives", "conversations")
        return {row["id"] for table in tables for row in self.rows(table)} & set(ids)

    async def usable(self, org: str, ids: Sequence[str]) -> set[str]:
        return await self.present(ids)

    async def deleted_archives(self, org: str, ids: Sequence[str]) -> set[str]:
        return set()

    async def schedules_of(self, org: str, agent_ids: Sequence[str]) -> set[str]:
        return set()

    async def begun_by(self, import_id: str, ids: Sequence[str]) -> set[str]:
        return {
            name
            for name in ids
            for service in self.services.values()
            for event in (await service.store.load(name)).events
            if event.metadata.get("begins") and event.metadata.get("import") == import_id
        }

    async def coming(self, import_id: str, ids: Sequence[str]) -> set[str]:
        return set()

    async def going_with(self, *_: Any) -> set[str]:
        return set()

    async def tools_by_name(self, org: str, names: Sequence[str]) -> dict[str, PresentTool]:
        return {}

    async def agents(self, org: str, agent_ids: Sequence[str]) -> dict[str, PresentAgent]:
        there = await self.present(agent_ids)
        return {agent_id: PresentAgent("Ada", 5) for agent_id in agent_ids if agent_id in there}


class ImportWorld:
    """A source of lines, and processes of the api, of which the next takes over where one has
    died."""

    def __init__(self, random: Random, lines: list[bytes]) -> None:
        self.random = random
        self.kept = lines
        self.seconds = 0.0
        self.database = InMemoryDatabase(lambda: self.seconds)
        self.elsewhere = Elsewhere()
        self.clock, self.ids = ManualClock(), CountingIds()
        self.processes = 0

    async def lines(self, wanted: WantedImport) -> AsyncGenerator[bytes]:
        """The lines of the file."""
        for line in self.kept:
            yield line

    def process(self) -> Imports:
        """One more process of the api."""
        self.processes += 1
        store = InMemoryEventStore(self.database, "api", f"api-{self.processes}")
        sources = ImportSources(cast(Any, None), cast(Any, None), self.lines)
        sources.lines = self.lines  # type: ignore[method-assign]
        ports = ImportPorts(
            repository=Repository(store, "api", project),
            bus=cast(Any, self.elsewhere),
            clock=self.clock,
            ids=self.ids,
            committed=lambda: None,
            queries=cast(Any, self.elsewhere),
            sources=sources,
            sealer=cast(Any, None),
            uploads=cast(Any, None),
        )
        return Imports(ports)

    async def request(self, **options: Any) -> None:
        """Want the import."""
        source = ImportSource(form="heeler")
        wanted = ImportOptions.model_validate(options)
        command = RequestImport(import_id=IMPORT, source=source, options=wanted)
        imports = self.process()
        imports.stopping = True  # nothing begins but what the test begins
        unit = imports.ports.repository.work(Context("request", org=ORG))
        unfinished = type("Queries", (), {"unfinished_imports": none_unfinished})()
        imports.ports.queries = unfinished
        handlers = ImportHandlers(cast(HandlerPorts, imports.ports), imports)
        assert isinstance(await handlers.request_import(command, unit), Accepted)
        await unit.commit()

    async def attempt(self) -> None:
        """Let the next process take over; it may die. What another one holds has run out."""
        self.seconds += LEASE_SECONDS
        imports = self.process()
        work = DueWork(IMPORT, ORG)
        epoch = await imports.ports.repository.store.take_lease(work.id)
        assert epoch is not None
        lease = WorkLease(work, Fence(work.id, epoch), imports.ports, Context("sweep", org=ORG))
        with suppress(Died):
            await imports.attempt(lease)

    async def end(self, attempts_max: int = 40) -> ImportState:
        """Attempt until nothing is left to do."""
        for _ in range(attempts_max):
            state = await self.state()
            if state.phase in ("completed", "failed", "cancelled"):
                return state
            await self.attempt()
        raise AssertionError("it never ends")

    async def state(self) -> ImportState:
        """What is known of the import."""
        repository = self.process().ports.repository
        return (await repository.load(AgentImport, IMPORT, org=ORG)).state


async def none_unfinished(*_: Any, forks: bool) -> int:
    """How many imports have not ended."""
    return 0


REFUSED: list[type[Command] | None] = [None, None, AttachArchive]
