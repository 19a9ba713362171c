"""Commands about identities: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.identities import (
    CreateIdentity,
    DeleteIdentity,
    UpdateIdentity,
    UpsertIdentity,
    identity_key_id,
)
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Command, Rejected
from libs.contracts.letta.identities import IdentityState
from libs.contracts.letta.request_size_limits import NAMES_MAX
from libs.eventstore.unit_of_work import UnitOfWork
from services.api.domain.attachment import too_many
from services.api.domain.identity import (
    IDENTITIES_MAX,
    Identity,
    changed_identity,
    refuse_key,
)
from services.api.domain.name_reservations import IdentityKey
from services.api.domain.refusals import missing, no_room
from services.api.handlers.attachments import AttachmentHandlers
from services.api.handlers.ports import HandlerPorts, Reply


class IdentityHandlers:
    """The handlers of commands to identities."""

    def __init__(self, ports: HandlerPorts, attachments: AttachmentHandlers) -> None:
        self.ports = ports
        self.attachments = attachments

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateIdentity: self.create_identity,
            UpsertIdentity: self.upsert_identity,
            UpdateIdentity: self.update_identity,
            DeleteIdentity: self.delete_identity,
        }

    async def create_identity(self, command: CreateIdentity, work: UnitOfWork) -> Reply:
        """Make an identity, unless its key is taken."""
        org = work.context.org
        identities = await self.ports.attachments.count_identities(org)
        full = no_room("identities", identities, IDENTITIES_MAX)
        if full:
            return full
        wanted = command.identity.model_copy(update={"organization_id": org})
        identity = await work.load_new(Identity, wanted.id)
        refused = identity.create(wanted, at=self.ports.clock.now())
        refused = refused or await self.take_key(wanted, work)
        refused = refused or await self.attach(
            wanted.id, [*command.agent_ids, *command.block_ids], work
        )
        return refused or Accepted(result={"identity_id": wanted.id})

    async def upsert_identity(self, command: UpsertIdentity, work: UnitOfWork) -> Reply:
        """Make the identity of a key like this, or create it."""
        wanted = command.identity
        key = await self.key_of(wanted, work)
        if key.owner_id is None:
            return await self.create_identity(command, work)
        identity = await work.load(Identity, key.owner_id)
        before = identity.present
        assert before is not None, "the key of a deleted identity is free"
        kept = before.model_copy(
            update={"name": wanted.name, "identity_type": wanted.identity_type}
        )
        properties = wanted.properties if command.replaces_properties else None
        after = changed_identity(kept, properties, merge=False)
        refused = identity.become(after, at=self.ports.clock.now())
        for replaces, kind, target_ids in (
            (command.replaces_agents, "agent", command.agent_ids),
            (command.replaces_blocks, "block", command.block_ids),
        ):
            if replaces and refused is None:
                refused = await self.replace(identity.id, kind, target_ids, work)
        return refused or Accepted(result={"identity_id": identity.id})

    async def update_identity(self, command: UpdateIdentity, work: UnitOfWork) -> Reply:
        """Change the given fields of an identity, and its key if that follows."""
        identity = await work.load(Identity, command.identity_id)
        before = identity.present
        if before is None:
            return missing("identity", identity.id)
        given = {
            "name": command.name,
            "identifier_key": command.identifier_key,
            "identity_type": command.identity_type,
        }
        after = before.model_copy(
            update={name: value for name, value in given.items() if value is not None}
        )
        merge = command.properties_mode == "merge"
        after = changed_identity(after, command.properties, merge=merge)
        refused = await self.change_key(before, after, work)
        refused = refused or identity.become(after, at=self.ports.clock.now())
        refused = refused or await self.attach(
            identity.id, [*command.agent_ids, *command.block_ids], work
        )
        return refused or Accepted()

    async def delete_identity(self, command: DeleteIdentity, work: UnitOfWork) -> Reply:
        """Remove an identity; its attachments show no more from then on."""
        identity = await work.load(Identity, command.identity_id)
        gone = identity.present
        refused = identity.delete(at=self.ports.clock.now())
        if gone is not None:
            await self.free_key(gone, work)
        return refused or Accepted()

    async def key_of(self, identity: IdentityState, work: UnitOfWork) -> IdentityKey:
        """The aggregate that guards the key of an identity."""
        guard_id = identity_key_id(work.context.org, identity.project_id, identity.identifier_key)
        return await work.load(IdentityKey, guard_id)

    async def take_key(self, identity: IdentityState, work: UnitOfWork) -> Rejected | None:
        """Give an identity its key, unless another one has it."""
        guard, at = await self.key_of(identity, work), self.ports.clock.now()
        taken = guard.take(identity.id, at=at)
        return None if taken else refuse_key(identity, str(guard.owner_id))

    async def free_key(self, identity: IdentityState, work: UnitOfWork) -> None:
        """Let others have the key of an identity."""
        guard = await self.key_of(identity, work)
        guard.free(identity.id, at=self.ports.clock.now())

    async def change_key(
        self, before: IdentityState, after: IdentityState, work: UnitOfWork
    ) -> Rejected | None:
        """Give an identity another key instead of the one that it has, if that changes."""
        if before.identifier_key == after.identifier_key:
            return None
        refused = await self.take_key(after, work)
        if refused is None:
            await self.free_key(before, work)
        return refused

    async def attach(
        self, identity_id: str, target_ids: list[str], work: UnitOfWork
    ) -> Rejected | None:
        """Attach an identity to agents and blocks, all or none of them."""
        org = work.context.org
        if refused := await self.attachments.refuse_missing(target_ids, work):
            return refused
        for target_id in dict.fromkeys(target_ids):
            attached = await self.ports.attachments.identities_of(org, target_id)
            if refused := too_many(len({*attached, identity_id})):
                return refused
            await self.attachments.make(identity_id, target_id, work)
        return None

    async def replace(
        self, identity_id: str, kind: str, target_ids: list[str], work: UnitOfWork
    ) -> Rejected | None:
        """Attach an identity to these agents, or blocks, and to no others."""
        attached = await self.ports.attachments.targets_of(
            work.context.org, identity_id, f"{kind}-", NAMES_MAX + 1
        )
        if len(attached) > NAMES_MAX:
            reason = (
                f"The identity is attached to more than {NAMES_MAX} {kind}s: leave out"
                f" `{kind}_ids`, and detach them one by one"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        for target_id in attached:
            if target_id not in target_ids:
                await self.attachments.remove(identity_id, target_id, work)
        return await self.attach(identity_id, target_ids, work)
