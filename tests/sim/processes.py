"""The service processes of the simulated world: the real wiring, with simulated adapters."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from libs.bus import bounded_command_queue
from libs.bus.background_loops import forever
from libs.bus.service_host import Service
from libs.bus.service_runner import Runtime, holder_of, take_over
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.all_request_bodies import LettaStreamingRequest
from libs.eventstore import failpoints, moments
from libs.eventstore import unit_of_work as eventstore_work
from libs.eventstore.read_model_replay import ReadModels
from libs.eventstore.unit_of_work import Repository
from services.agent import app as agent_app
from services.agent import projections as agent_projections
from services.agent.adapters.tool_router import ToolRouter
from services.agent.domain.agents.agent import AgentDesign
from services.api.adapters.conversations.identical_request_runs import IdenticalRequestRuns
from services.api.adapters.conversations.run_follower import RunInbox
from services.api.adapters.memory.uploaded_file_store import UploadLimits, Uploads
from services.api.http.callers import CALLER, THE_ONLY_CALLER
from services.api.http.error_responses import as_problem
from services.api.http.handler_dependencies import Api
from services.api.http.request_parsing import body_of
from services.api.resources.conversations.agent_messages import send_message, whole_answer
from services.api.resources.conversations.runs import resume_stream
from services.api.resources.memory.folder_files import upload_file
from services.api.settings import CreationDefaults
from services.api.v1.message_request import Addressee, address
from services.groups import projections as groups_projections
from services.memory import app as memory_app
from services.memory import projections as memory_projections
from services.scheduler import app as scheduler_app
from services.scheduler import projections as scheduler_projections
from services.tools import projections as tools_projections
from tests.sim import groups, schedules, tools
from tests.sim.bus import Broker, SimBus
from tests.sim.files import SMALL, SimEmbedders, SimParser, SimReads
from tests.sim.loop import OWNER, Lane, Surprise, VirtualLoop
from tests.sim.model import KEEP, SimMemoryTools, SimProvider
from tests.sim.network import FAULTS, Network
from tests.sim.plan import APPROVAL_SECONDS_MAX
from tests.sim.reads import (
    SimArchiveQueries,
    SimDatabase,
    SimFolderQueries,
    SimHolders,
    SimMessageVectors,
    SimPassageSearch,
    SimQueries,
    SimRunQueries,
    SimScheduleQueries,
    SimView,
)
from tests.sim.store import Client, Server, SimStore
from tests.unit.given import NOW
from tests.unit.scheduler.in_memory_queries import NoAgentTools

RESTART_SECONDS = 1.0


class SimClock:
    """A process's own clock, which may be wrong; what it measures with is not."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.skew = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.loop.now + self.skew)

    def monotonic(self) -> float:
        return self.loop.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimIds:
    """Ids that follow from who asks, and how often before."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.count = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return derived_id(prefix, self.holder, str(self.count))


@dataclass(slots=True)
class Shared:
    """What all processes are connected to, and who watches the model."""

    loop: VirtualLoop
    network: Network
    server: Server
    broker: Broker
    asked: Callable[[str, int, str], int]
    skews: dict[str, float] = field(default_factory=dict)
    running: dict[str, Process] = field(default_factory=dict)
    begun: int = 0
    supervised: bool = False


class Process:
    """One process from its start to its death."""

    def __init__(self, shared: Shared, name: str) -> None:
        shared.begun += 1
        self.shared = shared
        self.name = name
        self.kind = name.rpartition("-")[0]
        own = f"{name}#{shared.begun}"
        self.holder = holder_of(name, own) if shared.supervised else own
        self.lane = Lane(shared.loop, self.holder)
        self.clock = SimClock(shared.loop)
        self.clock.skew = shared.skews.get(name, 0.0)
        self.ids = SimIds(self.holder)
        self.bus = SimBus(shared.broker, name, self.lane)
        self.inbox = RunInbox(self.bus, self.ids)
        self.identical_request_runs = IdenticalRequestRuns()
        self.client = Client(shared.server, name, self.lane)
        database: Any = SimDatabase(self.client)
        self.uploads = Uploads(database, UploadLimits(1 << 20, 1 << 30))
        self.provider = SimProvider(self.holder, self.lane, shared.asked)
        self.service: Service | None = None
        self.runtime: Runtime | None = None
        self.requests: set[asyncio.Future[Any]] = set()
        self.readers: list[Callable[..., Any]] = []
        PROCESS_OF[self.lane.number] = self

    def start(self) -> None:
        """Come up."""
        self.shared.running[self.name] = self
        work = self.serve if self.kind in WIRED else self.open
        self.lane.spawn(self.noticed("start", work))

    async def noticed(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do what nobody waits for. If it fails by itself, not by a fault, the world ends."""
        try:
            await work()
        except FAULTS:
            if what == "start":
                self.shared.loop.world.later(RESTART_SECONDS, self.restart)
            raise
        except Exception as problem:
            self.shared.loop.surprise = surprise = Surprise(f"{self.name} could not {what}")
            surprise.__cause__ = problem
            raise

    def restart(self) -> None:
        """What a supervisor does with a process that could not start."""
        if self.shared.running.get(self.name) is self:
            self.crash()
            Process(self.shared, self.name).start()

    async def serve(self) -> None:
        """What `runtime.running` does."""
        wire, project = WIRED[self.kind]
        store = SimStore(self.client, self.kind, self.holder)
        repository = Repository(store, self.kind, project)
        self.service = Service(self.kind, repository, self.bus, self.clock)
        database, bus, clock, ids = SimDatabase(self.client), self.bus, self.clock, self.ids
        runtime = Runtime(self.service, *cast(Any, (database, bus, clock, ids)))
        await wire(runtime)
        self.runtime = runtime
        await take_over(store)
        self.service.start()

    async def stop(self) -> None:
        """End as on SIGTERM."""
        await self.bus.stop_serving()
        if self.runtime:
            await self.runtime.closing.aclose()
        if self.service:
            await self.service.stop()

    def crash(self) -> None:
        """End as by SIGKILL."""
        self.lane.crash()
        self.shared.broker.forget(self.lane)
        if self.shared.running.get(self.name) is self:
            del self.shared.running[self.name]
        for answer in self.requests:
            if not answer.done():
                answer.set_exception(ConnectionError("the api died"))
        self.requests.clear()
        for push in self.readers:
            push(ConnectionError("the api died"))
        self.readers.clear()

    # The api

    async def open(self) -> None:
        """What the api does before it listens."""
        await self.inbox.open()
        if self.shared.server.file_rows is not None:
            sweep = forever("uploads", self.uploads.turn_of_sweep, self.clock)
            self.lane.spawn(sweep)

    async def upload(self, request: Any, folder_id: str) -> tuple[int, Any]:
        """What the api answers to an upload."""
        request = self.received(request)
        try:
            response = await upload_file.fn(request, folder_id)
            return 200, json.loads(response.content)
        except Exception as exception:
            status, body, _ = self.refusal(request, exception)
            return status, body

    async def answer(
        self, request: Any, agent_id: str, conversation_id: str
    ) -> tuple[int, Any, dict[str, str]]:
        """What the api answers to a message to an agent, or in a conversation beside its own: of
        that only the look for its agent, which is SQL, is left out."""
        request = self.received(request)
        to = Addressee(agent_id, conversation_id, unless_busy=True)
        try:
            if to.is_own:
                response = await send_message.fn(request, agent_id)
                return 200, json.loads(response.content), {}
            body = await body_of(request, LettaStreamingRequest)
            whole = await whole_answer(request, await address(request, body, to))
            return 200, json.loads(json.dumps(whole)), {}
        except Exception as exception:
            return self.refusal(request, exception)

    async def tell(
        self, request: Any, agent_id: str, run_id: str, push: Callable[..., Any]
    ) -> None:
        """Answer with a stream: a new one, or the rest of one."""
        self.received(request)
        try:
            if run_id:
                response = await resume_stream.fn(request, run_id)
            else:
                response = await send_message.fn(request, agent_id)
            async with aclosing(response.chunks) as chunks:
                async for chunk in chunks:
                    push(chunk)
        except Exception as exception:
            push(self.refusal(request, exception))
        else:
            push(None)

    def received(self, request: Any) -> Any:
        """The request as it is in this api."""
        state = SimpleNamespace(api=self.api(), stopping=asyncio.Event(), ping_seconds=5.0)
        request.app = SimpleNamespace(state=state)
        request.scope["state"][CALLER] = THE_ONLY_CALLER
        return request

    def refusal(self, request: Any, exception: Exception) -> tuple[int, Any, dict[str, str]]:
        """What a client is told of something that went wrong."""
        problem = as_problem(request, exception)
        return problem.status, problem.body, problem.headers

    def api(self) -> Api:
        """The adapters of the api."""
        unread: Any = None  # what clients list and retrieve
        return Api(
            reads=SimReads(self.client),  # type: ignore[arg-type]
            messages=unread,
            context=unread,
            runs=SimRunQueries(self.client),
            conversation_runs=unread,
            bus=self.bus,
            clock=self.clock,
            ids=self.ids,
            inbox=self.inbox,
            identical_request_runs=self.identical_request_runs,
            search=unread,
            tags=unread,
            sealer=unread,
            block_history=unread,
            folders=unread,
            uploads=self.uploads,
            past=unread,
            agent_lines=unread,
            exports=unread,
            fleets=unread,
            awaited_forks=unread,
            defaults=CreationDefaults(),
            text_works=unread,
        )


PROCESS_OF: dict[int, Process] = {}
WIRED: dict[str, tuple[Any, Any]] = {
    "agent": (
        agent_app.wiring({"HEELER_APPROVAL_SECONDS_MAX": str(APPROVAL_SECONDS_MAX)}),
        agent_projections.project,
    ),
    "memory": (memory_app.wiring({}), memory_projections.project),
    "tools": (tools.wire, tools_projections.project),
    "groups": (groups.wire, groups_projections.project),
    "scheduler": (scheduler_app.wiring({}), scheduler_projections.project),
}
READ_MODELS = {
    service: ReadModels(service, projections.project, projections.READ_MODELS)
    for service, projections in (
        ("agent", agent_projections),
        ("memory", memory_projections),
        ("tools", tools_projections),
        ("groups", groups_projections),
        ("scheduler", scheduler_projections),
    )
}


def me() -> Process:
    """The process in whose context this runs."""
    return PROCESS_OF[OWNER.get().number]


def reached(point: str) -> None:
    """A named crash point of the code: a test may have this process die here."""
    process = PROCESS_OF.get(OWNER.get().number)
    if process is not None:
        for hook in CRASH_HOOKS:
            hook(process, point)


def but_keeping(
    idempotent: Callable[[ToolRouter, str, AgentDesign], bool],
) -> Callable[[ToolRouter, str, AgentDesign], bool]:
    """Which calls may be made again, but for those whose effect is in the ledger of the world."""
    return lambda router, name, design: name != KEEP and idempotent(router, name, design)


CRASH_HOOKS: list[Callable[[Process, str], None]] = []


@contextlib.contextmanager
def simulated_adapters() -> Iterator[None]:
    """The wiring of the services finds simulated adapters where it looks for the real ones."""
    with contextlib.ExitStack() as stack:
        for target, name, value in (
            (agent_app, "Queries", SimQueries),
            (agent_app, "PostgresView", SimView),
            (agent_app, "MemoryTools", SimMemoryTools),
            (agent_app, "providers", lambda _settings, _clock: [me().provider]),
            (ToolRouter, "idempotent", but_keeping(ToolRouter.idempotent)),
            (memory_app, "PostgresAgentAttachments", SimHolders),
            (memory_app, "PostgresArchiveQueries", SimArchiveQueries),
            (memory_app, "PostgresPassageSearch", SimPassageSearch),
            (memory_app, "PostgresMessageVectors", SimMessageVectors),
            (memory_app, "EmbedderRouter", SimEmbedders),
            (memory_app, "PostgresFolderQueries", SimFolderQueries),
            (memory_app, "ProcessParser", SimParser),
            (scheduler_app, "PostgresScheduleQueries", SimScheduleQueries),
            (scheduler_app, "PostgresAgentTools", NoAgentTools),
            (failpoints, "reach", reached),
            (moments, "SWEPT_EVERY_SECONDS", math.inf),  # by the real clock; nobody reads the past
            (eventstore_work, "DISTRUSTFUL_DECISIONS", 3),  # a run is short
            (bounded_command_queue, "AGGREGATE_COMMANDS_MAX", 10),  # and clients are few
            *SMALL,
            *groups.PATCHED,
            *schedules.PATCHED,
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield
        PROCESS_OF.clear()
        CRASH_HOOKS.clear()
