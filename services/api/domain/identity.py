"""An identity: who or what outside an agent or a block is about."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.api.identities import IdentityChanged, IdentityCreated, IdentityDeleted
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    UNPROCESSABLE,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.identities import IdentityProperty, IdentityState, merged_properties
from libs.contracts.letta.request_size_limits import NAMES_MAX
from services.api.domain.refusals import missing

IDENTITIES_MAX = 100_000  # of an organisation


class KnownIdentityState(BaseModel):
    """The state of an identity."""

    identity: IdentityState | None = None
    deleted: bool = False


class Identity(Aggregate[KnownIdentityState]):
    """One identity."""

    State = KnownIdentityState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> IdentityState | None:
        """The identity, unless it is gone or was never there."""
        return None if self.state.deleted else self.state.identity

    def create(self, identity: IdentityState, *, at: datetime) -> Rejected | None:
        """Create the identity, unless it exists."""
        if self.exists:
            here: JsonObject = {"owner_id": self.id} if self.present else {}
            reason = f"Identity {identity.id} exists already"
            return Rejected(code=CONFLICT, reason=reason, details=here)
        self.record(IdentityCreated, at=at, identity=identity)
        return None

    def become(self, after: IdentityState, *, at: datetime) -> Rejected | None:
        """Have these fields; changing nothing is not an event."""
        before = self.present
        if before is None:
            return missing("identity", self.id)
        if len(after.properties) > NAMES_MAX:
            reason = (
                f"`properties`: an identity has at most {NAMES_MAX}, and this one would have"
                f" {len(after.properties)}: replace them by fewer"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        changes = changed_fields(before, after)
        if changes:
            self.record(IdentityChanged, at=at, changes=changes)
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the identity, if it exists."""
        if self.present is None:
            return missing("identity", self.id)
        self.record(IdentityDeleted, at=at)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case IdentityCreated():
                self.state.identity = event.identity
            case IdentityChanged():
                assert self.state.identity is not None, "an identity is created before it changes"
                fields = {**self.state.identity.model_dump(), **event.changes}
                self.state.identity = IdentityState.model_validate(fields)
            case IdentityDeleted():
                self.state = KnownIdentityState(deleted=True)


def changed_fields(before: IdentityState, after: IdentityState) -> JsonObject:
    """The fields that differ, with their new values."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: value for name, value in new.items() if old[name] != value}


def changed_identity(
    identity: IdentityState, properties: list[IdentityProperty] | None, *, merge: bool
) -> IdentityState:
    """An identity with other properties: over those that it has, or instead of them."""
    if properties is None:
        return identity
    wanted = merged_properties(identity.properties if merge else [], properties)
    return identity.model_copy(update={"properties": wanted})


def refuse_key(identity: IdentityState, owner_id: str) -> Rejected:
    """The refusal of a key that another identity has, whose id it says."""
    reason = f"An identity with identifier key {identity.identifier_key} already exists"
    if identity.project_id:
        reason += f" for project {identity.project_id}"
    return Rejected(code=CONFLICT, reason=reason, details={"owner_id": owner_id})
