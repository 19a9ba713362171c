"""MCP servers in memory, and processes of the tools service that use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import Accepted, Command, Context, JsonObject, Rejected
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.mcp_servers import (
    CreateMcpServer,
    SealedMcpConfig,
    sealed_fields,
)
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from libs.contracts.tools.tool_runs import RunTool
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork
from services.tools import projections
from services.tools.adapters.mcp.ports import (
    McpFailed,
    McpHealth,
    McpOutcome,
    McpServerConfig,
    McpTool,
    Sampler,
)
from services.tools.engine.mcp_authorizations import McpAuthorizations
from services.tools.engine.mcp_discoveries import McpDiscoveries, McpPorts
from services.tools.engine.mcp_listings import McpListings
from services.tools.engine.mcp_runner import McpRunner
from services.tools.engine.mcp_sampling import McpSampling, SamplingPorts
from services.tools.engine.mcp_sessions import McpSessions
from services.tools.engine.tool_runs import ToolRunPorts, ToolRuns
from services.tools.handlers.mcp_servers import McpServerHandlers
from services.tools.handlers.tool_runs import ToolRunHandlers
from services.tools.handlers.tools import ToolHandlers
from tests.clock_and_ids import CountingIds, StandingClock
from tests.unit.tools.counts import Counted
from tests.waiting import wait_for

ORG, OTHER_ORG = "org-1", "org-2"
SERVER = "mcp_server-aaaaaaaa-1111-4111-8111-111111111111"
OTHER_SERVER = "mcp_server-bbbbbbbb-1111-4111-8111-111111111111"
URL = "https://weather.example.com/mcp"
TOKENS_MAX = 100
OBJECT: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}

type Behave = Callable[[], Awaitable[Any]]


@dataclass
class InMemoryMcpServer:
    """A server that lists and answers as it is told. `broken` is raised, or awaited, before."""

    tools: list[McpTool] = field(default_factory=list)
    answer: Callable[[str, JsonObject], McpOutcome] = lambda name, arguments: McpOutcome(
        status="success", text=f"{name}({arguments})"
    )
    broken: McpFailed | Behave | None = None
    lists: int = 0
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    samples: Callable[[Sampler], Awaitable[McpOutcome]] | None = None

    async def met(self) -> None:
        """Fail as it is told to."""
        if isinstance(self.broken, McpFailed):
            raise self.broken
        if self.broken is not None:
            await self.broken()


class InMemoryMcpConnections:
    """Keeps the contract of `McpConnections`: the servers by their address or their command."""

    def __init__(self) -> None:
        self.servers: dict[str, InMemoryMcpServer] = {}
        self.configs: list[McpServerConfig] = []
        self.forgotten: list[str] = []
        self.refusal = ""

    def at(self, place: str) -> InMemoryMcpServer:
        """The server that is reached there."""
        return self.servers.setdefault(place, InMemoryMcpServer())

    def refusal_of(self, config: McpServerConfig) -> str:
        return self.refusal

    async def met(self, config: McpServerConfig) -> InMemoryMcpServer:
        self.configs.append(config)
        server = self.servers.get(config.url or config.command)
        if server is None:
            raise McpFailed("unreachable", f"nothing listens at {config.url or config.command}")
        await server.met()
        return server

    async def list_tools(self, config: McpServerConfig) -> list[McpTool]:
        server = await self.met(config)
        server.lists += 1
        return list(server.tools)

    async def call_tool(
        self,
        config: McpServerConfig,
        name: str,
        arguments: JsonObject,
        *,
        seconds: float,
        sampler: Sampler | None = None,
    ) -> McpOutcome:
        server = await self.met(config)
        server.calls.append((name, arguments))
        if server.samples is not None and sampler is not None:
            return await server.samples(sampler)
        return server.answer(name, arguments)

    async def list_resources(self, config: McpServerConfig) -> list[JsonObject]:
        await self.met(config)
        return [{"uri": "memo://one", "name": "one"}]

    async def read_resource(self, config: McpServerConfig, uri: str) -> list[JsonObject]:
        return []

    async def list_prompts(self, config: McpServerConfig) -> list[JsonObject]:
        return []

    async def get_prompt(
        self, config: McpServerConfig, name: str, arguments: Mapping[str, str]
    ) -> list[JsonObject]:
        return []

    async def ping(self, config: McpServerConfig) -> None:
        await self.met(config)

    def health(self, config_id: str) -> McpHealth:
        return McpHealth(state="healthy")

    async def forget(self, config_id: str) -> None:
        self.forgotten.append(config_id)

    async def close(self) -> None:
        pass


class Queries:
    """What Postgres would say."""

    def __init__(self, world: McpWorld) -> None:
        self.world = world
        self.schema = world.schema

    def held(self) -> set[str]:
        now = self.world.clock.monotonic()
        return {key for key, lease in self.schema.leases.items() if lease.expires_at >= now}

    async def due_discoveries(self, of_org: int, limit: int) -> list[DueWork]:
        now, held = self.world.clock.now().isoformat(), self.held()
        due = [
            row
            for row in self.schema.rows("mcp_servers")
            if row["due_at"] and row["due_at"] <= now and row["id"] not in held
        ]
        places: Counter[str] = Counter()
        ranked: list[tuple[int, DueWork]] = []
        for row in sorted(due, key=lambda row: (row["due_at"], row["id"])):
            places[row["org"]] += 1
            ranked.append((places[row["org"]], DueWork(row["id"], row["org"])))
        ranked.sort(key=lambda entry: entry[0])
        return [found for place, found in ranked if place <= of_org][:limit]

    async def versions(self, orgs: list[str], server_ids: list[str]) -> dict[str, int]:
        return {
            row["id"]: row["version"]
            for row in self.schema.rows("mcp_servers")
            if row["id"] in server_ids and row["org"] in orgs
        }

    async def declared_servers(self, org: str) -> list[str]:
        rows = self.schema.rows("mcp_servers")
        return [row["id"] for row in rows if row["declared"] and row["org"] == org]

    async def orphaned_runs(self) -> list[DueWork]:
        return []

    async def stopped_runs(self, orgs: list[str], tool_run_ids: list[str]) -> list[str]:
        return []


class McpWorld:
    """What the processes share."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.schema = self.database.schema("tools")
        self.network = InMemoryNetwork()
        self.ids = CountingIds()
        self.sealer = Sealer([new_key()])
        self.connections = InMemoryMcpConnections()
        self.asked = 0

    def server(self, server_id: str = SERVER) -> dict[str, Any]:
        """The row of a server."""
        [row] = [row for row in self.schema.rows("mcp_servers") if row["id"] == server_id]
        return dict(row)

    def discovery(self, server_id: str = SERVER) -> dict[str, Any]:
        """How far the discovery of a server's tools is."""
        return dict(self.server(server_id)["discovery"])

    def tools(self) -> dict[str, Any]:
        """The tools in the registry, by name."""
        return {str(row["name"]): row for row in self.schema.rows("tools")}

    def story(self, aggregate_id: str = SERVER) -> list[str]:
        """What happened to a server."""
        return [event.topic for event in self.schema.streams.get(aggregate_id, [])]


class McpProcess:
    """One process of the tools service."""

    def __init__(self, world: McpWorld, holder: str = "tools-1") -> None:
        self.world = world
        self.store = InMemoryEventStore(world.database, "tools", holder)
        self.repository = Repository(self.store, "tools", projections.project)
        bus, queries = InMemoryBus(world.network), Queries(world)
        self.sessions = McpSessions(world.connections, queries)
        self.ports = McpPorts(
            repository=self.repository,
            sessions=self.sessions,
            sealer=world.sealer,
            queries=queries,
            bus=bus,
            clock=world.clock,
            ids=world.ids,
            committed=lambda: None,
        )
        self.discoveries = McpDiscoveries(self.ports)
        self.listings = McpListings(self.ports, McpAuthorizations(self.ports))
        sampling = McpSampling(
            SamplingPorts(
                repository=self.repository,
                bus=bus,
                clock=world.clock,
                ids=world.ids,
                committed=lambda: None,
                tokens_max=TOKENS_MAX,
            )
        )
        runs = ToolRuns(
            ToolRunPorts(
                repository=self.repository,
                runners={ToolType.external_mcp: McpRunner(self.discoveries, sampling)},
                queries=queries,
                bus=bus,
                clock=world.clock,
                ids=world.ids,
                committed=lambda: None,
            )
        )
        self.runs = runs
        self.shell = CommandDispatcher(
            self.repository,
            {
                **ToolHandlers(world.clock, Counted(), AggregateLocks()).table(),
                **ToolRunHandlers(runs, world.clock, ToolPolicies).table(),
                **McpServerHandlers(self.discoveries, self.listings, world.clock).table(),
            },
        )

    async def tell(self, command: Command, org: str = ORG) -> Accepted | Rejected:
        """The reply to a command."""
        self.world.asked += 1
        context = Context(f"m-{self.world.asked}", org=org, actor="user-1")
        name = f"{command.service}.{command.topic}"
        payload = command.model_dump_json().encode()
        return await self.shell.answer(IncomingCommand(name, payload, context))

    async def idle(self) -> None:
        """Until nothing is discovered, listed or called any more."""
        await wait_for(
            "the end of all work",
            lambda: not (self.discoveries.tasks or self.listings.tasks or self.runs.tasks),
        )

    async def done(self, command: Command, org: str = ORG) -> Accepted | Rejected:
        """The reply to a command, when all that it caused is over."""
        reply = await self.tell(command, org)
        await self.idle()
        return reply

    async def call(
        self,
        tool_id: str,
        org: str = ORG,
        *,
        seconds_max: float = 10.0,
        agent_id: str = "",
        **arguments: Any,
    ) -> dict[str, Any]:
        """The result of a call of a tool."""
        self.world.asked += 1
        call_id = f"tool_run-{self.world.asked}"
        command = RunTool(
            tool_run_id=call_id,
            tool_id=tool_id,
            arguments=arguments,
            agent_id=agent_id,
            seconds_max=seconds_max,
        )
        reply = await self.done(command, org)
        if isinstance(reply, Rejected):
            return {"status": "refused", "text": reply.reason}
        [row] = [row for row in self.world.schema.rows("tool_runs") if row["id"] == call_id]
        result: dict[str, Any] = row["result"]
        return result


def config(world: McpWorld, **fields: Any) -> SealedMcpConfig:
    """A configuration with its secrets sealed."""
    given = {"transport": "streamable_http", "url": URL, **fields}
    return SealedMcpConfig.model_validate(sealed_fields(world.sealer.seal, given))


def create(
    world: McpWorld, name: str = "weather", server_id: str = SERVER, **fields: Any
) -> CreateMcpServer:
    """The command that adds a server."""
    return CreateMcpServer(server_id=server_id, name=name, config=config(world, **fields))


def tool(name: str, description: str = "What it does.", **fields: Any) -> McpTool:
    """A tool as a server lists it."""
    return McpTool(name=name, description=description, input_schema={**OBJECT, **fields})
