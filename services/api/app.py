"""The wiring of the api."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, cast

import uvicorn
from litestar import Litestar, Request, Response
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.types import ASGIApp

from libs.bus.background import forever
from libs.bus.garbage_collection import freeze_what_is_loaded
from libs.bus.nats import NatsBus
from libs.bus.reports import Reporter, Reports
from libs.bus.settings import ServiceSettings
from libs.bus.system import RandomIds, SystemClock
from libs.bus.vitals import connections
from libs.contracts.streams import SERVICES
from libs.contracts.version import HEELER_VERSION
from libs.eventstore.database import Database, open_pool
from libs.telemetry.metrics import SERVICE_INFO
from libs.telemetry.settings import traced
from libs.telemetry.tracing import tracer
from services.api.adapters.first_tries import FirstTries
from services.api.adapters.health import Health
from services.api.adapters.reads import Reads, UnknownCursor
from services.api.adapters.runs import RunInbox
from services.api.http import (
    agents,
    blocks,
    dead_letters,
    health,
    messages,
    metrics,
    openapi,
    runs,
    streams,
)
from services.api.http.concurrency_limits import ConcurrencyLimits
from services.api.http.connection_limits import ConnectionLimits, room_for_connections
from services.api.http.guard import check, guard
from services.api.http.limited_http import KEEP_ALIVE_SECONDS, LimitedHttp
from services.api.http.observed import Observed
from services.api.http.password_limits import PasswordLimits
from services.api.http.problems import BODY_BYTES_MAX, Problem, on_exception
from services.api.http.shared import Api, unknown_cursor
from services.api.settings import ApiSettings

GRACEFUL_SECONDS_MAX = 5

HANDLERS = [
    agents.create_agent,
    agents.list_agents,
    agents.count_agents,
    agents.retrieve_agent,
    agents.update_agent,
    agents.delete_agent,
    agents.list_agent_tools,
    agents.retrieve_memory,
    agents.list_agent_blocks,
    agents.retrieve_agent_block,
    agents.update_agent_block,
    agents.attach_block,
    agents.detach_block,
    blocks.create_block,
    blocks.list_blocks,
    blocks.count_blocks,
    blocks.retrieve_block,
    blocks.update_block,
    blocks.delete_block,
    blocks.list_agents_of_block,
    dead_letters.list_dead_letters,
    dead_letters.retrieve_dead_letter,
    dead_letters.replay_dead_letter,
    dead_letters.discard_dead_letter,
    health.health,
    health.livez,
    messages.list_messages,
    messages.send_message,
    messages.stream_message,
    metrics.metrics,
    messages.send_message_async,
    messages.cancel_runs,
    openapi.asyncapi_document,
    openapi.openapi_document,
    openapi.openapi_page,
    openapi.openapi_asset,
    runs.list_runs,
    runs.list_active_runs,
    runs.retrieve_run,
    runs.retrieve_usage,
    streams.resume_stream,
    runs.list_models,
    runs.list_embedding_models,
]


def on_no_route(request: Request, exception: Exception) -> Response[bytes]:  # type: ignore[type-arg]
    """A path that is not served; guards stand only before those that are."""
    try:
        check(request)
    except Problem as problem:
        return on_exception(request, problem)
    return on_exception(request, exception)


def application(settings: ApiSettings, services: ServiceSettings) -> Litestar:
    """The ASGI application; it opens its adapters when it starts."""
    clock = SystemClock()

    @asynccontextmanager
    async def adapters(app: Litestar) -> AsyncIterator[None]:
        ids = RandomIds()
        pool = open_pool(services.database_url, connections_max=services.connections_max)
        await pool.open()
        bus = NatsBus(services.nats_url, ids.new("api"))
        await bus.start()
        database = Database(pool)
        inbox = RunInbox(bus, ids)
        await inbox.open()
        app.state.api = Api(Reads(database), bus, clock, ids, inbox, FirstTries())
        app.state.health = Health(database, bus, clock, ids)
        app.state.reports = Reports(clock)
        await app.state.reports.listen(bus.client)

        async def look() -> None:
            connections("api", database)

        SERVICE_INFO.labels("api", HEELER_VERSION).set(1)
        reporter = Reporter(bus.client, look, clock)
        looking = asyncio.create_task(forever("api health", app.state.health.turn, clock))
        asking = [
            asyncio.create_task(
                forever(f"api asks {name}", partial(app.state.health.ask, name), clock)
            )
            for name in SERVICES
        ]
        reporting = asyncio.create_task(forever("api metrics", reporter.turn, clock))
        freeze_what_is_loaded()
        try:
            yield
        finally:
            looking.cancel()
            for question in asking:
                question.cancel()
            reporting.cancel()
            await bus.stop()
            await pool.close()

    @asynccontextmanager
    async def spans(app: Litestar) -> AsyncIterator[None]:
        with traced("api"):
            app.state.tracer = tracer()
            yield

    app = Observed(
        HANDLERS,
        lifespan=[spans, adapters],
        guards=[guard],
        exception_handlers={
            UnknownCursor: lambda request, problem: on_exception(request, unknown_cursor(problem)),
            NotFoundException: on_no_route,
            MethodNotAllowedException: on_no_route,
            Exception: on_exception,
        },
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
    )
    app.state.clock = clock
    app.state.password = settings.password
    app.state.password_limits = PasswordLimits()
    app.state.concurrency_limits = ConcurrencyLimits()
    app.state.ping_seconds = settings.ping_seconds
    app.state.handlers = HANDLERS
    app.state.stopping = asyncio.Event()
    return app


class Server(uvicorn.Server):
    """Leaves the signals to the process, which may have more to do than serve HTTP."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def http_server(app: ASGIApp, settings: ApiSettings, limits: ConnectionLimits) -> Server:
    """What speaks HTTP for the application, and bounds what clients may cost."""
    config = uvicorn.Config(
        cast(Any, app),
        host=settings.host,
        port=settings.port,
        http=cast(type[asyncio.Protocol], partial(LimitedHttp, limits=limits)),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS_MAX,
    )
    return Server(config)


async def serve(settings: ApiSettings, services: ServiceSettings, stop: asyncio.Event) -> None:
    """Serve until told to stop, then tell open streams to end: uvicorn waits for them."""
    app = application(settings, services)
    limits = ConnectionLimits(room_for_connections(settings.connections_max))
    server = http_server(app, settings, limits)
    shared = settings.listen_descriptor
    sockets = None if shared is None else [socket.socket(fileno=shared)]
    sweeping = asyncio.create_task(forever("connection limits", limits.turn, SystemClock()))
    serving = asyncio.create_task(server.serve(sockets))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        app.state.stopping.set()
        server.should_exit = True
        await serving
        sweeping.cancel()
