"""An example of each message about folders and files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.files import (
    AddFile,
    DeleteFile,
    FileAdded,
    FileChunk,
    FileChunksEmbedded,
    FileCompleted,
    FileDelayed,
    FileDeleted,
    FileFailed,
    FileNameFreed,
    FileNameTaken,
    FileParsed,
    FileShown,
    chunk_id,
    file_name_id,
)
from libs.contracts.memory.folders import (
    CreateFolder,
    DeleteFolder,
    FolderChanged,
    FolderCreated,
    FolderDeleted,
    FolderNameFreed,
    FolderNameTaken,
    UpdateFolder,
    folder_name_id,
)
from libs.contracts.memory.reembedding import (
    ChunkVector,
    FileChunksReembedded,
    FolderEmbeddingChanged,
    FolderReembedded,
    ReembedChunks,
)

AT = datetime(2026, 5, 17, 12, 30, 15, 123456, UTC)
USER = "user-00000000-0000-4000-8000-000000000000"
FOLDER = "source-12121212-1212-4212-8212-121212121212"
FILE = "file-13131313-1313-4313-8313-131313131313"
SHA256 = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4"
HANDBOOK = FolderState(
    name="handbook",
    description="How we work",
    metadata={"team": "blue"},
    id=FOLDER,
    embedding_config=EmbeddingConfig(
        embedding_endpoint_type="heeler",
        embedding_model="all-MiniLM-L6-v2",
        embedding_dim=384,
        handle="heeler/all-MiniLM-L6-v2",
    ),
    organization_id="org-1",
    created_by_id=USER,
    last_updated_by_id=USER,
)


def of_folder(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=FOLDER, originator_version=1, timestamp=AT, **fields)


def of_file(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=FILE, originator_version=1, timestamp=AT, **fields)


def of_name(kind: type[Event], name_id: str, **fields: Any) -> Event:
    return kind(originator_id=name_id, originator_version=1, timestamp=AT, **fields)


COMMANDS: list[Command] = [
    CreateFolder(
        folder_id=FOLDER,
        name="handbook",
        description="How we work",
        metadata={"team": "blue"},
        embedding_chunk_size=300,
    ),
    UpdateFolder(folder_id=FOLDER, changes={"description": "How we worked"}),
    DeleteFolder(folder_id=FOLDER),
    AddFile(
        file_id=FILE,
        folder_id=FOLDER,
        name="holidays.md",
        file_type="text/markdown",
        file_size=19,
        sha256=SHA256,
        duplicates="skip",
        begun_at=AT,
    ),
    DeleteFile(file_id=FILE, folder_id=FOLDER),
    ReembedChunks(folder_id=FOLDER),
]
FOLDER_NAME = folder_name_id("org-1", "handbook")
FILE_NAME = file_name_id("org-1", FOLDER, "holidays.md")
EVENTS: list[Event] = [
    of_folder(FolderCreated, folder=HANDBOOK),
    of_folder(FolderChanged, changes={"description": "How we worked"}),
    of_folder(
        FolderEmbeddingChanged,
        embedding_config=EmbeddingConfig(
            embedding_endpoint_type="openai",
            embedding_model="text-embedding-3-small",
            embedding_dim=1_536,
            handle="openai/text-embedding-3-small",
        ),
        previous_config=HANDBOOK.embedding_config,
        model="openai/text-embedding-3-small",
        dimensions=1_536,
        changed_by_id=USER,
    ),
    of_folder(FolderReembedded),
    of_folder(FolderDeleted),
    of_name(FolderNameTaken, FOLDER_NAME, folder_id=FOLDER),
    of_name(FolderNameFreed, FOLDER_NAME, folder_id=FOLDER),
    of_name(FileNameTaken, FILE_NAME, file_id=FILE),
    of_name(FileNameFreed, FILE_NAME, file_id=FILE),
    of_file(
        FileAdded,
        folder_id=FOLDER,
        folder_name="handbook",
        name="holidays.md",
        original_name="holidays.md",
        file_type="text/markdown",
        file_size=19,
        sha256=SHA256,
        begun_at=AT,
    ),
    of_file(FileParsed, text_id="text-1", lines=1, chars=19, total_chunks=1, chunk_tokens=256),
    of_file(FileShown, agents=2),
    of_file(
        FileChunksReembedded,
        model="openai/text-embedding-3-small",
        dimensions=2,
        chunks=[ChunkVector(id=chunk_id(FILE, 0), vector="AACAPw==")],
    ),
    of_file(FileDelayed, attempts=1, reason="The embedding model does not answer", due_at=AT),
    of_file(
        FileChunksEmbedded,
        folder_id=FOLDER,
        file_name="handbook/holidays.md",
        first=0,
        chunks=[FileChunk(id=chunk_id(FILE, 0), text="hello file contents", line=1, vector="ADw=")],
        model="heeler/all-MiniLM-L6-v2",
        dimensions=1,
    ),
    of_file(FileCompleted),
    of_file(FileFailed, reason="The PDF is encrypted: upload it without a password"),
    of_file(FileDeleted),
]
SUBJECTS = {
    "CreateFolder": f"memory.command.folder.create.org-1.{FOLDER}",
    "UpdateFolder": f"memory.command.folder.update.org-1.{FOLDER}",
    "DeleteFolder": f"memory.command.folder.delete.org-1.{FOLDER}",
    "AddFile": f"memory.command.file.add.org-1.{FOLDER}",
    "DeleteFile": f"memory.command.file.delete.org-1.{FOLDER}",
    "FolderCreated": f"memory.event.folder.created.org-1.{FOLDER}",
    "FolderChanged": f"memory.event.folder.changed.org-1.{FOLDER}",
    "ReembedChunks": f"memory.command.chunks.reembed.org-1.reembedding-{FOLDER[7:]}",
    "FolderEmbeddingChanged": f"memory.event.folder.embedding_changed.org-1.{FOLDER}",
    "FolderReembedded": f"memory.event.folder.reembedded.org-1.{FOLDER}",
    "FolderDeleted": f"memory.event.folder.deleted.org-1.{FOLDER}",
    "FolderNameTaken": f"memory.event.folder_name.taken.org-1.{FOLDER}",
    "FolderNameFreed": f"memory.event.folder_name.freed.org-1.{FOLDER}",
    "FileNameTaken": f"memory.event.file_name.taken.org-1.{FILE}",
    "FileNameFreed": f"memory.event.file_name.freed.org-1.{FILE}",
    "FileAdded": f"memory.event.file.added.org-1.{FILE}",
    "FileParsed": f"memory.event.file.parsed.org-1.{FILE}",
    "FileChunksReembedded": f"memory.event.file.chunks_reembedded.org-1.{FILE}",
    "FileShown": f"memory.event.file.shown.org-1.{FILE}",
    "FileDelayed": f"memory.event.file.delayed.org-1.{FILE}",
    "FileChunksEmbedded": f"memory.event.file.chunks_embedded.org-1.{FILE}",
    "FileCompleted": f"memory.event.file.completed.org-1.{FILE}",
    "FileFailed": f"memory.event.file.failed.org-1.{FILE}",
    "FileDeleted": f"memory.event.file.deleted.org-1.{FILE}",
}
