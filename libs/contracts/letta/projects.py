"""Projects as clients read them, and the bodies that make and change them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from libs.contracts.letta.agent_requests import Ids
from libs.contracts.letta.identities import AgentId, FilledName
from libs.contracts.letta.request_size_limits import Name, Text

TAGS_MAX = 100

type Tags = Annotated[list[FilledName], Field(max_length=TAGS_MAX)]


class ProjectState(BaseModel):
    """A project; its times are those of its events."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    description: str | None = None
    tags: list[str] = []
    owner_id: str | None = None
    organization_id: str = ""
    created_by_id: str | None = None
    last_updated_by_id: str | None = None


class ProjectCreate(BaseModel):
    """A new project; without an owner it belongs to the one who makes it."""

    name: FilledName
    description: Text | None = None
    tags: Tags = []
    owner_id: Name | None = None


class ProjectUpdate(BaseModel):
    """A change to a project: only the fields that are sent count."""

    name: FilledName | None = None
    description: Text | None = None
    tags: Tags | None = None
    owner_id: Name | None = None

    @field_validator("name", "tags", mode="before")
    @classmethod
    def _null_is_no_value(cls, sent: JsonValue) -> JsonValue:
        if sent is None:
            raise ValueError("null is no value of this field: leave it out to keep what there is")
        return sent


class ProjectAgents(BaseModel):
    """Agents that a project is to have, besides those that it has."""

    agent_ids: Annotated[Ids[AgentId], Field(min_length=1)]


def slug_of(name: str) -> str:
    """A name as it stands in addresses: small letters, digits, and hyphens between them."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
