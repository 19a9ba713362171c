"""The bodies that make, change and search archives and their passages."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue, field_validator

from libs.contracts.letta.message_requests import FOUND_MAX, Moment
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.letta.request_size_limits import (
    JsonLimit,
    Metadata,
    Name,
    Names,
    SearchText,
    Text,
)

# What is put in at once is embedded and committed as one.
PASSAGES_MAX = 200


class ArchiveCreateRequest(BaseModel):
    """A new archive; without an embedding model the server's default embeds its passages."""

    name: Name
    description: Text | None = None
    embedding: Name | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None


class ArchiveUpdateRequest(BaseModel):
    """A change to an archive: only the fields that are given count."""

    name: Name | None = None
    description: Text | None = None

    @field_validator("name", mode="before")
    @classmethod
    def _null_is_no_name(cls, sent: JsonValue) -> JsonValue:
        if sent is None:
            raise ValueError("null is no name: leave it out to keep the one that there is")
        return sent


class CreateArchivalMemory(BaseModel):
    """A text that an agent is to remember."""

    text: Text
    tags: Names | None = None
    created_at: Moment | None = None


class PassageCreateRequest(CreateArchivalMemory):
    """A text for an archive."""

    metadata: Metadata | None = None


class PassageBatchCreateRequest(BaseModel):
    """Several texts for an archive, all or none."""

    passages: Annotated[list[PassageCreateRequest], Field(min_length=1, max_length=PASSAGES_MAX)]


class PassageSearchRequest(BaseModel):
    """Which passages; without a query the newest."""

    query: SearchText | None = None
    agent_id: Name | None = None
    archive_id: Name | None = None
    tags: Names | None = None
    tag_match_mode: Literal["any", "all"] = "any"
    start_date: Moment | None = None
    end_date: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=FOUND_MAX)] = 50
