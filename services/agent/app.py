"""The wiring of the agent service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from libs.bus.background_loops import forever
from libs.bus.ports import Bus, Clock
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agent_tools import AttachTool
from libs.contracts.agent.agents import AttachBlock, CreateAgent, UpdateAgent
from libs.contracts.agent.runs import RunCancelled
from libs.contracts.memory import blocks as block_messages
from libs.contracts.tools.base_tools.definition import Owner
from libs.contracts.tools.tool_permission_evaluation import (
    POLICIES,
    POLICIES_FINGERPRINT,
    POLICIES_SOURCE,
    CompiledList,
    ToolPolicies,
    policies_of,
    system_list,
)
from libs.contracts.tools.tool_permissions import ToolPermissionsChanged
from libs.contracts.tools.tools import ToolDeleted
from libs.egress.address_guard import CALLBACK_HOSTS, AddressGuard
from libs.eventstore.sql_view_cache import CachedView, PostgresView
from libs.telemetry import metrics
from services.agent.adapters.agent_gauge import AgentGauge
from services.agent.adapters.all_queries import PostgresQueries, Queries
from services.agent.adapters.callback_poster import CallbackPoster
from services.agent.adapters.conversation_tools import ConversationTools
from services.agent.adapters.hybrid_conversation_search import HybridConversationSearch
from services.agent.adapters.memory_tools import MemoryTools
from services.agent.adapters.models.demo_model import DemoProvider
from services.agent.adapters.models.model_router import ModelRouter
from services.agent.adapters.models.model_telemetry import ObservedProvider
from services.agent.adapters.models.ports import ModelLister, Provider
from services.agent.adapters.models.prices import PriceTable, PublishedPrices, price_tables
from services.agent.adapters.multi_agent_tools import MultiAgentTools
from services.agent.adapters.run_telemetry import COUNTED_EVENTS, count_run
from services.agent.adapters.tool_owner_port import ToolOwner
from services.agent.adapters.tool_permissions import Policies
from services.agent.adapters.tool_router import ToolRouter
from services.agent.adapters.tool_telemetry import ObservedTools
from services.agent.adapters.tools_service_client import ToolsServiceClient
from services.agent.engine.callbacks import CallbackSender
from services.agent.engine.orphaned_chunks import OrphanedChunks
from services.agent.engine.ports import EnginePorts
from services.agent.engine.run_scheduling import RunEngine
from services.agent.handlers import Handlers
from services.agent.handlers.ports import HandlerPorts
from services.agent.policies.delete_conversations import ORPHANING_EVENTS, DeleteConversations
from services.agent.policies.detach_deleted_blocks import BLOCK_GIVING_EVENTS, detach_deleted_blocks
from services.agent.policies.detach_deleted_tools import TOOL_GIVING_EVENTS, detach_deleted_tools
from services.agent.policies.undo_unfinished_creations import UndoUnfinishedCreations
from services.agent.settings import TOOL_SECONDS_MAX, Deadlines, ProviderSettings


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the providers and the limits that the environment names."""
    settings = ProviderSettings.from_environment(environment)
    guard = AddressGuard.from_environment(CALLBACK_HOSTS, environment)
    deadlines = Deadlines.from_environment(environment)
    prices = price_tables(environment)
    return partial(
        wire,
        settings=settings,
        deadlines=deadlines,
        guard=guard,
        prices=prices,
        allowed=system_list(environment),
    )


async def wire(
    runtime: Runtime,
    *,
    settings: ProviderSettings,
    deadlines: Deadlines,
    guard: AddressGuard,
    prices: Sequence[PriceTable],
    allowed: CompiledList,
) -> Callable[[], Awaitable[None]]:
    """Say what the agent service answers, follows and sweeps; returns what drains it."""
    service, bus, clock, ids = runtime.service, runtime.bus, runtime.clock, runtime.ids
    queries = PostgresQueries(runtime.database)
    configured: list[Provider] = [
        ObservedProvider(one, clock) for one in providers(settings, clock)
    ]
    catalogue = ModelRouter(configured, runtime.database, clock, embedders(settings))
    view = PostgresView(
        runtime.database,
        source=POLICIES_SOURCE,
        rows=POLICIES,
        fingerprint=POLICIES_FINGERPRINT,
    )
    policies = CachedView(view, partial(policies_of, allowed))

    def known() -> ToolPolicies | None:
        return policies.value

    seconds = deadlines.tool_seconds_max
    engine = RunEngine(
        EnginePorts(
            repository=service.repository,
            models=catalogue,
            tools=ObservedTools(
                tool_router(bus, queries, clock, policies=known, seconds_max=seconds), clock
            ),
            queries=queries,
            bus=bus,
            clock=clock,
            ids=ids,
            committed=service.relay.notification.notify,
            quarantine=service.quarantine,
            locks=service.locks,
            deadlines=deadlines,
            policies=known,
        )
    )
    await catalogue.start()
    await policies.look()
    published = PublishedPrices(runtime.database, prices)
    await published.sweep()
    ports = HandlerPorts(service.repository, catalogue, queries, bus, engine, clock, ids, guard)
    handlers = Handlers(ports)
    blocks = detach_deleted_blocks(bus, queries, clock, ids)
    tools = detach_deleted_tools(bus, queries, clock, ids)
    conversations = DeleteConversations(bus, queries, clock, ids)
    creations = UndoUnfinishedCreations(service.repository, queries, bus, clock, ids, service.locks)
    table = dict(handlers.table())
    for kind in (CreateAgent, UpdateAgent, AttachBlock):
        table[kind] = blocks.noting(table[kind])
    for giving in (CreateAgent, UpdateAgent, AttachTool):
        table[giving] = tools.noting(table[giving])
    await service.handle(table)
    await service.follow("memory", {block_messages.BlockDeleted: blocks.deleted})
    await service.follow("tools", {ToolDeleted: tools.deleted})
    await bus.hear_events("agent", RunCancelled.topic, engine.cancelled_somewhere)
    await bus.hear_events("tools", ToolPermissionsChanged.topic, policies.changed)
    callbacks = CallbackSender(engine.ports, CallbackPoster(guard))
    service.sweepers += [
        engine.sweep,
        handlers.pauses.sweep,
        handlers.approvals.sweep,
        blocks.sweep,
        tools.sweep,
        conversations.sweep,
        creations.sweep,
        OrphanedChunks(bus, queries, clock).sweep,
        published.sweep,
        policies.look,
    ]
    callbacks.join(service)
    service.lease_watchers.append(engine.leases_held)
    service.repository.watch(COUNTED_EVENTS, count_run)
    service.repository.watch(BLOCK_GIVING_EVENTS, blocks.committed)
    service.repository.watch(TOOL_GIVING_EVENTS, tools.committed)
    service.repository.watch(ORPHANING_EVENTS, conversations.committed)
    leads = service.relay.leadership
    count = AgentGauge(runtime.database, clock, lambda: leads.epoch is not None)
    service.looks.append(count.look)
    metrics.TURNS.set_function(lambda: len(engine.tasks))
    listing = asyncio.create_task(forever("agent catalogue", catalogue.turn, clock))

    async def drain() -> None:
        listing.cancel()
        await asyncio.gather(
            engine.drain(), callbacks.drain(), handlers.completions.completions.drain()
        )
        await catalogue.close()

    return drain


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
    """The configured providers, and always the demo, last. What one needs is imported if it is
    there."""
    configured: list[Provider] = []
    if settings.openai:
        from services.agent.adapters.models.openai_provider import OpenAIProvider

        configured.append(OpenAIProvider(**asdict(settings.openai), clock=clock))
    if settings.anthropic:
        from services.agent.adapters.models.anthropic_provider import AnthropicProvider

        configured.append(AnthropicProvider(**asdict(settings.anthropic), clock=clock))
    return [*configured, DemoProvider()]


def embedders(settings: ProviderSettings) -> list[ModelLister]:
    """Who only embeds, as far as it says which models it has."""
    if settings.ollama is None:
        return []
    from services.agent.adapters.models.aiohttp_transport import HttpWire
    from services.agent.adapters.models.ollama_embedding_models import OllamaEmbeddingModels

    known = settings.ollama
    wire = HttpWire(known.base_url.removesuffix("/v1"), known.headers, query=known.query)
    return [OllamaEmbeddingModels(known.base_url, wire)]
