"""Files of a fleet for tests, and what plans and applies them: the api's own code, on a server in
memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cli.fleet.checks import ServerChecks
from cli.fleet.files import AgentFile, Checks, files_of, fleet_of, read_agents
from cli.fleet.run import Asked, Comparison, FleetServer, Outcome, Run
from cli.fleet.server_transport import Refusal
from libs.agent_document.plan_parts import Wanted
from libs.agent_toml import DEFAULT_RULES
from libs.contracts.api.fleets import CreateFleet, StartFleetApply, fleet_id_of
from libs.contracts.bus_messages import Command, Context, Rejected
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Fence
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork, WorkLease
from services.api.domain.fleet import Fleet
from services.api.engine.fleet_api import ApiAway, Refused
from services.api.engine.fleet_applies import FleetApplies, FleetPorts
from services.api.engine.fleet_planning import FleetPlanner
from services.api.handlers.fleets import FleetHandlers
from services.api.handlers.ports import HandlerPorts
from services.api.http.callers import Caller
from services.api.http.error_responses import STATUS
from services.api.projections import project
from services.api.v1.fleet_plans import plan_document
from tests.clock_and_ids import CountingIds, ManualClock
from tests.fleet_queries import InMemoryFleetQueries
from tests.unit.cli.fake_server import ConnectionLost, FakeServer

ADA = """
name = "ada"
system_prompt = "You are Ada."
model = "openai/gpt-4.1"
"""
ORG, USER = "org-1", "user-ada"
LEASE_SECONDS = 60.0


class Died(BaseException):
    """The process that applies a plan has died."""


class OwnApi:
    """The server in memory, as the api asks itself. A connection that breaks is a process that
    dies."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server

    async def get(self, path: str, **query: Any) -> Any:
        return self.call(self.server.get, path, **query)

    async def pages(self, path: str, **query: Any) -> list[Any]:
        return list(self.call(lambda: [*self.server.pages(path, **query)]))

    async def send(self, method: str, path: str, body: Any, key: str | None) -> Any:
        return self.call(self.server.send, method, path, body, key)

    def call(self, do: Any, *given: Any, **query: Any) -> Any:
        try:
            return do(*given, **query)
        except Refusal as refusal:
            raise Refused(refusal.status, str(refusal)) from None
        except ConnectionLost:
            if self.server.is_down:
                raise ApiAway("it is down") from None
            self.server.lost_from = None  # the next process lives
            raise Died from None


class Fleets:
    """The fleets of a server in memory, and the processes of its api, of which the next takes over
    where one has died."""

    def __init__(self, server: FakeServer) -> None:
        self.api = OwnApi(server)
        self.seconds = 0.0
        self.database = InMemoryDatabase(lambda: self.seconds)
        self.queries = InMemoryFleetQueries(self.database)
        self.clock, self.ids = ManualClock(), CountingIds()
        self.processes = 0
        self.deaths = 0
        self.callers: list[Caller] = []  # in whose name plans are applied

    def process(self) -> FleetApplies:
        """One more process of the api; nothing begins but what the test begins."""
        self.processes += 1
        store = InMemoryEventStore(self.database, "api", f"api-{self.processes}")
        ports = FleetPorts(
            repository=Repository(store, "api", project),
            bus=cast(Any, None),
            clock=self.clock,
            ids=self.ids,
            committed=lambda: None,
            queries=self.queries,
            api=self.api_of,
        )
        applies = FleetApplies(ports)
        applies.stopping = True
        return applies

    def api_of(self, org: str, actor: str) -> OwnApi:
        """The API in the name of a caller."""
        self.callers.append(Caller(org, actor))
        return self.api

    async def command(self, command: Command) -> None:
        """Carry out a command. Raises Refusal."""
        applies = self.process()
        handlers = FleetHandlers(cast(HandlerPorts, applies.ports), applies)
        unit = applies.ports.repository.work(Context(self.ids.new("request"), org=ORG, actor=USER))
        reply = await handlers.table()[type(command)](cast(Any, command), unit)
        if isinstance(reply, Rejected):
            raise Refusal(STATUS[reply.code], reply.reason)
        await unit.commit()

    async def attempt(self, fleet_id: str) -> bool:
        """Let the next process take over; whether it lived."""
        self.seconds += LEASE_SECONDS
        applies = self.process()
        epoch = await applies.ports.repository.store.take_lease(fleet_id)
        assert epoch is not None
        work = DueWork(fleet_id, ORG)
        lease = WorkLease(work, Fence(fleet_id, epoch), applies.ports, Context("sweep", org=ORG))
        try:
            await applies.attempt(lease)
        except Died:
            self.deaths += 1
            return False
        return True

    async def state(self, fleet_id: str) -> Fleet:
        """A fleet as it is recorded."""
        return await self.process().ports.repository.load(Fleet, fleet_id, org=ORG)

    # The routes

    async def route(self, method: str, path: list[str], body: Any) -> Any:
        """The answer to a request about fleets."""
        match method, path:
            case "POST", []:
                fleet_id = fleet_id_of(ORG, body["key"])
                await self.command(CreateFleet(fleet_id=fleet_id, **body))
                return {"id": fleet_id}
            case "POST", [fleet_id, "plans"]:
                return await self.plan(fleet_id, body)
            case "POST", [fleet_id, "applies"]:
                return await self.start(fleet_id, body)
            case "GET", [fleet_id, "applies", apply_id]:
                row = self.queries.rows("fleet_applies", id=apply_id)[0]
                if row["status"] == "running":
                    await self.attempt(fleet_id)
                return self.queries.rows("fleet_applies", id=apply_id)[0]
            case "GET", [_, "applies", apply_id, "units"]:
                return [unit.fields for unit in await self.queries.ended_units(ORG, apply_id)]
        raise AssertionError((method, path))

    async def planner(self, fleet_id: str) -> FleetPlanner:
        origin = (await self.state(fleet_id)).state.origin
        return FleetPlanner(self.queries, self.api, ORG, fleet_id, origin)

    async def plan(self, fleet_id: str, body: Any) -> Any:
        planner, plan_id = await self.planner(fleet_id), self.ids.new("plan")
        if "undo" in body:
            stored = await planner.undo(plan_id, body["undo"])
        else:
            stored = await planner.plan(plan_id, Wanted.model_validate_json(json.dumps(body)))
        if isinstance(stored, Rejected):
            raise Refusal(STATUS[stored.code], stored.reason)
        self.queries.keep(ORG, stored)
        return json.loads(plan_document(stored))

    async def before_start(self) -> None:
        """What others do between the check of a plan and its apply: nothing, unless a test says."""

    async def start(self, fleet_id: str, body: Any) -> Any:
        newest = await self.queries.newest_apply(ORG, fleet_id)
        stored = await (await self.planner(fleet_id)).to_apply(body["plan_id"])
        if isinstance(stored, Rejected):
            raise Refusal(STATUS[stored.code], stored.reason)
        await self.before_start()
        apply_id = self.ids.new("apply")
        units = len(stored.plan.units)
        start = StartFleetApply(
            fleet_id=fleet_id,
            apply_id=apply_id,
            members=units,
            units=units,
            undoes=stored.undoes,
            after=newest,
            **body,
        )
        await self.command(start)
        return {"id": apply_id}


class FleetTransport:
    """The server in memory as the command asks it."""

    address = "http://server"

    def __init__(self, server: FakeServer, fleets: Fleets) -> None:
        self.server = server
        self.fleets = fleets

    def get(self, path: str, **query: Any) -> Any:
        parts = path.strip("/").split("/")[1:]
        if parts[0] != "fleets":
            return self.server.get(path, **query)
        answer = asyncio.run(self.fleets.route("GET", parts[1:], None))
        if query.get("after") is not None:  # all came with the first page
            return []
        return answer

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Any]:
        return self.server.pages(path, limit, **query)

    def post(self, path: str, body: Any) -> Any:
        parts = path.strip("/").split("/")[1:]
        if parts[0] != "fleets":
            return self.server.send("POST", path, body, None)
        try:
            return asyncio.run(self.fleets.route("POST", parts[1:], body))
        except ApiAway:
            raise ConnectionLost from None


_FLEETS: dict[int, tuple[FakeServer, Fleets]] = {}


def fleets_of(server: FakeServer) -> Fleets:
    """The fleets of a server."""
    return _FLEETS.setdefault(id(server), (server, Fleets(server)))[1]


@dataclass
class Folder:
    """A folder of files, and a server."""

    path: Path
    server: FakeServer = field(default_factory=FakeServer)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: list[AgentFile] | None = None  # instead of reading them each time
    fleet: str | None = "ours"

    @property
    def fleets(self) -> Fleets:
        """The fleets of the server."""
        return fleets_of(self.server)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, paths: Sequence[Path] = ()) -> list[AgentFile]:
        """The files as they are now."""
        fleet = fleet_of(paths or [self.path])
        return read_agents(fleet, files_of(fleet), Checks(environment=self.environment))

    def run(self, paths: Sequence[Path] = (), fleet: str | None = None, **asked: Any) -> Run:
        """What compares and applies."""
        found = fleet_of(paths or [self.path], fleet or self.fleet)
        transport = FleetTransport(self.server, self.fleets)
        checks = ServerChecks(transport, DEFAULT_RULES)
        return Run(FleetServer.of(transport, found), Asked(**asked), checks)

    def compare(self, **asked: Any) -> tuple[Run, Comparison]:
        """The files against the server."""
        paths, fleet = asked.get("paths", [self.path]), asked.get("fleet", self.fleet)
        run = self.run(**asked)
        return run, run.compare(fleet_of(paths, fleet), self.files or self.read(paths))

    def outcomes(self, **asked: Any) -> list[Outcome]:
        """Apply the files; what came of everything."""
        run, comparison = self.compare(**asked)
        return run.apply(comparison)

    def apply(self, **asked: Any) -> list[Outcome]:
        """Apply the files; what came of each agent."""
        return [each for each in self.outcomes(**asked) if each.plan.kind == "agent"]

    def actions(self, **asked: Any) -> dict[str, str]:
        """Apply all files; what was done with each agent."""
        return {
            outcome.plan.name: "failed" if outcome.failed else outcome.action
            for outcome in self.apply(**asked)
        }

    def undo(self, apply_id: str, **asked: Any) -> list[Outcome]:
        """Take an apply back."""
        run = self.run(**asked)
        with suppress(KeyError):
            return run.server.apply_all(run.server.plan({"undo": apply_id}))
        raise AssertionError(apply_id)
