"""The wiring of the memory service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from libs.bus.moments import serve_moments
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.agent.conversations import ConversationDeleted
from libs.contracts.memory.archives import ArchiveDeleted, PassageDeleted
from libs.contracts.memory.blocks import BlockDeleted
from libs.contracts.memory.files import FileDeleted
from libs.contracts.memory.folders import FolderDeleted
from libs.eventstore.read_model_replay import ReadModels
from services.memory.adapters.agent_attachments import PostgresAgentAttachments
from services.memory.adapters.archive_queries import PostgresArchiveQueries
from services.memory.adapters.embedders.embedder_router import EmbedderRouter
from services.memory.adapters.file_parsing.parser import ProcessParser
from services.memory.adapters.file_processing_queries import PostgresFileProcessingQueries
from services.memory.adapters.file_texts import PostgresFileTexts
from services.memory.adapters.folder_queries import PostgresFolderQueries
from services.memory.adapters.memory_telemetry import observe_handlers
from services.memory.adapters.message_vectors import PostgresMessageVectors
from services.memory.adapters.moment_aggregates import SKIPPED_TOPICS, MemoryMomentAggregates
from services.memory.adapters.passage_search import PostgresPassageSearch
from services.memory.adapters.past_block_versions import PostgresPastBlockVersions
from services.memory.adapters.uploaded_files import UploadedFiles
from services.memory.engine.file_processing import FileProcessing, FileProcessingPorts
from services.memory.engine.message_embedding import MessageEmbedding
from services.memory.handlers import Handlers
from services.memory.handlers.ports import HandlerPorts
from services.memory.policies import Policies
from services.memory.policies.deleted_files import DeleteFilesOfDeletedFolders, RemoveUnnamedTexts
from services.memory.projections import READ_MODELS, project
from services.memory.settings import EmbeddingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The adapters that the other rooms get."""

    embedders: EmbedderRouter
    attached: PostgresAgentAttachments
    archives: PostgresArchiveQueries
    passages: PostgresPassageSearch
    message_vectors: PostgresMessageVectors


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the endpoints that the environment names. Raises WrongSetting."""
    return partial(wire, settings=EmbeddingSettings.from_environment(environment))


async def wire(runtime: Runtime, *, settings: EmbeddingSettings) -> None:
    """Register what the memory service answers, does, follows and closes."""
    adapters = open_adapters(runtime, settings)
    files, messages = await start_engine(runtime, adapters)
    handlers = Handlers(
        HandlerPorts(
            clock=runtime.clock,
            attached=adapters.attached,
            past_block_versions=PostgresPastBlockVersions(runtime.database),
            archives=adapters.archives,
            passages=adapters.passages,
            embedders=adapters.embedders,
            locks=runtime.service.locks,
            folders=PostgresFolderQueries(runtime.database),
            file_added=files.file_added,
            message_vectors=adapters.message_vectors,
            embed_messages=messages.catch_up,
        )
    )
    models = ReadModels("memory", project, READ_MODELS)
    aggregates = MemoryMomentAggregates(runtime.database)
    moments = serve_moments(runtime, models, aggregates, SKIPPED_TOPICS)
    await runtime.service.handle({**observe_handlers(handlers.table()), **moments})
    await apply_policies(runtime, adapters)
    runtime.erase_what_ended(
        BlockDeleted, PassageDeleted, ArchiveDeleted, FileDeleted, FolderDeleted
    )


def open_adapters(runtime: Runtime, settings: EmbeddingSettings) -> Adapters:
    """The adapters; each is closed when the process ends."""
    database = runtime.database
    embedders = EmbedderRouter(settings)
    runtime.closing.push_async_callback(embedders.aclose)
    return Adapters(
        embedders=embedders,
        attached=PostgresAgentAttachments(database),
        archives=PostgresArchiveQueries(database),
        passages=PostgresPassageSearch(database),
        message_vectors=PostgresMessageVectors(database),
    )


async def start_engine(
    runtime: Runtime, adapters: Adapters
) -> tuple[FileProcessing, MessageEmbedding]:
    """The engine of uploaded files and the one that embeds messages; both are swept."""
    service, database = runtime.service, runtime.database
    ports = FileProcessingPorts(
        **runtime.port_arguments,
        queries=PostgresFileProcessingQueries(database),
        uploads=UploadedFiles(database),
        texts=PostgresFileTexts(database),
        parser=ProcessParser(),
        embedders=adapters.embedders,
        attached=adapters.attached,
    )
    files = FileProcessing(ports)
    runtime.closing.push_async_callback(files.drain)
    leadership = service.relay.leadership
    messages = MessageEmbedding(
        vectors=adapters.message_vectors,
        embedders=adapters.embedders,
        clock=runtime.clock,
        leads=lambda: leadership.epoch is not None,
    )
    for cleanup in (
        DeleteFilesOfDeletedFolders(ports, ports.queries),
        RemoveUnnamedTexts(ports.texts, ports.clock),
    ):
        await cleanup.follow(service, FileDeleted, FolderDeleted)
        service.sweepers.append(cleanup.sweep)
    files.join(service)
    service.sweepers.append(messages.sweep)
    return files, messages


async def apply_policies(runtime: Runtime, adapters: Adapters) -> None:
    """Have the policies follow the events of agents, files and folders."""
    service = runtime.service
    policies = Policies(
        runtime.bus,
        adapters.attached,
        adapters.archives,
        adapters.message_vectors,
        runtime.clock,
        runtime.ids,
    )
    await service.follow(
        "agent",
        {
            AgentDeleted: policies.agent_deleted,
            ConversationDeleted: policies.conversation_deleted,
        },
    )
    await policies.agent_folders.follow(service, FileDeleted, FolderDeleted)
    await policies.agent_folders.follow(service, AgentDeleted)
    await policies.archives.orphans.follow(service, AgentDeleted)
    swept = (policies.archives, policies.reembedding, policies.agent_folders)
    service.sweepers += [policy.sweep for policy in swept]
