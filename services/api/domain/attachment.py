"""An attachment: whether an agent or a block is attached to an identity."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.api.attachments import ATTACHED_MAX, AttachmentMade, AttachmentRemoved
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import UNPROCESSABLE, Event, Rejected


class AttachmentState(BaseModel):
    """Whether it is there now."""

    made: bool = False


class Attachment(Aggregate[AttachmentState]):
    """One pair of an owner and what is attached to it."""

    State = AttachmentState

    def make(self, owner_id: str, target_id: str, *, at: datetime) -> None:
        """Be there; twice is once."""
        if not self.state.made:
            self.record(AttachmentMade, at=at, owner_id=owner_id, target_id=target_id)

    def remove(self, owner_id: str, target_id: str, *, at: datetime) -> None:
        """Be there no more; twice is once."""
        if self.state.made:
            self.record(AttachmentRemoved, at=at, owner_id=owner_id, target_id=target_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        self.state.made = isinstance(event, AttachmentMade)


def too_many(attached: int) -> Rejected | None:
    """The refusal of one more identity for an agent or a block that has as many as it may."""
    if attached <= ATTACHED_MAX:
        return None
    reason = (
        f"{attached} identities are too many, an agent or a block has at most {ATTACHED_MAX}:"
        " detach some"
    )
    return Rejected(code=UNPROCESSABLE, reason=reason)
