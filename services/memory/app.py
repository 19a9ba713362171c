"""The wiring of the memory service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from libs.bus.service_runner import Runtime, Wire
from libs.contracts import agent, conversation
from services.memory.adapters.archive_queries import PostgresArchiveQueries
from services.memory.adapters.attached_agents import PostgresAttachedAgents
from services.memory.adapters.block_history import PostgresBlockHistory
from services.memory.adapters.embedders.configured_embedders import ConfiguredEmbedders
from services.memory.adapters.large_collections import LargeCollections
from services.memory.adapters.memory_telemetry import observed
from services.memory.adapters.passage_search import PostgresPassageSearch
from services.memory.handlers import Handlers
from services.memory.handlers.ports import HandlerPorts
from services.memory.policies import Policies
from services.memory.settings import EmbeddingSettings


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the endpoints that the environment names."""
    settings = EmbeddingSettings.from_environment(environment)
    return partial(wire, settings=settings)


async def wire(runtime: Runtime, *, settings: EmbeddingSettings) -> Callable[[], Awaitable[None]]:
    """Say what the memory service answers, follows and sweeps; returns what ends it."""
    embedders = ConfiguredEmbedders(settings)
    attached = PostgresAttachedAgents(runtime.database)
    archives = PostgresArchiveQueries(runtime.database)
    large = LargeCollections(runtime.database, runtime.clock)
    policies = Policies(runtime.bus, attached, archives, runtime.clock, runtime.ids)
    ports = HandlerPorts(
        clock=runtime.clock,
        attached=attached,
        history=PostgresBlockHistory(runtime.database),
        archives=archives,
        passages=PostgresPassageSearch(runtime.database, large),
        embedders=embedders,
        locks=runtime.service.locks,
    )
    handlers = Handlers(ports)
    await runtime.service.handle(observed(handlers.table()))
    await runtime.service.follow(
        "agent",
        {
            agent.AgentDeleted: policies.agent_deleted,
            conversation.ConversationDeleted: policies.conversation_deleted,
        },
    )
    runtime.service.sweepers += [policies.archives.sweep, large.turn]
    return embedders.aclose
