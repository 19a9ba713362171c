"""The wiring of the api."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from litestar import Litestar, Response, Router
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from libs.bus.background_loops import forever
from libs.bus.fair_semaphore import NoPlace
from libs.bus.metrics_collection import Reports
from libs.bus.moments import serve_moments
from libs.bus.ports import Clock
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.api.configurations import ConfigurationDeleted
from libs.contracts.api.deployments import DeploymentCompleted, DeploymentEnded, MigrationEnded
from libs.contracts.api.fleets import FleetDeleted
from libs.contracts.api.identities import IdentityDeleted
from libs.contracts.api.imports import ImportForgotten
from libs.contracts.api.projects import ProjectDeleted, ProjectEmptied
from libs.contracts.api.templates import TemplateDeleted
from libs.contracts.service_registry import names
from libs.encryption.sealer import Sealer
from libs.eventstore.read_model_replay import ReadModels
from libs.telemetry.tracing import tracer
from libs.work.leased_work import LeasedWork
from services.api import resources
from services.api.adapters.agents.agent_lines import AgentLines
from services.api.adapters.agents.attachment_queries import AttachmentQueries
from services.api.adapters.agents.awaited_forks import AwaitedForks
from services.api.adapters.agents.configuration_queries import ConfigurationQueries
from services.api.adapters.agents.fleet_queries import SWEEP_SECONDS, FleetQueries
from services.api.adapters.agents.import_queries import ImportQueries
from services.api.adapters.agents.import_sources import ImportSources
from services.api.adapters.agents.moment_aggregates import ApiMomentAggregates
from services.api.adapters.agents.past_reads import PastReads
from services.api.adapters.agents.project_queries import ProjectQueries
from services.api.adapters.agents.restore_queries import RestoreQueries
from services.api.adapters.agents.tag_queries import TagQueries
from services.api.adapters.agents.uploaded_lines import UploadedParts
from services.api.adapters.conversations.context_message_queries import ContextMessageQueries
from services.api.adapters.conversations.conversation_run_queries import ConversationRunQueries
from services.api.adapters.conversations.identical_request_runs import IdenticalRequestRuns
from services.api.adapters.conversations.message_queries import MessageQueries
from services.api.adapters.conversations.message_search_queries import MessageSearchQueries
from services.api.adapters.conversations.run_follower import RunInbox
from services.api.adapters.conversations.run_follower_queries import RunQueries
from services.api.adapters.groups.sleeptime_queries import SleeptimeQueries
from services.api.adapters.memory.block_history_queries import BlockHistoryQueries
from services.api.adapters.memory.folder_queries import FolderQueries
from services.api.adapters.memory.uploaded_file_store import UploadLimits, Uploads
from services.api.adapters.resource_query_builder import ResourceQueries, UnknownCursor
from services.api.adapters.server.mcp_endpoint_protocol import McpEndpoint
from services.api.adapters.server.service_health import Health
from services.api.adapters.server.supervisor import Supervisor
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.engine.deployments import DeploymentPorts, Deployments
from services.api.engine.fleet_api import FleetApi
from services.api.engine.fleet_applies import FleetApplies, FleetPorts
from services.api.engine.import_ports import ImportPorts
from services.api.engine.imports import Imports
from services.api.engine.restores import RestorePorts, Restores
from services.api.handlers import Handlers
from services.api.handlers.ports import HandlerPorts
from services.api.http.authentication import check, cors_config
from services.api.http.callers import Authenticator, Caller, SingleOrganisation
from services.api.http.connection_limits import ConnectionLimits, room_for_connections
from services.api.http.direct_handler_calls import call_directly
from services.api.http.error_responses import BODY_BYTES_MAX, Problem, on_exception
from services.api.http.export_places import ExportPlaces
from services.api.http.handler_dependencies import Api
from services.api.http.http_server import http_server
from services.api.http.internal_requests import InternalRequests
from services.api.http.password_attempt_limits import PasswordAttemptLimits
from services.api.http.per_path_concurrency_limits import ConcurrencyLimits, no_place
from services.api.http.request_admission import admit
from services.api.http.request_parsing import AnyRequest
from services.api.http.request_telemetry import TracedLitestar
from services.api.http.text_work import TextWorks
from services.api.policies.deleted_projects import ClearDeletedProjects
from services.api.policies.ends_with_agents import (
    DeleteConfigurations,
    EndEmptyDeployments,
    ForgetImports,
)
from services.api.projections import READ_MODELS, project
from services.api.resources.server.mcp_endpoint_tools import TOOLS, McpClient
from services.api.settings import ApiSettings
from services.api.v1.agent_file_source import AgentFileSource, file_processes
from services.api.v1.read_model_responses import unknown_cursor


def route_handlers(*packages: ModuleType) -> list[HTTPRouteHandler]:
    """The route handlers that the modules in these packages define."""
    found: list[HTTPRouteHandler] = []
    for package in packages:
        for info in walk_packages(package.__path__, f"{package.__name__}."):
            module = import_module(info.name)
            found += [
                handler
                for handler in vars(module).values()
                if isinstance(handler, HTTPRouteHandler) and handler.fn.__module__ == info.name
            ]
    return found


HANDLERS = [call_directly(handler) for handler in route_handlers(resources)]


def on_no_route(request: AnyRequest, exception: Exception) -> Response[bytes]:
    """A path that is not served: what lets requests in stands only before those that are."""
    try:
        check(request)
    except Problem as problem:
        return on_exception(request, problem)
    return on_exception(request, exception)


def what_handlers_use(settings: ApiSettings, runtime: Runtime, sealer: Sealer) -> Api:
    """The state of the route handlers, on the adapters of this process."""
    database, bus, clock, ids = runtime.database, runtime.bus, runtime.clock, runtime.ids
    return Api(
        reads=ResourceQueries(database),
        messages=MessageQueries(database),
        context=ContextMessageQueries(database),
        runs=RunQueries(database),
        conversation_runs=ConversationRunQueries(database),
        bus=bus,
        clock=clock,
        ids=ids,
        inbox=RunInbox(bus, ids),
        identical_request_runs=IdenticalRequestRuns(),
        search=MessageSearchQueries(database),
        tags=TagQueries(database),
        sealer=sealer,
        block_history=BlockHistoryQueries(database),
        folders=FolderQueries(database),
        uploads=Uploads(database, upload_limits(settings)),
        past=PastReads(database, bus, clock, ids),
        agent_lines=AgentLines(database),
        exports=ExportPlaces(),
        fleets=FleetQueries(database, sealer),
        awaited_forks=AwaitedForks(),
        defaults=settings.defaults,
        text_works=TextWorks(),
    )


def application(
    settings: ApiSettings, runtime: Runtime, sealer: Sealer, authenticator: Authenticator
) -> Litestar:
    """The ASGI application on the adapters of this process. Serve it when the bus has started."""
    database, bus, clock, ids = runtime.database, runtime.bus, runtime.clock, runtime.ids
    app = TracedLitestar(
        # As one: the app checks all that it has with each that it is given.
        [Router("/", route_handlers=HANDLERS)],
        before_request=admit,
        cors_config=cors_config(settings.cors_origins),
        exception_handlers={
            UnknownCursor: lambda request, problem: on_exception(request, unknown_cursor(problem)),
            NoPlace: lambda request, problem: on_exception(request, no_place(problem)),
            NotFoundException: on_no_route,
            MethodNotAllowedException: on_no_route,
            Exception: on_exception,
        },
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
    )
    app.state.api = what_handlers_use(settings, runtime, sealer)
    app.state.health = Health(database, bus, clock, ids)
    app.state.reports = Reports(clock)
    app.state.clock = clock
    app.state.password = settings.password
    app.state.authenticator = authenticator
    app.state.password_limits = PasswordAttemptLimits()
    app.state.concurrency_limits = ConcurrencyLimits()
    app.state.supervisor = Supervisor(settings.configuration_state)
    app.state.ping_seconds = settings.ping_seconds
    app.state.handlers = HANDLERS
    app.state.mcp_endpoint = McpEndpoint(
        TOOLS, lambda scope: McpClient(InternalRequests(app, scope), clock)
    )
    app.state.stopping = asyncio.Event()
    return app


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring at the address that the environment names, with its keys. Raises WrongSetting."""
    return partial(
        wire,
        settings=ApiSettings.from_environment(environment),
        sealer=Sealer.from_environment(environment),
        authenticator=SingleOrganisation(),
    )


async def apply_policies(runtime: Runtime, projects: ProjectQueries) -> None:
    """Have the policies look when a project is deleted, and now and then; erase what ended."""
    clear = ClearDeletedProjects(
        runtime.bus, projects, SleeptimeQueries(runtime.database), runtime.clock, runtime.ids
    )
    await runtime.service.hear(ProjectDeleted, clear.look_at_all)
    templates = TemplateQueries(runtime.database)
    empty = EndEmptyDeployments(runtime.bus, templates, runtime.clock, runtime.ids)
    lost = DeleteConfigurations(
        runtime.bus, ConfigurationQueries(runtime.database), runtime.clock, runtime.ids
    )
    past = ForgetImports(
        runtime.bus,
        ImportQueries(runtime.database),
        runtime.clock,
        runtime.ids,
        runtime.erase_after_seconds,
    )
    await empty.follow(runtime.service, AgentDeleted)
    await past.follow(runtime.service, AgentDeleted)
    await empty.follow(runtime.service, DeploymentCompleted, MigrationEnded)
    await lost.follow(runtime.service, AgentDeleted)
    runtime.service.sweepers += [clear.sweep, empty.sweep, lost.sweep, past.sweep]
    runtime.erase_what_ended(
        *(IdentityDeleted, ProjectDeleted, ProjectEmptied, TemplateDeleted, DeploymentEnded),
        *(ConfigurationDeleted, FleetDeleted, ImportForgotten),
    )


def begin_work[W: LeasedWork[Any]](runtime: Runtime, work: W) -> W:
    """Leased work that is swept and drained with the process."""
    work.join(runtime.service)
    runtime.closing.push_async_callback(work.drain)
    return work


def start_deployments(runtime: Runtime) -> Deployments:
    """Make the agents that are wanted from templates, as long as the process runs."""
    queries = TemplateQueries(runtime.database)
    deployments = Deployments(DeploymentPorts(**runtime.port_arguments, queries=queries))
    return begin_work(runtime, deployments)


def upload_limits(settings: ApiSettings) -> UploadLimits:
    """The limits on uploads, by the settings."""
    return UploadLimits(settings.file_bytes_max, settings.files_bytes_max)


def start_imports(runtime: Runtime, sealer: Sealer, limits: UploadLimits) -> Imports:
    """The imports that this process makes, swept and drained with it."""
    uploads, queries = UploadedParts(runtime.database), ImportQueries(runtime.database)
    processes = file_processes()
    runtime.closing.callback(processes.close)
    files = AgentFileSource(uploads, queries, processes)
    sources = ImportSources(uploads, AgentLines(runtime.database), files.lines)
    imports = Imports(
        ImportPorts(
            **runtime.port_arguments,
            queries=queries,
            sources=sources,
            sealer=sealer,
            uploads=Uploads(runtime.database, limits),
        )
    )
    return begin_work(runtime, imports)


def start_restores(runtime: Runtime) -> Restores:
    """The restores of agents that this process makes, swept and drained with it."""
    past = PastReads(runtime.database, runtime.bus, runtime.clock, runtime.ids)
    queries = RestoreQueries(runtime.database)
    restores = Restores(RestorePorts(**runtime.port_arguments, queries=queries, past=past))
    return begin_work(runtime, restores)


def start_fleets(runtime: Runtime, sealer: Sealer, app: ASGIApp) -> FleetApplies:
    """The applies of fleets that this process makes, swept and drained with it."""

    def own_api(org: str, actor: str) -> FleetApi:
        from services.api.http.own_api import OwnApi  # with the first plan

        return OwnApi(app, Caller(org, actor))

    applies = FleetApplies(
        FleetPorts(
            **runtime.port_arguments,
            queries=FleetQueries(runtime.database, sealer),
            api=own_api,
        )
    )
    return begin_work(runtime, applies)


async def sweep_plans(plans: FleetQueries, clock: Clock) -> None:
    """Remove the plans of fleets that nobody needs any more, now and then."""
    await clock.sleep(SWEEP_SECONDS)
    await plans.sweep()


def command_handlers(
    runtime: Runtime,
    settings: ApiSettings,
    sealer: Sealer,
    app: ASGIApp,
    projects: ProjectQueries,
) -> Handlers:
    """The handlers of the commands to the api, with the work that they begin."""
    ports = HandlerPorts(
        clock=runtime.clock,
        attachments=AttachmentQueries(runtime.database),
        projects=projects,
        templates=TemplateQueries(runtime.database),
        deployments=start_deployments(runtime),
    )
    return Handlers(
        ports,
        start_imports(runtime, sealer, upload_limits(settings)),
        start_restores(runtime),
        start_fleets(runtime, sealer, app),
    )


async def wire(
    runtime: Runtime,
    *,
    settings: ApiSettings,
    sealer: Sealer,
    authenticator: Authenticator,
) -> None:
    """Serve HTTP as long as the process runs."""
    projects = ProjectQueries(runtime.database)
    app = application(settings, runtime, sealer, authenticator)
    handlers = command_handlers(runtime, settings, sealer, app, projects)
    models = ReadModels("api", project, READ_MODELS)
    moments = serve_moments(runtime, models, ApiMomentAggregates(runtime.database))
    await runtime.service.handle({**handlers.table(), **moments})
    await apply_policies(runtime, projects)
    limits = ConnectionLimits(room_for_connections(settings.connections_max))
    server = http_server(app, settings, limits)
    shared = settings.listen_descriptor
    sockets = None if shared is None else [socket.socket(fileno=shared)]
    clock, health = runtime.clock, app.state.health
    serving: list[asyncio.Task[None]] = []  # none where the start failed before
    loops: list[asyncio.Task[None]] = []

    async def begin() -> None:
        """Hear what runs publish and what is counted, look after everybody's health, serve."""
        app.state.tracer = tracer()
        await app.state.api.inbox.open()
        await app.state.reports.listen(runtime.bus.client)
        turns = {"health": health.turn, "connection limits": limits.turn}
        turns["uploads"] = app.state.api.uploads.turn_of_sweep
        turns["plans of fleets"] = partial(sweep_plans, app.state.api.fleets, clock)
        turns["asks to store"] = health.ask_to_store
        turns |= {f"asks {name}": partial(health.ask, name) for name in names()}
        for name, turn in turns.items():
            loops.append(asyncio.create_task(forever(f"api {name}", turn, clock)))
        serving.append(asyncio.create_task(server.serve(sockets)))
        serving[0].add_done_callback(lambda _: runtime.ended.set())

    async def drain() -> None:
        """Tell open streams to end, for uvicorn waits for them; then stop looking after others."""
        app.state.stopping.set()
        server.end()
        await asyncio.gather(*serving)
        await app.state.mcp_endpoint.close()
        app.state.api.text_works.close()
        for loop in loops:
            loop.cancel()

    runtime.begin.append(begin)
    runtime.closing.push_async_callback(drain)
