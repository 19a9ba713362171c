"""Commands about attachments: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.attachments import (
    AttachIdentity,
    DetachIdentity,
    ReplaceIdentities,
    attachment_id,
)
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.api.domain.attachment import Attachment, too_many
from services.api.domain.identity import Identity
from services.api.domain.refusals import missing
from services.api.handlers.ports import HandlerPorts, Reply


class AttachmentHandlers:
    """The handlers of commands to attachments."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            AttachIdentity: self.attach_identity,
            DetachIdentity: self.detach_identity,
            ReplaceIdentities: self.replace_identities,
        }

    async def attach_identity(self, command: AttachIdentity, work: UnitOfWork) -> Reply:
        """Attach one more identity to an agent or a block."""
        org, target_id = work.context.org, command.target_id
        attached = await self.ports.attachments.identities_of(org, target_id)
        wanted = dict.fromkeys([*attached, command.identity_id])
        return await self.attach(target_id, [command.identity_id], len(wanted), work) or Accepted()

    async def detach_identity(self, command: DetachIdentity, work: UnitOfWork) -> Reply:
        """Detach an identity from an agent or a block."""
        identity = await work.load(Identity, command.identity_id)
        if identity.present is None:
            return missing("identity", identity.id)
        if refused := await self.refuse_missing([command.target_id], work):
            return refused
        await self.remove(command.identity_id, command.target_id, work)
        return Accepted()

    async def replace_identities(self, command: ReplaceIdentities, work: UnitOfWork) -> Reply:
        """Attach exactly these identities to an agent or a block."""
        org, target_id = work.context.org, command.target_id
        wanted = list(dict.fromkeys(command.identity_ids))
        attached = await self.ports.attachments.identities_of(org, target_id)
        added = [identity_id for identity_id in wanted if identity_id not in attached]
        if refused := await self.attach(target_id, added, len(wanted), work):
            return refused
        for identity_id in attached:
            if identity_id not in wanted:
                await self.remove(identity_id, target_id, work)
        return Accepted()

    async def attach(
        self, target_id: str, identity_ids: Sequence[str], count: int, work: UnitOfWork
    ) -> Rejected | None:
        """Attach identities to an agent or a block, which then has so many."""
        if refused := too_many(count):
            return refused
        if refused := await self.refuse_missing([target_id], work):
            return refused
        for identity_id in identity_ids:
            if (await work.load(Identity, identity_id)).present is None:
                return missing("identity", identity_id)
            await self.make(identity_id, target_id, work)
        return None

    async def refuse_missing(self, target_ids: Sequence[str], work: UnitOfWork) -> Rejected | None:
        """The refusal for the first of these agents and blocks that is not there."""
        gone = await self.ports.attachments.first_missing(work.context.org, target_ids)
        return missing(gone.partition("-")[0], gone) if gone else None

    async def is_made(self, owner_id: str, target_id: str, work: UnitOfWork) -> bool:
        """Whether an agent or a block is attached to an owner."""
        return (await attachment_of(owner_id, target_id, work)).state.made

    async def make(self, owner_id: str, target_id: str, work: UnitOfWork) -> None:
        """Have an agent or a block attached to an owner, which exists."""
        attachment = await attachment_of(owner_id, target_id, work)
        attachment.make(owner_id, target_id, at=self.ports.clock.now())

    async def remove(self, owner_id: str, target_id: str, work: UnitOfWork) -> None:
        """Have an agent or a block attached to an owner no more."""
        attachment = await attachment_of(owner_id, target_id, work)
        attachment.remove(owner_id, target_id, at=self.ports.clock.now())


async def attachment_of(owner_id: str, target_id: str, work: UnitOfWork) -> Attachment:
    """The attachment of an agent or a block to an owner."""
    return await work.load(Attachment, attachment_id(work.context.org, owner_id, target_id))
