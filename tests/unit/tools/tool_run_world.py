"""Calls of custom tools in memory: processes of the tools service, and a fake sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import (
    Accepted,
    Command,
    Context,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from libs.contracts.tools.tool_runs import (
    RunTool,
    tool_run_deltas,
)
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork
from services.tools import projections
from services.tools.domain.tool import Tool
from services.tools.engine.agent_state_injection import AgentStates
from services.tools.engine.custom_tool_runner import CustomToolRunner
from services.tools.engine.environment_variables import Variables
from services.tools.engine.package_environments import NoPackages
from services.tools.engine.tool_runs import ToolRunPorts, ToolRuns
from services.tools.handlers.tool_runs import ToolRunHandlers
from services.tools.handlers.tools import ToolHandlers
from services.tools.sandbox.ports import Outcome, Program
from tests.clock_and_ids import CountingIds, StandingClock
from tests.unit.given import NOW
from tests.unit.tools.agents import NoAgents
from tests.unit.tools.counts import Counted
from tests.unit.tools.no_sandbox_configs import NoSandboxConfigs
from tests.waiting import wait_for

TOOL = "tool-aaaaaaaa-1111-4111-8111-111111111111"


CALL = "tool_run-1"


NAMES = {"LETTA_AGENT_ID": "agent-1", "LETTA_TOOL_ID": TOOL}


SEALER = Sealer([new_key()])


DICE = ToolState(
    id=TOOL,
    name="roll_die",
    description="Roll.",
    source_code="def roll_die(sides): return 4",
    json_schema={"name": "roll_die", "description": "Roll.", "parameters": {}},
)


FOUR = Outcome("success", 4, stdout="rolling\n", seconds=0.1, cpu_seconds=0.05)


class FakeSandbox:
    """Ends programs as it is told."""

    def __init__(self, run: Callable[[], Awaitable[Outcome]] | None = None) -> None:
        self.programs: list[Program] = []
        self.killed = 0
        self.behave = run
        self.refusal = ""

    def refusal_of(self, program: Program) -> str:
        return self.refusal

    async def run(self, program: Program) -> Outcome:
        self.programs.append(program)
        try:
            return await self.behave() if self.behave else FOUR
        except asyncio.CancelledError:
            self.killed += 1
            raise


async def for_ever() -> Outcome:
    await asyncio.sleep(3600)
    return FOUR


class Queries:
    def __init__(self, database: InMemoryDatabase) -> None:
        self.schema = database.schema("tools")
        self.database = database

    async def orphaned_runs(self) -> list[DueWork]:
        now = self.database.clock()
        held = {key for key, lease in self.schema.leases.items() if lease.expires_at >= now}
        return [
            DueWork(row["id"], row["org"])
            for row in self.schema.rows("tool_runs")
            if row["status"] == "running" and row["id"] not in held
        ]

    async def run_result(self, org: str, tool_run_id: str) -> JsonObject | None:
        rows = [row for row in self.schema.rows("tool_runs") if row["org"] == org]
        [row] = [row for row in rows if row["id"] == tool_run_id] or [{}]
        return {"result": row["result"]} if row.get("result") else None

    async def stopped_runs(self, orgs: list[str], tool_run_ids: list[str]) -> list[str]:
        rows = [row for row in self.schema.rows("tool_runs") if row["org"] in orgs]
        return [
            row["id"] for row in rows if row["id"] in tool_run_ids and row["status"] == "stopped"
        ]


class World:
    """What the processes share."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.schema = self.database.schema("tools")
        self.network = InMemoryNetwork()
        self.ids = CountingIds()
        self.told: list[JsonObject] = []
        self.policies: ToolPolicies | None = ToolPolicies()

    async def listen(self) -> None:
        await InMemoryBus(self.network).subscribe_deltas(
            tool_run_deltas("org-1", CALL), lambda _, sent: self.told.append(json.loads(sent))
        )

    async def make_tool(self, tool: ToolState = DICE) -> None:
        repository = Process(self, "setup").repository
        work = repository.work(Context("setup", org="org-1"))
        made = await work.load(Tool, tool.id)
        assert made.create(tool, at=NOW) is None
        await work.commit()

    def story(self) -> list[str]:
        return [event.topic for event in self.schema.streams.get(CALL, [])]

    def row(self) -> JsonObject:
        [row] = self.schema.rows("tool_runs")
        return row


class Process:
    """One process of the tools service."""

    def __init__(self, world: World, holder: str, sandbox: FakeSandbox | None = None) -> None:
        self.sandbox = sandbox or FakeSandbox()
        self.store = InMemoryEventStore(world.database, "tools", holder)
        self.repository = Repository(self.store, "tools", projections.project)
        self.runs = ToolRuns(
            ToolRunPorts(
                repository=self.repository,
                runners={
                    ToolType.custom: CustomToolRunner(
                        self.sandbox,
                        Variables(SEALER, NoSandboxConfigs()),
                        NoPackages(),
                        AgentStates(
                            NoAgents(), InMemoryBus(world.network), world.clock, ToolPolicies
                        ),
                    )
                },
                queries=Queries(world.database),
                bus=InMemoryBus(world.network),
                clock=world.clock,
                ids=world.ids,
                committed=lambda: None,
            )
        )
        clock = world.clock
        table = {
            **ToolHandlers(clock, Counted(), AggregateLocks()).table(),
            **ToolRunHandlers(self.runs, clock, lambda: world.policies).table(),
        }
        self.shell = CommandDispatcher(self.repository, table)

    async def tell(
        self, command: Command, message_id: str = "m-1", org: str = "org-1"
    ) -> Accepted | Rejected:
        name = f"{command.service}.{command.topic}"
        context = Context(message_id, org=org, actor="user-1")
        return await self.shell.answer(
            IncomingCommand(name, command.model_dump_json().encode(), context)
        )

    async def sweep(self) -> None:
        """One sweep, and all that it begins."""
        begun_before = set(self.runs.tasks)
        await self.runs.sweep()
        begun = [task for lease, task in self.runs.tasks.items() if lease not in begun_before]
        await asyncio.gather(*begun)

    async def idle(self) -> None:
        await wait_for("the end of all calls", lambda: not self.runs.tasks)


def call(**fields: object) -> RunTool:
    asked: dict[str, object] = {
        "tool_run_id": CALL,
        "tool_id": TOOL,
        "arguments": {"sides": 6},
        "agent_id": "agent-1",
        "run_id": "run-1",
        "step_id": "step-1",
        "tool_call_id": "call_1",
        "seconds_max": 30.0,
        **fields,
    }
    return RunTool.model_validate(asked)
