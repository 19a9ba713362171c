"""The tools service of the simulated world: its own handlers and engine, with code and MCP servers
that leave a line outside, once for each time they really ran."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

from libs.bus.service_runner import Runtime
from libs.contracts.bus_messages import DEFAULT_ORG, Context, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.mcp_servers import DiscoveryReport, KnownMcpTool, SealedMcpConfig
from libs.contracts.tools.tool_permission_evaluation import NO_LIMIT, ToolPolicies, policies_of
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tool_runs import ToolRunStopped
from libs.encryption.sealer import Sealer
from libs.eventstore import failpoints
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.sql_view_cache import CachedView
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork
from services.tools import projections
from services.tools.adapters.mcp.ports import McpFailed, McpOutcome, McpServerConfig, Sampler
from services.tools.domain.mcp_server import McpServer
from services.tools.domain.mcp_tool import MCP
from services.tools.domain.tool import Tool
from services.tools.engine.agent_state_injection import AgentStates
from services.tools.engine.custom_tool_runner import CustomToolRunner
from services.tools.engine.environment_variables import Variables
from services.tools.engine.mcp_discoveries import McpDiscoveries, McpPorts
from services.tools.engine.mcp_runner import McpRunner
from services.tools.engine.mcp_sampling import McpSampling, SamplingPorts
from services.tools.engine.mcp_sessions import McpSessions
from services.tools.engine.package_environments import NoPackages
from services.tools.engine.tool_runs import ToolRunPorts, ToolRuns
from services.tools.handlers.tool_runs import ToolRunHandlers
from services.tools.handlers.tools import ToolHandlers
from services.tools.sandbox.ports import Outcome, Program
from services.tools.settings import SAMPLING_TOKENS_DEFAULT
from tests.sim.loop import OWNER
from tests.sim.model import BUG, LEDGER
from tests.sim.reads import SimView
from tests.sim.store import Client
from tests.unit.given import NOW
from tests.unit.tools.agents import NoAgents
from tests.unit.tools.counts import Counted
from tests.unit.tools.no_sandbox_configs import NoSandboxConfigs

ROLL, WEATHER = "roll_dice", "ask_weather"
ROLL_ID, WEATHER_ID = derived_id("tool", ROLL), derived_id("tool", WEATHER)
SERVER_ID = derived_id("mcp_server", "weather")
POINT = "during_call"  # where a process of the tools service may have to die
RUNNING_SECONDS = 0.3
SLOW_SECONDS = 12.0
SCHEMA: JsonObject = {
    "description": "Leave a line.",
    "parameters": {
        "type": "object",
        "properties": {"content": {"type": "string"}, "how": {"type": "string"}},
        "required": ["content"],
    },
}
SEALER = Sealer(["A" * 43 + "="])
MCP_FAILURES = {
    "crash in start": McpFailed("unreachable", "its process ended while it started"),
    "crash in call": McpFailed(
        "unreachable", "its process ended", may_have_taken_effect=True
    ),
    "garbage": McpFailed("protocol", "it sent what is no JSON", may_have_taken_effect=True),
    "too large": McpFailed("too_large", "its answer is too large", may_have_taken_effect=True),
}  # fmt: skip


async def left(arguments: JsonObject) -> None:
    """Leave the line of a call outside; the middle of that is as good a moment to die as any."""
    await asyncio.sleep(RUNNING_SECONDS)
    if OWNER.get().alive:
        LEDGER[-1].lines[str(arguments["content"])] += 1
        failpoints.reach(POINT)
    await asyncio.sleep(RUNNING_SECONDS)


class SimSandbox:
    """Keeps the contract of `Sandbox`. How a program fares is said in its arguments."""

    def refusal_of(self, program: Program) -> str:
        return ""

    async def run(self, program: Program) -> Outcome:
        how = str(program.arguments.get("how", ""))
        LEDGER[-1].did[f"code {how or 'run'}"] += 1
        if how == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        await left(program.arguments)
        if how == "hang":
            await asyncio.sleep(program.limits.seconds)
            return Outcome("timeout", seconds=program.limits.seconds)
        if how == "killed":
            return Outcome("killed", reason="it took too much memory")
        if how == "lost":
            raise RuntimeError(BUG)
        return Outcome("success", "4", stdout="rolling\n", seconds=0.6)


class SimConnections:
    """What the runner needs of `McpConnections`: one server, which fares as arguments say."""

    def refusal_of(self, config: McpServerConfig) -> str:
        return ""

    async def call_tool(
        self,
        config: McpServerConfig,
        name: str,
        arguments: JsonObject,
        *,
        seconds: float,
        sampler: Sampler | None = None,
    ) -> McpOutcome:
        how = str(arguments.get("how", ""))
        LEDGER[-1].did[f"mcp {how or 'call'}"] += 1
        if how == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        if how == "crash in start":
            raise MCP_FAILURES[how]
        await left(arguments)
        if how == "hang":
            await asyncio.sleep(seconds + 60.0)
        if how in MCP_FAILURES:
            raise MCP_FAILURES[how]
        return McpOutcome(status="success", text="sunny")


class SimToolRunQueries:
    """Keeps the contract of `ToolRunQueries` of the tools service."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.schema = client.server.database.schema("tools")

    async def orphaned_runs(self) -> list[DueWork]:
        def execute() -> list[DueWork]:
            now = self.client.server.database.clock()
            leases = self.schema.leases
            over = [key for key, lease in leases.items() if lease.expires_at < now]
            rows: list[Any] = self.schema.rows("tool_runs")
            orgs = {row["id"]: row["org"] for row in rows}
            alone = [r["id"] for r in rows if r["status"] == "running" and r["id"] not in leases]
            gone = [key for key in over if key.startswith("tool_run-")]
            return [
                DueWork(tool_run_id, orgs.get(tool_run_id, "")) for tool_run_id in [*gone, *alone]
            ]

        return await self.client.ask(execute)

    async def stopped_runs(self, orgs: list[str], tool_run_ids: list[str]) -> list[str]:
        def execute() -> list[str]:
            rows: list[Any] = self.schema.rows("tool_runs")
            mine = [row for row in rows if row["org"] in orgs and row["id"] in tool_run_ids]
            return [row["id"] for row in mine if row["status"] == "stopped"]

        return await self.client.ask(execute)


async def wire(runtime: Runtime) -> None:
    """What `services.tools.app` wires for calls, on simulated adapters."""
    service, bus, clock, database = runtime.service, runtime.bus, runtime.clock, runtime.database
    client: Client = database.client  # type: ignore[attr-defined]
    connections: Any = SimConnections()
    unasked: Any = None  # the server is known, and its tools are
    mcp = McpDiscoveries(
        McpPorts(
            **runtime.port_arguments,
            sessions=McpSessions(connections, unasked),
            sealer=SEALER,
            queries=unasked,
        )
    )
    sampling = McpSampling(
        SamplingPorts(
            **runtime.port_arguments,
            tokens_max=SAMPLING_TOKENS_DEFAULT,
        )
    )
    runs = ToolRuns(
        ToolRunPorts(
            **runtime.port_arguments,
            runners={
                ToolType.custom: CustomToolRunner(
                    SimSandbox(),
                    Variables(SEALER, NoSandboxConfigs()),
                    NoPackages(),
                    AgentStates(NoAgents(), bus, clock, ToolPolicies),
                ),
                ToolType.external_mcp: McpRunner(mcp, sampling),
            },
            queries=SimToolRunQueries(client),
        )
    )
    view = SimView(database, source="", rows="", fingerprint="")  # type: ignore[arg-type]
    policies = CachedView(view, partial(policies_of, NO_LIMIT))
    await service.keep_current(policies, ToolPermissionsChanged)
    handlers = ToolRunHandlers(runs, clock, lambda: policies.value)
    await service.handle(
        {**ToolHandlers(clock, Counted(), service.locks).table(), **handlers.table()}
    )
    await service.hear(ToolRunStopped, runs.cancelled_somewhere)
    runs.join(service)
    runtime.closing.push_async_callback(runs.drain)


async def register(database: InMemoryDatabase) -> None:
    """Have the two tools, and the MCP server that one of them is of, before the world begins."""
    store = InMemoryEventStore(database, "tools", "setup")
    work = Repository(store, "tools", projections.project).work(Context("setup", org=DEFAULT_ORG))
    about: JsonObject = {"server_id": SERVER_ID, "server_name": "weather", "tool_name": WEATHER}
    for tool_id, name, kind in (
        (ROLL_ID, ROLL, ToolType.custom),
        (WEATHER_ID, WEATHER, ToolType.external_mcp),
    ):
        tool = await work.load(Tool, tool_id)
        state = ToolState(
            id=tool_id,
            name=name,
            tool_type=kind,
            json_schema={"name": name, **SCHEMA},
            source_code=f"def {name}(content, how=''): ..." if kind is ToolType.custom else None,
            metadata_={MCP: about} if kind is ToolType.external_mcp else None,
        )
        assert tool.create(state, at=NOW) is None
    server = await work.load(McpServer, SERVER_ID)
    config = SealedMcpConfig(transport="streamable_http", url="https://weather.example.com")
    assert server.create("weather", config, declared=False, at=NOW) is None
    known = KnownMcpTool(tool_id=WEATHER_ID, name=WEATHER, accepted=json.dumps(SCHEMA)[:64])
    server.record_discovery({WEATHER: known}, [], DiscoveryReport(), at=NOW)
    await work.commit()
    await store.number_log()  # it is in the log before there is a relay
