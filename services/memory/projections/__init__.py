"""Events of the memory service as rows that clients and other services read."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.contracts.memory import files as messages
from libs.contracts.memory.agent_folders import AgentFoldersEvent
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveChanged,
    ArchiveCreated,
    ArchiveDeleted,
    ArchiveDetached,
    ArchiveEmptied,
    PassageCreated,
    PassageDeleted,
)
from libs.contracts.memory.blocks import BlockChanged, BlockCreated, BlockDeleted
from libs.contracts.memory.folders import FolderChanged, FolderCreated, FolderDeleted
from libs.contracts.memory.reembedding import (
    ArchiveEmbeddingChanged,
    ArchiveReembedded,
    FileChunksReembedded,
    FolderEmbeddingChanged,
    FolderReembedded,
    PassageEmbedded,
)
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.agent_folders import project_agent_folders
from services.memory.projections.archives import project_archive
from services.memory.projections.blocks import project_block
from services.memory.projections.files import project_file
from services.memory.projections.folders import project_folder
from services.memory.projections.passages import project_passage
from services.memory.projections.reembedding import project_reembedding
from services.memory.projections.tables import READ_MODELS

__all__ = ["READ_MODELS", "project"]


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the read models."""
    match event:
        case BlockCreated() | BlockChanged() | BlockDeleted():
            project_block(event, org, rows)
        case (
            ArchiveCreated() | ArchiveChanged() | ArchiveAttached() | ArchiveDetached()
            | ArchiveDeleted() | ArchiveEmptied()
        ):  # fmt: skip
            project_archive(event, org, rows)
        case PassageCreated() | PassageDeleted():
            project_passage(event, org, rows)
        case FolderCreated() | FolderChanged() | FolderDeleted():
            project_folder(event, org, rows)
        case (
            messages.FileAdded()
            | messages.FileParsed()
            | messages.FileShown()
            | messages.FileChunksEmbedded()
            | messages.FileCompleted()
            | messages.FileDelayed()
            | messages.FileFailed()
            | messages.FileDeleted()
        ):
            project_file(event, org, rows)
        case AgentFoldersEvent():
            project_agent_folders(event, org, rows)
        case (
            ArchiveEmbeddingChanged() | ArchiveReembedded() | PassageEmbedded()
            | FolderEmbeddingChanged() | FolderReembedded() | FileChunksReembedded()
        ):  # fmt: skip
            project_reembedding(event, org, rows)
