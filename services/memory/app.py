"""The wiring of the memory service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent import agents as agent
from libs.contracts.agent import conversations as conversation
from libs.contracts.memory.files import FileDeleted
from libs.contracts.memory.folders import FolderDeleted
from libs.embeddings.ports import Embedders
from services.memory.adapters.agent_attachments import AgentAttachments, PostgresAgentAttachments
from services.memory.adapters.archive_queries import PostgresArchiveQueries
from services.memory.adapters.embedders.embedder_router import EmbedderRouter
from services.memory.adapters.file_parsing.parser import ProcessParser
from services.memory.adapters.file_processing_queries import PostgresFileProcessingQueries
from services.memory.adapters.file_texts import PostgresFileTexts
from services.memory.adapters.folder_queries import PostgresFolderQueries
from services.memory.adapters.hnsw_indexing import LargeCollections
from services.memory.adapters.memory_telemetry import observed
from services.memory.adapters.message_vectors import PostgresMessageVectors
from services.memory.adapters.passage_search import PostgresPassageSearch
from services.memory.adapters.past_block_versions import PostgresPastBlockVersions
from services.memory.adapters.uploaded_files import PostgresUploadedFiles
from services.memory.engine.file_processing import FileProcessing, FileProcessingPorts
from services.memory.engine.message_embedding import MessageEmbedding
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
    embedders = EmbedderRouter(settings)
    attached = PostgresAgentAttachments(runtime.database)
    archives = PostgresArchiveQueries(runtime.database)
    large = LargeCollections(runtime.database, runtime.clock)
    vectors = PostgresMessageVectors(runtime.database)
    policies = Policies(runtime.bus, attached, archives, vectors, runtime.clock, runtime.ids)
    leadership = runtime.service.relay.leadership
    messages = MessageEmbedding(
        vectors=vectors,
        embedders=embedders,
        clock=runtime.clock,
        leads=lambda: leadership.epoch is not None,
    )
    processing = file_processing(runtime, embedders, attached)
    ports = HandlerPorts(
        clock=runtime.clock,
        attached=attached,
        past_block_versions=PostgresPastBlockVersions(runtime.database),
        archives=archives,
        passages=PostgresPassageSearch(runtime.database, large),
        embedders=embedders,
        locks=runtime.service.locks,
        folders=PostgresFolderQueries(runtime.database),
        file_added=processing.file_added,
        message_vectors=vectors,
        embed_messages=messages.catch_up,
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
    for event in (FileDeleted, FolderDeleted):
        for hears in (processing, policies.agent_folders):
            await runtime.bus.hear_events("memory", event.topic, hears.deleted_somewhere)
    runtime.service.sweepers += [
        *(policies.archives.sweep, policies.reembedding.sweep, policies.agent_folders.sweep),
        *(large.turn, messages.sweep),
    ]
    processing.join(runtime.service)

    async def drain() -> None:
        await processing.drain()
        await embedders.aclose()

    return drain


def file_processing(
    runtime: Runtime, embedders: Embedders, attached: AgentAttachments
) -> FileProcessing:
    """What makes texts and chunks of uploaded files."""
    return FileProcessing(
        FileProcessingPorts(
            repository=runtime.service.repository,
            queries=PostgresFileProcessingQueries(runtime.database),
            uploads=PostgresUploadedFiles(runtime.database),
            texts=PostgresFileTexts(runtime.database),
            parser=ProcessParser(),
            embedders=embedders,
            locks=runtime.service.locks,
            attached=attached,
            clock=runtime.clock,
            ids=runtime.ids,
            committed=runtime.service.relay.notification.notify,
        )
    )
