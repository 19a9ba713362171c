"""The language of identities: who or what outside an agent or a block is about. What they are
attached to is in `attachments`."""

from __future__ import annotations

from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.identities import IdentityProperty, IdentityState, IdentityType

SERVICE = "api"

type PropertiesMode = Literal["merge", "replace"]


def identity_key_id(org: str, project_id: str | None, identifier_key: str) -> str:
    """The id of the aggregate that guards a key of the identities of a project, or of those of an
    organisation that are of none."""
    return derived_id("identity_key", org, project_id or "", identifier_key)


class CreateIdentity(Command, service=SERVICE, topic="identity.create"):
    """Make an identity, attached to these agents and blocks; a key that another identity of the
    project has is refused."""

    identity: IdentityState
    agent_ids: list[str] = Field(default=[], exclude_if=not_)
    block_ids: list[str] = Field(default=[], exclude_if=not_)

    @property
    def target(self) -> str:
        return self.identity.id


class UpsertIdentity(CreateIdentity, topic="identity.upsert"):
    """Make the identity that has this key like this, or create it.

    Properties, agents and blocks replace those that it had, where that is said. The result has its
    `identity_id`.
    """

    replaces_properties: bool = False
    replaces_agents: bool = False
    replaces_blocks: bool = False


class UpdateIdentity(Command, service=SERVICE, topic="identity.update"):
    """Change the given fields of an identity, and attach it to more agents and blocks.

    Properties are set over those that it has, or replace them all.
    """

    identity_id: str
    name: str | None = None
    identifier_key: str | None = None
    identity_type: IdentityType | None = None
    properties: list[IdentityProperty] | None = None
    properties_mode: PropertiesMode = "merge"
    agent_ids: list[str] = Field(default=[], exclude_if=not_)
    block_ids: list[str] = Field(default=[], exclude_if=not_)

    @property
    def target(self) -> str:
        return self.identity_id


class DeleteIdentity(Command, service=SERVICE, topic="identity.delete"):
    """Remove an identity; nothing is attached to it any more."""

    identity_id: str

    @property
    def target(self) -> str:
        return self.identity_id


class IdentityCreated(Event, service=SERVICE, topic="identity.created"):
    """An identity exists."""

    identity: IdentityState


class IdentityChanged(Event, service=SERVICE, topic="identity.changed"):
    """Fields of an identity have new values."""

    changes: JsonObject


class IdentityDeleted(Event, service=SERVICE, topic="identity.deleted"):
    """An identity is gone, and all of its attachments with it."""


class IdentityKeyTaken(Event, service=SERVICE, topic="identity_key.taken"):
    """An identity of a project has a key, and no other one may have it.

    Which one is not said, since it may be the name of a person: the id of the aggregate follows
    from it.
    """

    identity_id: str

    @property
    def about(self) -> str:
        return self.identity_id


class IdentityKeyFreed(Event, service=SERVICE, topic="identity_key.freed"):
    """No identity of a project has a key any more."""

    identity_id: str

    @property
    def about(self) -> str:
        return self.identity_id
