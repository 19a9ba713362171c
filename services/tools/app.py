"""The wiring of the tools service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from libs.bus.ports import Clock
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.mcp_authorizations import McpServerAuthorized
from libs.contracts.tools.mcp_servers import McpServerChanged, McpServerDeleted
from libs.contracts.tools.tool_permission_evaluation import (
    POLICIES,
    POLICIES_FINGERPRINT,
    POLICIES_SOURCE,
    CompiledList,
    policies_of,
    system_list,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tool_runs import CALLS_TOOLS, ToolRunStopped
from libs.encryption.sealer import Sealer
from libs.eventstore.sql_view_cache import CachedView, PostgresView
from services.tools.adapters.agent_sandbox_sessions import AgentSandboxSessions
from services.tools.adapters.agent_state_queries import PostgresAgentStates
from services.tools.adapters.agent_workspaces import AgentWorkspaces
from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.adapters.container_sandbox import ContainerSandbox
from services.tools.adapters.deleted_agent_queries import PostgresDeletedAgents
from services.tools.adapters.mcp.connections import SdkConnections
from services.tools.adapters.mcp.ports import McpConnections
from services.tools.adapters.mcp_server_queries import PostgresMcpServerQueries
from services.tools.adapters.mcp_servers_file import McpDeclarations, declarations
from services.tools.adapters.package_folders import PackageFolders
from services.tools.adapters.package_installer import PipInstaller
from services.tools.adapters.package_settings import PackageSettings
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.adapters.sandbox_config_queries import PostgresSandboxConfigQueries
from services.tools.adapters.sandbox_gauges import SandboxGauges
from services.tools.adapters.tool_counts import PostgresToolCounts
from services.tools.adapters.tool_permission_counts import PostgresToolPermissionCounts
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
from services.tools.engine.package_environments import NoPackages, PackageEnvironments
from services.tools.engine.permission_cleanup import CleanupPorts, PermissionCleanup
from services.tools.engine.run_code import RunCodeTool
from services.tools.engine.run_code_with_tools import RunCodeWithToolsTool
from services.tools.engine.tool_runner_telemetry import observed
from services.tools.engine.tool_runs import ToolRunPorts, ToolRuns
from services.tools.engine.web_builtins import FetchWebpageTool, WebSearchTool
from services.tools.engine.workspace_builtins import FILE_TOOLS, FileTool, ShellTool
from services.tools.engine.workspace_cleanup import WorkspaceCleanup
from services.tools.handlers.mcp_servers import McpServerHandlers
from services.tools.handlers.sandbox_configs import SandboxConfigHandlers
from services.tools.handlers.tool_permissions import ToolPermissionHandlers
from services.tools.handlers.tool_runs import ToolRunHandlers
from services.tools.handlers.tools import ToolHandlers
from services.tools.settings import CONTAINER, ToolsSettings


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the sandbox that the environment wants. Raises WrongSetting."""
    return partial(
        wire,
        settings=ToolsSettings.from_environment(environment),
        packages=PackageSettings.from_environment(environment),
        search=SearchSettings.from_environment(environment),
        sealer=Sealer.from_environment(environment),
        allowed=system_list(environment),
        connect=partial(SdkConnections.from_environment, environment),
        declared=declarations(environment),
    )


async def wire(
    runtime: Runtime,
    *,
    settings: ToolsSettings,
    packages: PackageSettings,
    search: SearchSettings,
    sealer: Sealer,
    allowed: CompiledList,
    connect: Callable[[Clock, ProcessSandbox | None], McpConnections],
    declared: McpDeclarations,
) -> Callable[[], Awaitable[None]]:
    """Say what the tools service answers and sweeps; returns what drains it."""
    service, bus, clock = runtime.service, runtime.bus, runtime.clock
    workspaces = AgentWorkspaces(settings.workspaces)
    workspaces.prepare()
    folders = PackageFolders(packages.folder, packages.bytes_max)
    folders.prepare()
    sandbox = sandbox_of(settings, workspaces=workspaces.root, packages=folders.root)
    installer = PipInstaller(packages.index)
    environments = PackageEnvironments(folders, installer, packages.rules, clock)
    await folders.remove_abandoned()
    sessions = AgentSandboxSessions(sandbox, workspaces, sandbox.places)
    await sandbox.start()
    workspaces.own_users = sandbox.has_own_users
    has_packages = NoPackages(sandbox.no_packages) if sandbox.no_packages else environments
    variables = Variables(sealer, PostgresSandboxConfigQueries(runtime.database))
    queries = PostgresToolRunQueries(runtime.database)
    permissions = PostgresToolPermissionCounts(runtime.database)
    view = PostgresView(
        runtime.database,
        source=POLICIES_SOURCE,
        rows=POLICIES,
        fingerprint=POLICIES_FINGERPRINT,
    )
    policies = CachedView(view, partial(policies_of, allowed))
    states = PostgresAgentStates(runtime.database)
    agents = AgentStates(states, bus, lambda: policies.value)
    builtins = built_in(
        sandbox,
        sessions,
        run_code_seconds=settings.run_code_seconds,
        inner=InnerCallPorts(bus=bus, queries=queries, clock=clock),
        pages=FetchWebpageTool(WebPages(settings.pages), clock),
        search=WebSearchTool(WebSearches(search), variables, clock),
    )
    programs = sandbox if isinstance(sandbox, ProcessSandbox) else None
    mcp = McpServers(runtime, sealer, connect(clock, programs), declared)
    sampling = McpSampling(
        SamplingPorts(
            repository=service.repository,
            bus=bus,
            clock=clock,
            ids=runtime.ids,
            committed=service.relay.notification.notify,
            tokens_max=settings.sampling_tokens,
        )
    )
    runs = ToolRuns(
        ToolRunPorts(
            repository=service.repository,
            runners=observed(
                {
                    ToolType.custom: CustomToolRunner(
                        sandbox, sandbox.refused, variables, has_packages, agents
                    ),
                    ToolType.letta_builtin: builtins,
                    ToolType.external_mcp: McpRunner(mcp.discoveries, sampling),
                },
                clock,
            ),
            queries=queries,
            bus=bus,
            clock=clock,
            ids=runtime.ids,
            locks=service.locks,
            committed=service.relay.notification.notify,
        )
    )
    await policies.look()
    await service.handle(
        {
            **ToolHandlers(clock, PostgresToolCounts(runtime.database), service.locks).table(),
            **ToolRunHandlers(runs, clock, lambda: policies.value).table(),
            **ToolPermissionHandlers(permissions, clock).table(),
            **SandboxConfigHandlers(clock).table(),
            **mcp.handlers.table(),
        }
    )
    await mcp.listen()
    await bus.hear_events("tools", ToolPermissionsChanged.topic, policies.changed)
    await bus.hear_events("tools", ToolRunStopped.topic, runs.cancelled_somewhere)
    runs.join(service)
    service.sweepers.append(policies.look)
    deleted = PostgresDeletedAgents(runtime.database)
    cleanup = WorkspaceCleanup(workspaces.present, sessions.remove, deleted, clock)
    await bus.hear_events("agent", AgentDeleted.topic, cleanup.agent_deleted)
    lists = PermissionCleanup(
        CleanupPorts(
            policies=policies,
            deleted=deleted,
            repository=service.repository,
            clock=clock,
            ids=runtime.ids,
            committed=service.relay.notification.notify,
        )
    )
    await bus.hear_events("agent", AgentDeleted.topic, lists.agent_deleted)
    service.sweepers += [cleanup.sweep, lists.sweep]
    service.looks.append(SandboxGauges(sandbox, sessions).look)

    async def drain() -> None:
        await runs.drain()
        await environments.drain()
        await mcp.drain()
        await sessions.close()
        await sandbox.close()

    return drain


def sandbox_of(settings: ToolsSettings, *, workspaces: str, packages: str) -> BaseSandbox:
    """The sandbox that the operator has chosen."""
    if settings.sandbox == CONTAINER:
        return ContainerSandbox(settings.image, settings.network)
    return ProcessSandbox(settings.sandbox, workspaces=workspaces, packages=packages)


def built_in(
    sandbox: BaseSandbox,
    sessions: AgentSandboxSessions,
    *,
    run_code_seconds: float,
    inner: InnerCallPorts,
    pages: FetchWebpageTool,
    search: WebSearchTool,
) -> BuiltinRunner:
    """What carries out the tools that come with the server."""
    files = FileTool(sessions, sessions.refused)
    return BuiltinRunner(
        {
            "run_code": RunCodeTool(sandbox, sandbox.refused, seconds_max=run_code_seconds),
            CALLS_TOOLS: RunCodeWithToolsTool(sandbox, inner),
            "fetch_webpage": pages,
            "web_search": search,
            "shell": ShellTool(sessions, sessions.refused),
            **dict.fromkeys(FILE_TOOLS, files),
        }
    )


class McpServers:
    """What a process does for MCP servers."""

    def __init__(
        self,
        runtime: Runtime,
        sealer: Sealer,
        connections: McpConnections,
        declared: McpDeclarations,
    ) -> None:
        self.runtime = runtime
        queries = PostgresMcpServerQueries(runtime.database)
        self.ports = McpPorts(
            repository=runtime.service.repository,
            sessions=McpSessions(connections, queries),
            sealer=sealer,
            queries=queries,
            bus=runtime.bus,
            clock=runtime.clock,
            ids=runtime.ids,
            committed=runtime.service.relay.notification.notify,
            locks=runtime.service.locks,
        )
        authorizations = McpAuthorizations(self.ports)
        connections.keep_renewed(authorizations.renewed)
        self.discoveries = McpDiscoveries(self.ports)
        self.listings = McpListings(self.ports, authorizations)
        self.handlers = McpServerHandlers(self.discoveries, self.listings, runtime.clock)
        self.declared = DeclaredMcpServers(self.ports, declared)

    async def listen(self) -> None:
        """Sweep, and hear of servers that are changed elsewhere."""
        for changed in (McpServerChanged, McpServerDeleted, McpServerAuthorized):
            await self.runtime.bus.hear_events(
                "tools", changed.topic, self.ports.sessions.changed_somewhere
            )
        self.runtime.service.sweepers.append(self.declared.apply)
        self.discoveries.join(self.runtime.service)

    async def drain(self) -> None:
        """End what goes on, and all sessions."""
        await self.discoveries.drain()
        await self.listings.drain()
        await self.ports.sessions.close()
