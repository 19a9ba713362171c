"""The wiring of the agent service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from libs.bus.background import forever
from libs.bus.runtime import Runtime
from libs.contracts import memory
from libs.contracts.agent import AttachBlock, CreateAgent, UpdateAgent
from libs.contracts.conversation import RunCancelled
from libs.telemetry import metrics
from services.agent.adapters.models.catalogue import Catalogue
from services.agent.adapters.models.demo import DemoProvider
from services.agent.adapters.models.observed import ObservedProvider
from services.agent.adapters.models.port import Provider
from services.agent.adapters.observed import AgentCount, ObservedTools, count_run
from services.agent.adapters.queries import PostgresQueries
from services.agent.adapters.tools import BaseToolRunner
from services.agent.handlers import Handlers
from services.agent.policies.blocks import BlockPolicies
from services.agent.policies.runs import RunDrivers
from services.agent.settings import ProviderSettings, run_seconds_max


async def wire(runtime: Runtime) -> Callable[[], Awaitable[None]]:
    """Say what the agent service answers, follows and sweeps; returns what drains it."""
    service, bus, clock, ids = runtime.service, runtime.bus, runtime.clock, runtime.ids
    queries = PostgresQueries(runtime.database)
    configured: list[Provider] = [
        ObservedProvider(one, clock) for one in providers(ProviderSettings.from_environment())
    ]
    catalogue = Catalogue(configured, runtime.database, clock)
    drivers = RunDrivers(
        service.repository,
        catalogue,
        ObservedTools(BaseToolRunner(bus, queries, clock), clock),
        queries,
        bus,
        clock,
        ids,
        service.relay.bell.ring,
        service.solitude,
        service.locks,
        run_seconds_max=run_seconds_max(),
    )
    handlers = Handlers(service.repository, catalogue, queries, bus, drivers, clock, ids)
    blocks = BlockPolicies(bus, queries, ids)
    table = dict(handlers.table())
    for kind in (CreateAgent, UpdateAgent, AttachBlock):
        table[kind] = blocks.noting(table[kind])
    await service.handle(table)
    await service.follow("memory", {memory.BlockDeleted: blocks.block_deleted})
    await bus.hear_events("agent", RunCancelled.topic, drivers.cancelled_somewhere)
    service.sweepers += [drivers.sweep, handlers.sweep_creations, blocks.sweep]
    service.lease_watchers.append(drivers.leases_held)
    service.repository.watchers += [count_run, blocks.committed]
    leads = service.relay.leadership
    count = AgentCount(runtime.database, clock, lambda: leads.epoch is not None)
    service.looks.append(count.look)
    metrics.TURNS.set_function(lambda: len(drivers.tasks))
    listing = asyncio.create_task(forever("agent catalogue", catalogue.turn, clock))

    async def drain() -> None:
        listing.cancel()
        await drivers.drain()
        await catalogue.close()

    return drain


def providers(settings: ProviderSettings) -> list[Provider]:
    """The configured providers, and always the demo. What one needs is imported if it is there."""
    configured: list[Provider] = [DemoProvider()]
    if settings.openai:
        from services.agent.adapters.models.openai import OpenAIProvider

        configured.append(OpenAIProvider(**asdict(settings.openai)))
    if settings.anthropic:
        from services.agent.adapters.models.anthropic import AnthropicProvider

        configured.append(AnthropicProvider(**asdict(settings.anthropic)))
    return configured
