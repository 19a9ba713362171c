"""The wiring of the tools service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from libs.bus.command_dispatcher import Handler
from libs.bus.moments import serve_moments
from libs.bus.ports import Clock
from libs.bus.process_ports import ProcessPorts
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.bus_messages import Command
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.mcp_authorizations import McpServerAuthorized
from libs.contracts.tools.mcp_servers import McpServerChanged, McpServerDeleted
from libs.contracts.tools.tool_permission_evaluation import (
    POLICIES_VIEW,
    CompiledList,
    ToolPolicies,
    policies_of,
    system_list,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tool_runs import CALLS_TOOLS, ToolRunForgotten, ToolRunStopped
from libs.contracts.tools.tools import ToolDeleted
from libs.encryption.sealer import Sealer
from libs.eventstore.read_model_replay import ReadModels
from libs.eventstore.sql_view_cache import CachedView, PostgresView
from services.tools.adapters.agent_sandbox_sessions import AgentSandboxSessions
from services.tools.adapters.agent_state_queries import PostgresAgentStates
from services.tools.adapters.agent_workspaces import AgentWorkspaces
from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.adapters.container_sandbox import ContainerSandbox
from services.tools.adapters.deleted_agent_queries import DeletedAgents
from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp_server_queries import PostgresMcpServerQueries
from services.tools.adapters.mcp_servers_file import McpDeclarations, declarations
from services.tools.adapters.moment_aggregates import ToolMomentAggregates
from services.tools.adapters.package_folders import PackageFolders
from services.tools.adapters.package_installer import PipInstaller
from services.tools.adapters.package_settings import PackageSettings
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.adapters.sandbox_config_queries import PostgresSandboxConfigQueries
from services.tools.adapters.sandbox_gauges import SandboxGauges
from services.tools.adapters.tool_counts import PostgresToolCounts, PostgresToolPermissionCounts
from services.tools.adapters.tool_run_queries import PostgresToolRunQueries
from services.tools.adapters.web_pages import WebPages
from services.tools.adapters.web_search import SearchSettings, WebSearches
from services.tools.engine.agent_state_injection import AgentStates
from services.tools.engine.builtin_runner import BuiltinRunner
from services.tools.engine.custom_tool_runner import CustomToolRunner
from services.tools.engine.environment_variables import Variables
from services.tools.engine.inner_calls import InnerCallPorts
from services.tools.engine.mcp_authorizations import McpAuthorizations
from services.tools.engine.mcp_declared_servers import DeclaredMcpServers
from services.tools.engine.mcp_discoveries import McpDiscoveries, McpPorts
from services.tools.engine.mcp_listings import McpListings
from services.tools.engine.mcp_runner import McpRunner
from services.tools.engine.mcp_sampling import McpSampling, SamplingPorts
from services.tools.engine.mcp_sessions import McpSessions
from services.tools.engine.package_environments import (
    NoPackages,
    PackageEnvironments,
    ToolPackages,
)
from services.tools.engine.run_code import RunCodeTool
from services.tools.engine.run_code_with_tools import RunCodeWithToolsTool
from services.tools.engine.tool_runner_protocol import ToolRunners
from services.tools.engine.tool_runner_telemetry import observe_runners
from services.tools.engine.tool_runs import ToolRunPorts, ToolRuns
from services.tools.engine.web_builtins import FetchWebpageTool, WebSearchTool
from services.tools.engine.workspace_builtins import FILE_TOOLS, FileTool, ShellTool
from services.tools.handlers.mcp_servers import McpServerHandlers
from services.tools.handlers.sandbox_configs import SandboxConfigHandlers
from services.tools.handlers.tool_permissions import ToolPermissionHandlers
from services.tools.handlers.tool_runs import ToolRunHandlers
from services.tools.handlers.tools import ToolHandlers
from services.tools.policies.agent_cleanup import (
    CleanupPorts,
    PermissionCleanup,
    ToolRunCleanup,
    WorkspaceCleanup,
)
from services.tools.projections import READ_MODELS, project
from services.tools.settings import CONTAINER, ToolsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of this service, from the environment. `connect` makes connections to MCP
    servers, with the sandbox that runs those which are programs, if there is one."""

    sandbox: ToolsSettings
    packages: PackageSettings
    search: SearchSettings
    sealer: Sealer
    allowed: CompiledList
    connect: Callable[[Clock, ProcessSandbox | None], McpConnections]
    declared: McpDeclarations

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read all settings. Raises WrongSetting."""
        return cls(
            sandbox=ToolsSettings.from_environment(environment),
            packages=PackageSettings.from_environment(environment),
            search=SearchSettings.from_environment(environment),
            sealer=Sealer.from_environment(environment),
            allowed=system_list(environment),
            connect=partial(McpConnections.from_environment, environment),
            declared=declarations(environment),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The adapters that the other rooms get. `packages` installs what tools import, or says that
    this sandbox cannot."""

    sandbox: BaseSandbox
    workspaces: AgentWorkspaces
    sessions: AgentSandboxSessions
    packages: ToolPackages
    policies: CachedView[ToolPolicies]
    variables: Variables
    tool_runs: PostgresToolRunQueries
    deleted_agents: DeletedAgents


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The long work of a process."""

    runs: ToolRuns
    discoveries: McpDiscoveries
    listings: McpListings
    declared_servers: DeclaredMcpServers


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the sandbox that the environment wants. Raises WrongSetting."""
    return partial(wire, settings=Settings.from_environment(environment))


async def wire(runtime: Runtime, *, settings: Settings) -> None:
    """Register what the tools service answers, does, follows and closes."""
    adapters = await open_adapters(runtime, settings)
    engine = await start_engine(runtime, settings, adapters)
    models = ReadModels("tools", project, READ_MODELS)
    moments = serve_moments(runtime, models, ToolMomentAggregates())
    await runtime.service.handle({**handlers(runtime, adapters, engine), **moments})
    await apply_policies(runtime, adapters)
    runtime.erase_what_ended(ToolDeleted, McpServerDeleted, ToolRunForgotten)


async def open_adapters(runtime: Runtime, settings: Settings) -> Adapters:
    """The adapters, started; each is closed when the process ends."""
    workspaces = AgentWorkspaces(settings.sandbox.workspaces)
    workspaces.prepare()
    folders = PackageFolders(settings.packages.folder, settings.packages.bytes_max)
    folders.prepare()
    await folders.remove_abandoned()
    sandbox = sandbox_of(settings.sandbox, workspaces=workspaces.root, packages=folders.root)
    await sandbox.start()
    runtime.closing.push_async_callback(sandbox.close)
    workspaces.own_users = sandbox.has_own_users
    sessions = AgentSandboxSessions(sandbox, workspaces, sandbox.places)
    runtime.closing.push_async_callback(sessions.close)
    runtime.service.looks.append(SandboxGauges(sandbox, sessions).look)
    view = PostgresView(runtime.database, **POLICIES_VIEW)
    policies = CachedView(view, partial(policies_of, settings.allowed))
    await runtime.service.keep_current(policies, ToolPermissionsChanged)
    return Adapters(
        sandbox=sandbox,
        workspaces=workspaces,
        sessions=sessions,
        packages=packages_for(runtime, settings.packages, sandbox, folders),
        policies=policies,
        variables=Variables(settings.sealer, PostgresSandboxConfigQueries(runtime.database)),
        tool_runs=PostgresToolRunQueries(runtime.database),
        deleted_agents=DeletedAgents(runtime.database),
    )


def sandbox_of(settings: ToolsSettings, *, workspaces: str, packages: str) -> BaseSandbox:
    """The sandbox that the operator has chosen."""
    if settings.sandbox == CONTAINER:
        return ContainerSandbox(settings.image, settings.network)
    return ProcessSandbox(settings.sandbox, workspaces=workspaces, packages=packages)


def packages_for(
    runtime: Runtime, settings: PackageSettings, sandbox: BaseSandbox, folders: PackageFolders
) -> ToolPackages:
    """What installs packages for a sandbox, if any can be installed for it."""
    if sandbox.no_packages:
        return NoPackages(sandbox.no_packages)
    installer = PipInstaller(settings.index)
    environments = PackageEnvironments(folders, installer, settings.rules, runtime.clock)
    runtime.closing.push_async_callback(environments.drain)
    return environments


async def start_engine(runtime: Runtime, settings: Settings, adapters: Adapters) -> Engine:
    """The long work of this process, swept and drained with it."""
    programs = adapters.sandbox if isinstance(adapters.sandbox, ProcessSandbox) else None
    connections = settings.connect(runtime.clock, programs)
    service, queries = runtime.service, PostgresMcpServerQueries(runtime.database)
    ports = McpPorts(
        **runtime.port_arguments,
        sessions=McpSessions(connections, queries),
        sealer=settings.sealer,
        queries=queries,
    )
    authorizations = McpAuthorizations(ports)
    connections.keep_renewed(authorizations.keep_renewed_grant)
    discoveries = McpDiscoveries(ports)
    engine = Engine(
        runs=tool_runs(runtime, settings, adapters, discoveries),
        discoveries=discoveries,
        listings=McpListings(ports, authorizations),
        declared_servers=DeclaredMcpServers(ports, settings.declared),
    )
    for changed in (McpServerChanged, McpServerDeleted, McpServerAuthorized):
        await service.hear(changed, ports.sessions.changed_somewhere)
    await service.hear(ToolRunStopped, engine.runs.cancelled_somewhere)
    engine.runs.join(service)
    discoveries.join(service)
    service.sweepers.append(engine.declared_servers.apply)
    runtime.closing.push_async_callback(ports.sessions.close)
    for work in (engine.listings, discoveries, engine.runs):
        runtime.closing.push_async_callback(work.drain)
    return engine


def tool_runs(
    runtime: Runtime, settings: Settings, adapters: Adapters, discoveries: McpDiscoveries
) -> ToolRuns:
    """The calls of tools, with what carries out each type of them."""
    bus, clock = runtime.bus, runtime.clock
    sandbox, policies = adapters.sandbox, adapters.policies
    agents = AgentStates(
        PostgresAgentStates(runtime.database), bus, runtime.clock, lambda: policies.value
    )
    sampling = McpSampling(
        SamplingPorts(
            **runtime.port_arguments,
            tokens_max=settings.sandbox.sampling_tokens,
        )
    )
    runners: ToolRunners = {
        ToolType.custom: CustomToolRunner(sandbox, adapters.variables, adapters.packages, agents),
        ToolType.letta_builtin: built_in(runtime, settings, adapters),
        ToolType.external_mcp: McpRunner(discoveries, sampling),
    }
    return ToolRuns(
        ToolRunPorts(
            **runtime.port_arguments,
            runners=observe_runners(runners, clock),
            queries=adapters.tool_runs,
        )
    )


def built_in(runtime: Runtime, settings: Settings, adapters: Adapters) -> BuiltinRunner:
    """The runner of the tools that come with the server."""
    sandbox, sessions, clock = adapters.sandbox, adapters.sessions, runtime.clock
    inner = InnerCallPorts(bus=runtime.bus, queries=adapters.tool_runs, clock=clock)
    seconds_max = settings.sandbox.run_code_seconds
    files = FileTool(sessions)
    return BuiltinRunner(
        {
            "run_code": RunCodeTool(sandbox, seconds_max=seconds_max),
            CALLS_TOOLS: RunCodeWithToolsTool(sandbox, inner),
            "fetch_webpage": FetchWebpageTool(WebPages(settings.sandbox.pages), clock),
            "web_search": WebSearchTool(WebSearches(settings.search), adapters.variables, clock),
            "shell": ShellTool(sessions),
            **dict.fromkeys(FILE_TOOLS, files),
        }
    )


def handlers(
    runtime: Runtime, adapters: Adapters, engine: Engine
) -> Mapping[type[Command], Handler]:
    """The handler of each command."""
    clock, database, policies = runtime.clock, runtime.database, adapters.policies
    permissions = PostgresToolPermissionCounts(database)
    return {
        **ToolHandlers(clock, PostgresToolCounts(database), runtime.service.locks).table(),
        **ToolRunHandlers(engine.runs, clock, lambda: policies.value).table(),
        **ToolPermissionHandlers(permissions, clock).table(),
        **SandboxConfigHandlers(clock).table(),
        **McpServerHandlers(engine.discoveries, engine.listings, clock).table(),
    }


async def apply_policies(runtime: Runtime, adapters: Adapters) -> None:
    """Clear away what belonged to agents that were deleted."""
    deleted, service = adapters.deleted_agents, runtime.service
    workspaces = WorkspaceCleanup(
        adapters.workspaces.present, adapters.sessions.remove, deleted, runtime.clock
    )
    permissions = PermissionCleanup(
        CleanupPorts(
            **runtime.port_arguments,
            policies=adapters.policies,
            deleted=deleted,
        )
    )
    tool_runs = ToolRunCleanup(ProcessPorts(**runtime.port_arguments), adapters.tool_runs)
    await service.hear(AgentDeleted, workspaces.look_at_all)  # each machine has its own
    for cleanup in (permissions, tool_runs):
        await cleanup.follow(service, AgentDeleted)
    service.sweepers += [workspaces.sweep, permissions.sweep, tool_runs.sweep]
