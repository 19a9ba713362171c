"""The language of attachments: which agents and blocks an identity has.

Each is an aggregate of its own, so as many as wanted are made at the same time, and nobody has a
list of them that grows. It shows while both ends exist: who deletes one of them need not know.
"""

from __future__ import annotations

from libs.contracts.bus_messages import Command, Event
from libs.contracts.deterministic_ids import derived_id

SERVICE = "api"

ATTACHED_MAX = 100  # identities of an agent or of a block


def attachment_id(org: str, owner_id: str, target_id: str) -> str:
    """The id of the aggregate that knows whether an agent or a block is attached to something."""
    return derived_id("attachment", org, owner_id, target_id)


class AttachIdentity(Command, service=SERVICE, topic="attachment.attach_identity"):
    """Attach an identity to an agent or a block; twice is once."""

    identity_id: str
    target_id: str

    @property
    def target(self) -> str:
        return self.target_id


class DetachIdentity(Command, service=SERVICE, topic="attachment.detach_identity"):
    """Detach an identity from an agent or a block; twice is once."""

    identity_id: str
    target_id: str

    @property
    def target(self) -> str:
        return self.target_id


class ReplaceIdentities(Command, service=SERVICE, topic="attachment.replace_identities"):
    """Have an agent or a block be attached to these identities, and to no others."""

    target_id: str
    identity_ids: list[str]

    @property
    def target(self) -> str:
        return self.target_id


class AttachmentMade(Event, service=SERVICE, topic="attachment.made"):
    """An agent or a block (`target_id`) is attached to something (`owner_id`), such as an
    identity."""

    owner_id: str
    target_id: str

    @property
    def about(self) -> str:
        return self.target_id


class AttachmentRemoved(Event, service=SERVICE, topic="attachment.removed"):
    """An agent or a block is attached to something no more."""

    owner_id: str
    target_id: str

    @property
    def about(self) -> str:
        return self.target_id
