"""The language of attachments: which agents and blocks an identity has.

Each is an aggregate of its own, so as many as wanted are made at the same time, and nobody has a
list of them that grows. It shows while both ends exist: who deletes one of them need not know.
"""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import Command, Event
from libs.contracts.deterministic_ids import derived_id

SERVICE = "api"

ATTACHED_MAX = 100  # identities of an agent or of a block


def attachment_id(org: str, owner_id: str, target_id: str) -> str:
    """The id of the aggregate that knows whether an agent or a block is attached to something."""
    return derived_id("attachment", org, owner_id, target_id)


class AttachIdentity(Command):
    """Attach an identity to an agent or a block; twice is once."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "attachment.attach_identity"
    identity_id: str
    target_id: str

    @property
    def target(self) -> str:
        return self.target_id


class DetachIdentity(Command):
    """Detach an identity from an agent or a block; twice is once."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "attachment.detach_identity"
    identity_id: str
    target_id: str

    @property
    def target(self) -> str:
        return self.target_id


class ReplaceIdentities(Command):
    """Have an agent or a block be attached to these identities, and to no others."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "attachment.replace_identities"
    target_id: str
    identity_ids: list[str]

    @property
    def target(self) -> str:
        return self.target_id


class AttachmentMade(Event):
    """An agent or a block (`target_id`) is attached to something (`owner_id`), such as an
    identity."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "attachment.made"
    owner_id: str
    target_id: str

    @property
    def about(self) -> str:
        return self.target_id


class AttachmentRemoved(Event):
    """An agent or a block is attached to something no more."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "attachment.removed"
    owner_id: str
    target_id: str

    @property
    def about(self) -> str:
        return self.target_id
