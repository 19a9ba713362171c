"""The wiring of the agent service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from libs.bus.background_loops import forever
from libs.bus.command_dispatcher import Handler
from libs.bus.moments import serve_moments
from libs.bus.ports import Bus, Clock
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import (
    AgentDeleted,
    AttachBlock,
    AttachTool,
    CreateAgent,
    UpdateAgent,
)
from libs.contracts.agent.conversations import ConversationDeleted
from libs.contracts.agent.run_replays import RunReplayDeleted
from libs.contracts.agent.runs import RunCancelled, RunDeleted
from libs.contracts.agent.summaries import SummariesDeleted, SummaryLimits
from libs.contracts.bus_messages import Command
from libs.contracts.memory.blocks import BlockDeleted
from libs.contracts.tools.base_tools.definition import Owner
from libs.contracts.tools.tool_permission_evaluation import (
    POLICIES_VIEW,
    CompiledList,
    ToolPolicies,
    policies_of,
    system_list,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tools import ToolDeleted
from libs.egress.address_guard import CALLBACK_HOSTS, AddressGuard
from libs.eventstore.read_model_replay import ReadModels
from libs.eventstore.sql_view_cache import CachedView, PostgresView
from libs.telemetry import metrics
from services.agent.adapters.all_queries import Queries
from services.agent.adapters.callback_poster import CallbackPoster
from services.agent.adapters.conversation_search import HybridConversationSearch
from services.agent.adapters.conversation_tools import ConversationTools
from services.agent.adapters.memory_tools import MemoryTools
from services.agent.adapters.models.demo_model import DemoProvider
from services.agent.adapters.models.model_router import ModelRouter
from services.agent.adapters.models.model_telemetry import ObservedProvider
from services.agent.adapters.models.ports import ModelLister, Provider
from services.agent.adapters.models.prices import PriceTable, PublishedPrices, price_tables
from services.agent.adapters.models.scripted_model import ScriptedProvider
from services.agent.adapters.moment_aggregates import (
    COPIES,
    SKIPPED_TOPICS,
    AgentMomentAggregates,
)
from services.agent.adapters.multi_agent_tools import MultiAgentTools
from services.agent.adapters.telemetry import COUNTED_EVENTS, AgentGauge, ObservedTools, count_run
from services.agent.adapters.tool_owner_port import ToolOwner
from services.agent.adapters.tool_permissions import Policies
from services.agent.adapters.tool_router import ToolRouter
from services.agent.adapters.tools_service_client import ToolsServiceClient
from services.agent.engine.batches import ENDING_EVENTS, Batches
from services.agent.engine.callbacks import BatchCallbacks, CallbackSender
from services.agent.engine.ports import EnginePorts
from services.agent.engine.run_scheduling import RunEngine
from services.agent.engine.run_stream import OrphanedChunks
from services.agent.handlers import Handlers
from services.agent.handlers.ports import HandlerPorts
from services.agent.policies.delete_conversations import ORPHANING_EVENTS, DeleteConversations
from services.agent.policies.delete_replays import RUN_LOSING_EVENTS, DeleteReplays
from services.agent.policies.detach_deleted_resources import (
    BLOCK_GIVING_EVENTS,
    TOOL_GIVING_EVENTS,
    detach_deleted_blocks,
    detach_deleted_tools,
)
from services.agent.policies.undo_unfinished_creations import UndoUnfinishedCreations
from services.agent.projections import READ_MODELS, project
from services.agent.settings import (
    TOOL_SECONDS_MAX,
    Deadlines,
    ProviderSettings,
    summary_limits,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of this service, from the environment."""

    providers: ProviderSettings
    deadlines: Deadlines
    guard: AddressGuard
    prices: Sequence[PriceTable]
    allowed: CompiledList
    summaries: SummaryLimits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that the environment names. Raises WrongSetting."""
        return cls(
            providers=ProviderSettings.from_environment(environment),
            deadlines=Deadlines.from_environment(environment),
            guard=AddressGuard.from_environment(CALLBACK_HOSTS, environment),
            prices=price_tables(environment),
            allowed=system_list(environment),
            summaries=summary_limits(environment),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The adapters that the other rooms get."""

    queries: Queries
    models: ModelRouter
    policies: CachedView[ToolPolicies]


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the providers and the limits of the environment. Raises WrongSetting."""
    return partial(wire, settings=Settings.from_environment(environment))


async def wire(runtime: Runtime, *, settings: Settings) -> None:
    """Register what the agent service answers, does, follows and closes."""
    adapters = await open_adapters(runtime, settings)
    engine, callbacks, batches = await start_engine(runtime, settings, adapters)
    handlers = Handlers(
        HandlerPorts(
            **runtime.port_arguments,
            handles=adapters.models,
            queries=adapters.queries,
            engine=engine,
            guard=settings.guard,
            summaries=settings.summaries,
        ),
        batches,
    )
    handlers.summaries.writer.join(runtime.service)
    handlers.replays.replays.join(runtime.service)
    models = ReadModels("agent", project, READ_MODELS)
    aggregates = AgentMomentAggregates(runtime.database)
    moments = serve_moments(runtime, models, aggregates, SKIPPED_TOPICS, COPIES)
    answered = await apply_policies(runtime, adapters.queries, handlers.table())
    await runtime.service.handle({**answered, **moments})
    swept = (handlers.pauses.sweep, handlers.approvals.sweep)
    runtime.service.sweepers += swept
    runtime.erase_what_ended(
        *(AgentDeleted, ConversationDeleted, SummariesDeleted, RunReplayDeleted)
    )
    measure(runtime, engine)

    async def drain() -> None:
        await asyncio.gather(
            *(engine.drain(), callbacks.drain(), batches.drain()),
            *(handlers.completions.completions.drain(), handlers.summaries.writer.drain()),
            handlers.replays.replays.drain(),
        )

    runtime.closing.push_async_callback(drain)


async def open_adapters(runtime: Runtime, settings: Settings) -> Adapters:
    """The adapters, started; each is closed when the process ends."""
    service, database, clock = runtime.service, runtime.database, runtime.clock
    configured: list[Provider] = [
        ObservedProvider(provider, clock) for provider in providers(settings.providers, clock)
    ]
    models = ModelRouter(configured, database, clock, embedders(settings.providers))
    await models.start()
    runtime.closing.push_async_callback(models.close)
    listing = asyncio.create_task(forever("agent catalogue", models.turn, clock))
    runtime.closing.callback(listing.cancel)
    view = PostgresView(database, **POLICIES_VIEW)
    policies = CachedView(view, partial(policies_of, settings.allowed))
    await service.keep_current(policies, ToolPermissionsChanged)
    published = PublishedPrices(database, settings.prices)
    await published.sweep()
    service.sweepers.append(published.sweep)
    return Adapters(queries=Queries(database), models=models, policies=policies)


async def start_engine(
    runtime: Runtime, settings: Settings, adapters: Adapters
) -> tuple[RunEngine, CallbackSender, Batches]:
    """The runs of this process, their callbacks and the batches, swept."""
    service, bus, clock, queries = runtime.service, runtime.bus, runtime.clock, adapters.queries

    def policies() -> ToolPolicies | None:
        return adapters.policies.value

    tools = tool_router(
        *(bus, queries, clock), policies=policies, seconds_max=settings.deadlines.tool_seconds_max
    )
    engine = RunEngine(
        EnginePorts(
            **runtime.port_arguments,
            models=adapters.models,
            tools=ObservedTools(tools, clock),
            queries=queries,
            deadlines=settings.deadlines,
            policies=policies,
        )
    )
    await service.hear(RunCancelled, engine.cancelled_somewhere)
    engine.join(service)
    callbacks = CallbackSender(engine.ports, CallbackPoster(settings.guard))
    chunks = OrphanedChunks(bus, queries, clock)
    service.sweepers.append(chunks.sweep)
    callbacks.join(service)
    batches = Batches(engine.ports)
    batches.join(service)
    batch_callbacks = BatchCallbacks(engine.ports, CallbackPoster(settings.guard))
    batch_callbacks.join(service)
    runtime.closing.push_async_callback(batch_callbacks.drain)
    service.repository.watch(ENDING_EVENTS, batches.note_end_of_run)
    return engine, callbacks, batches


async def apply_policies(
    runtime: Runtime, queries: Queries, handlers: Mapping[type[Command], Handler]
) -> Mapping[type[Command], Handler]:
    """Have the policies follow events; returns the handlers with what some policies note there."""
    service, bus, clock, ids = runtime.service, runtime.bus, runtime.clock, runtime.ids
    blocks = detach_deleted_blocks(bus, queries, clock, ids)
    tools = detach_deleted_tools(bus, queries, clock, ids)
    noting = dict(handlers)
    for policy, deleted, giving, attach in (
        (blocks, BlockDeleted, BLOCK_GIVING_EVENTS, AttachBlock),
        (tools, ToolDeleted, TOOL_GIVING_EVENTS, AttachTool),
    ):
        noting |= {kind: policy.noting(noting[kind]) for kind in (CreateAgent, UpdateAgent, attach)}
        await service.follow(
            deleted.service, {deleted: policy.detach_everywhere}, policy.look_at_all_twice
        )
        service.repository.watch(giving, policy.note_commit)
    conversations = DeleteConversations(bus, queries, clock, ids)
    service.repository.watch(ORPHANING_EVENTS, conversations.note_commit)
    await conversations.follow(service, AgentDeleted)
    replays = DeleteReplays(bus, queries, clock, ids)
    service.repository.watch(RUN_LOSING_EVENTS, replays.note_commit)
    await replays.follow(service, ConversationDeleted, RunDeleted)
    creations = UndoUnfinishedCreations(service.repository, queries, bus, clock, ids, service.locks)
    service.sweepers += [blocks.sweep, tools.sweep, conversations.sweep, creations.sweep]
    service.sweepers.append(replays.sweep)
    return noting


def measure(runtime: Runtime, engine: RunEngine) -> None:
    """Count runs and agents for Prometheus."""
    service, leadership = runtime.service, runtime.service.relay.leadership
    service.repository.watch(COUNTED_EVENTS, count_run)
    gauge = AgentGauge(runtime.database, runtime.clock, lambda: leadership.epoch is not None)
    service.looks.append(gauge.look)
    metrics.RUNS_RUNNING.set_function(lambda: len(engine.tasks))


def tool_router(
    bus: Bus,
    queries: Queries,
    clock: Clock,
    *,
    policies: Policies,
    seconds_max: float = TOOL_SECONDS_MAX,
) -> ToolRouter:
    """The owners of tools that there are."""
    owners: Mapping[Owner, ToolOwner] = {
        "agent": ConversationTools(
            HybridConversationSearch(bus, queries),
            MultiAgentTools(bus, queries, clock, seconds_max=seconds_max),
            clock,
        ),
        "memory": MemoryTools(bus, queries, clock),
        "tools": ToolsServiceClient(bus, queries, clock, seconds_max=seconds_max),
    }
    return ToolRouter(owners, clock, policies=policies, seconds_max=seconds_max)


def providers(settings: ProviderSettings, clock: Clock | None = None) -> list[Provider]:
    """The configured providers, and always the demo and the model of scripts, last. What one needs
    is imported if it is there."""
    configured: list[Provider] = []
    if settings.openai:
        from services.agent.adapters.models.openai_provider import OpenAIProvider

        configured.append(OpenAIProvider(**asdict(settings.openai), clock=clock))
    if settings.anthropic:
        from services.agent.adapters.models.anthropic_provider import AnthropicProvider

        configured.append(AnthropicProvider(**asdict(settings.anthropic), clock=clock))
    return [*configured, DemoProvider(), ScriptedProvider()]


def embedders(settings: ProviderSettings) -> list[ModelLister]:
    """The providers that only embed, as far as their lists of models say so."""
    if settings.ollama is None:
        return []
    from services.agent.adapters.models.aiohttp_transport import HttpWire
    from services.agent.adapters.models.ollama_embedding_models import OllamaEmbeddingModels

    known = settings.ollama
    wire = HttpWire(known.base_url.removesuffix("/v1"), known.headers, query=known.query)
    return [OllamaEmbeddingModels(known.base_url, wire)]
