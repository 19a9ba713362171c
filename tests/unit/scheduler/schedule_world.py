"""Processes of the scheduler service in memory, and an agent service that only accepts runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic_core import from_json

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import BusUnavailable, IncomingCommand
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.scheduler.schedule_config import ScheduleConfig
from libs.contracts.scheduler.schedules import CreateSchedule
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import StoredEvent
from libs.eventstore.unit_of_work import Repository
from libs.work.agent_runs import AgentRuns
from services.scheduler import projections
from services.scheduler.engine.actions import Actions
from services.scheduler.engine.firings import FiringPorts, Firings
from services.scheduler.handlers.schedules import ScheduleHandlers, SchedulePorts
from services.scheduler.policies.schedule_cleanup import OutdatedSchedules, ScheduleCleanup
from tests.clock_and_ids import CountingIds, StandingClock
from tests.contract.schedule_examples import AGENT, CONFIG
from tests.leased_work import sweep
from tests.unit.given import NOW
from tests.unit.scheduler.in_memory_queries import InMemoryScheduleQueries, NoAgentTools

ORG = "org-1"
SOON = NOW + timedelta(seconds=5)
ONCE = CONFIG.model_copy(
    update={
        "created_at": NOW,
        "schedule_type": "one_time",
        "cron_expression": None,
        "scheduled_at": SOON,
    }
)
MINUTELY = CONFIG.model_copy(update={"created_at": NOW, "cron_expression": "* * * * *"})


class FakeAgents:
    """Accepts runs, once each, unless it has a refusal; counts how often each was asked for."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.database = database
        self.refusal: Rejected | None = None
        self.is_away = False
        self.asked: list[str] = []
        self.commands: list[Any] = []
        self.contexts: list[Context] = []
        table = database.schema("agent").tables.setdefault("agents", {})
        table[(AGENT,)] = {"id": AGENT, "org": ORG}

    async def answer(self, incoming: IncomingCommand) -> Accepted | Rejected:
        command = from_json(incoming.payload)
        run_id = command["run"]["id"]
        self.asked.append(run_id)
        if self.refusal:
            return self.refusal
        runs = self.database.schema("agent").tables.setdefault("runs", {})
        if (run_id,) not in runs:
            self.commands.append(command)
            self.contexts.append(incoming.context)
            runs[(run_id,)] = {"id": run_id, "org": incoming.context.org, "status": "created"}
        return Accepted(result={"run_id": run_id})

    @property
    def runs(self) -> list[str]:
        """The runs that were accepted."""
        return [command["run"]["id"] for command in self.commands]

    def delete(self) -> None:
        """Have the agent deleted."""
        gone = StoredEvent(
            position=1,
            aggregate_id=AGENT,
            version=2,
            topic="agent.deleted",
            schema_version=1,
            org=ORG,
            about=AGENT,
            payload_json="{}",
            metadata={},
            occurred_at=NOW,
        )
        self.database.schema("agent").committed.append(gone)

    def end(self, status: str, error: str = "") -> None:
        """Have all runs that go on end so."""
        for row in self.database.schema("agent").tables.get("runs", {}).values():
            if row["status"] in ("created", "running"):
                row["status"] = status
                row["error"] = {"message": error} if error else None


class World:
    """What the processes share. Its clock is that of the database."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.network = InMemoryNetwork()
        self.ids = CountingIds()
        self.agents = FakeAgents(self.database)

    async def begin(self) -> None:
        """Have the agent service answer."""
        await InMemoryBus(self.network).serve("agent", self.agents.answer)

    def rows(self, table: str) -> list[Any]:
        return self.database.schema("scheduler").rows(table)

    def story(self, schedule_id: str = CONFIG.id) -> list[str]:
        """The topics of what happened to a schedule."""
        streams = self.database.schema("scheduler").streams
        return [event.topic for event in streams.get(schedule_id, [])]


class CutBus(InMemoryBus):
    """A bus that may be away, before or after what is sent has arrived."""

    away = ""

    async def request(self, command: Command, context: Context, **how: Any) -> Any:
        if self.away == "before":
            raise BusUnavailable("away")
        reply = await super().request(command, context, **how)
        if self.away == "after":
            raise BusUnavailable("the reply is lost")
        return reply


class Process:
    """One process of the scheduler service; its clock may be wrong."""

    def __init__(self, world: World, holder: str = "scheduler-1", ahead: float = 0.0) -> None:
        self.world = world
        self.store = InMemoryEventStore(world.database, "scheduler", holder)
        self.repository = Repository(self.store, "scheduler", projections.project)
        self.bus = CutBus(world.network)
        self.clock = StandingClock(ahead=ahead)
        queries, tools = InMemoryScheduleQueries(world.database), NoAgentTools()
        ports: Any = {
            "repository": self.repository,
            "bus": self.bus,
            "clock": self.clock,
            "ids": world.ids,
            "committed": lambda: None,
            "queries": queries,
        }
        runs: Any = AgentRuns(self.bus, None)  # type: ignore[arg-type]
        actions = Actions(self.bus, runs, tools, queries, self.clock)
        self.firings = Firings(FiringPorts(**ports, actions=actions))
        self.cleanup = ScheduleCleanup(queries, self.bus, self.clock, world.ids)
        self.outdated = OutdatedSchedules(queries, self.bus, self.clock, world.ids)
        handlers = ScheduleHandlers(SchedulePorts(**ports, tools=tools))
        self.shell = CommandDispatcher(self.repository, handlers.table())

    async def tell(self, command: Command, message_id: str = "m-1") -> Accepted | Rejected:
        name = f"{command.service}.{command.topic}"
        context = Context(message_id, org=ORG, correlation_id="c-1")
        payload = command.model_dump_json().encode()
        return await self.shell.answer(IncomingCommand(name, payload, context))

    async def serve(self) -> None:
        """Answer commands over the bus."""
        await self.bus.serve("scheduler", self.shell.answer)

    async def create(self, config: ScheduleConfig = ONCE) -> None:
        reply = await self.tell(CreateSchedule(schedule=config), f"create-{config.id}")
        assert isinstance(reply, Accepted), reply

    async def sweep(self, seconds: float = 0.0) -> None:
        """Let so much time pass, then sweep once and finish all that begins thereupon."""
        self.world.clock.seconds += seconds
        await sweep(self.firings)
