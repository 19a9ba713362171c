"""Identities as clients read them, and the bodies that make and change them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel

from libs.contracts.letta.agent_requests import BlockId, Ids, id_of
from libs.contracts.letta.request_size_limits import NAMES_MAX, JsonLimit, Name

type AgentId = Annotated[str, id_of("agent")]
type FilledName = Annotated[Name, Field(min_length=1)]


class IdentityType(StrEnum):
    """The type of an identity."""

    org = "org"
    user = "user"
    other = "other"


class IdentityProperty(BaseModel):
    """A property of an identity."""

    model_config = ConfigDict(frozen=True)

    key: FilledName
    value: str | int | float | bool | dict[str, JsonValue]
    type: Literal["string", "number", "boolean", "json"]


type Properties = Annotated[list[IdentityProperty], Field(max_length=NAMES_MAX), JsonLimit()]


class IdentityState(BaseModel):
    """An identity: a person, an organisation or something else outside that a client has a key
    for."""

    model_config = ConfigDict(frozen=True)

    id: str
    identifier_key: str
    name: str
    identity_type: IdentityType
    project_id: str | None = None
    organization_id: str = ""
    properties: list[IdentityProperty] = []


class IdentityCreate(BaseModel):
    """A new identity, and what it is attached to."""

    identifier_key: FilledName
    name: FilledName
    identity_type: IdentityType
    project_id: Name | None = None
    agent_ids: Ids[AgentId] | None = None
    block_ids: Ids[BlockId] | None = None
    properties: Properties | None = None


class IdentityUpsert(IdentityCreate):
    """The identity that is to have this key, whether there is one or not."""


class IdentityUpdate(BaseModel):
    """A change to an identity: only the fields that are sent, and are not null, count."""

    identifier_key: FilledName | None = None
    name: FilledName | None = None
    identity_type: IdentityType | None = None
    agent_ids: Ids[AgentId] | None = None
    block_ids: Ids[BlockId] | None = None
    properties: Properties | None = None


class IdentityProperties(RootModel[Properties]):
    """All properties of an identity, instead of those that it has."""


def merged_properties(
    before: list[IdentityProperty], added: list[IdentityProperty]
) -> list[IdentityProperty]:
    """Properties with others over them: each key once, where it stood first."""
    return [*{each.key: each for each in [*before, *added]}.values()]
