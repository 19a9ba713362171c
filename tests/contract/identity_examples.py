"""One example of each message about identities and attachments."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.api.attachments import (
    AttachIdentity,
    AttachmentMade,
    AttachmentRemoved,
    DetachIdentity,
    ReplaceIdentities,
    attachment_id,
)
from libs.contracts.api.identities import (
    CreateIdentity,
    DeleteIdentity,
    IdentityChanged,
    IdentityCreated,
    IdentityDeleted,
    IdentityKeyFreed,
    IdentityKeyTaken,
    UpdateIdentity,
    UpsertIdentity,
    identity_key_id,
)
from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.identities import IdentityProperty, IdentityState, IdentityType

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AGENT = "agent-11111111-1111-4111-8111-111111111111"
BLOCK = "block-22222222-2222-4222-8222-222222222222"
IDENTITY = "identity-41414141-4141-4141-8141-414141414141"
KEY = identity_key_id("org-1", None, "ada")
ATTACHMENT = attachment_id("org-1", IDENTITY, AGENT)
LANGUAGE = IdentityProperty(key="language", value="de", type="string")
ADA = IdentityState(
    id=IDENTITY,
    identifier_key="ada",
    name="Ada",
    identity_type=IdentityType.user,
    organization_id="org-1",
    properties=[LANGUAGE],
)


def of[E: Event](kind: type[E], aggregate_id: str, **fields: object) -> E:
    """An event of an aggregate."""
    return kind.model_validate(
        {"originator_id": aggregate_id, "originator_version": 1, "timestamp": AT, **fields}
    )


IDENTITY_COMMANDS: list[Command] = [
    CreateIdentity(identity=ADA, agent_ids=[AGENT], block_ids=[BLOCK]),
    UpsertIdentity(identity=ADA, agent_ids=[AGENT], replaces_agents=True),
    UpdateIdentity(
        identity_id=IDENTITY,
        name="Ada L.",
        properties=[LANGUAGE],
        properties_mode="replace",
        agent_ids=[AGENT],
    ),
    DeleteIdentity(identity_id=IDENTITY),
    AttachIdentity(identity_id=IDENTITY, target_id=AGENT),
    DetachIdentity(identity_id=IDENTITY, target_id=BLOCK),
    ReplaceIdentities(target_id=AGENT, identity_ids=[IDENTITY]),
]
IDENTITY_EVENTS: list[Event] = [
    of(IdentityCreated, IDENTITY, identity=ADA),
    of(IdentityChanged, IDENTITY, changes={"name": "Ada L."}),
    of(IdentityDeleted, IDENTITY),
    of(IdentityKeyTaken, KEY, identity_id=IDENTITY),
    of(IdentityKeyFreed, KEY, identity_id=IDENTITY),
    of(AttachmentMade, ATTACHMENT, owner_id=IDENTITY, target_id=AGENT),
    of(AttachmentRemoved, ATTACHMENT, owner_id=IDENTITY, target_id=AGENT),
]
SUBJECTS = {
    "CreateIdentity": f"api.command.identity.create.org-1.{IDENTITY}",
    "UpsertIdentity": f"api.command.identity.upsert.org-1.{IDENTITY}",
    "UpdateIdentity": f"api.command.identity.update.org-1.{IDENTITY}",
    "DeleteIdentity": f"api.command.identity.delete.org-1.{IDENTITY}",
    "AttachIdentity": f"api.command.attachment.attach_identity.org-1.{AGENT}",
    "DetachIdentity": f"api.command.attachment.detach_identity.org-1.{BLOCK}",
    "ReplaceIdentities": f"api.command.attachment.replace_identities.org-1.{AGENT}",
    "IdentityCreated": f"api.event.identity.created.org-1.{IDENTITY}",
    "IdentityChanged": f"api.event.identity.changed.org-1.{IDENTITY}",
    "IdentityDeleted": f"api.event.identity.deleted.org-1.{IDENTITY}",
    "IdentityKeyTaken": f"api.event.identity_key.taken.org-1.{IDENTITY}",
    "IdentityKeyFreed": f"api.event.identity_key.freed.org-1.{IDENTITY}",
    "AttachmentMade": f"api.event.attachment.made.org-1.{AGENT}",
    "AttachmentRemoved": f"api.event.attachment.removed.org-1.{AGENT}",
}
