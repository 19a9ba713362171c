"""Folders and their files as clients read them, and the bodies that make and change folders."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from libs.contracts.letta import JsonObject
from libs.contracts.letta.agent_requests import EmbeddingHandle
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.letta.request_size_limits import JsonLimit, Metadata, Name, Text

CHUNK_SIZE_MOST = 100_000

type FileStatus = Literal["pending", "parsing", "embedding", "completed", "error"]
type DuplicateHandling = Literal["suffix", "skip", "error", "replace"]
type ChunkSize = Annotated[int, Field(ge=1, le=CHUNK_SIZE_MOST)]
type FolderName = Annotated[Name, Field(min_length=1)]


class FolderState(BaseModel):
    """A folder; its fields are in the recorded order, and its times are those of its events."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str | None = None
    instructions: str | None = None
    metadata: dict[str, JsonValue] | None = None
    id: str
    embedding_config: EmbeddingConfig | None = None
    organization_id: str = ""
    created_by_id: str | None = None
    last_updated_by_id: str | None = None


class FileState(BaseModel):
    """A file of a folder; its fields are in the recorded order."""

    model_config = ConfigDict(frozen=True)

    source_id: str
    file_name: str
    original_file_name: str
    file_path: str | None = None
    file_type: str = "text/plain"
    file_size: int = 0
    file_creation_date: str | None = None
    file_last_modified_date: str | None = None
    processing_status: FileStatus = "parsing"
    error_message: str | None = None
    total_chunks: int | None = None
    chunks_embedded: int | None = None
    content: str | None = None
    id: str
    organization_id: str = ""


class _FolderFields(BaseModel):
    description: Text | None = None
    instructions: Text | None = None
    metadata: Metadata | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None


class FolderCreate(_FolderFields):
    """A new folder; without an embedding it has the server's own."""

    name: FolderName
    embedding: EmbeddingHandle = None
    embedding_chunk_size: ChunkSize | None = None


class FolderUpdate(_FolderFields):
    """A change to a folder: only the fields that are sent count."""

    name: FolderName | None = None

    @field_validator("name", "embedding_config", mode="before")
    @classmethod
    def _null_is_no_value(cls, sent: JsonValue) -> JsonValue:
        if sent is None:
            raise ValueError("null is no value of this field: leave it out to keep what there is")
        return sent


def folder_state(folder: FolderState) -> JsonObject:
    """The folder as clients read it, without its times."""
    return folder.model_dump(mode="json")
