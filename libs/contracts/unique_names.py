"""Names that one thing has at a time: a tool in an organisation, a file in a folder."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event


class UniqueNameState(BaseModel):
    """Which thing has the name, if any."""

    owner_id: str | None = None


class UniqueName(Aggregate[UniqueNameState]):
    """A name and its owner. It changes in the same commit as its owner.

    A subclass names its two events, which are `about` the owner, and their field with its id. The
    name itself is in neither, since it may say something of a person: the id of the aggregate
    follows from it.
    """

    State = UniqueNameState
    taken: ClassVar[type[Event]]
    freed: ClassVar[type[Event]]
    owner_field: ClassVar[str]

    @property
    def owner_id(self) -> str | None:
        """The thing that has the name, if any."""
        return self.state.owner_id

    def take(self, owner_id: str, *, at: datetime) -> bool:
        """Take the name for this owner, unless another has it; returns whether it has it now."""
        if self.state.owner_id is not None:
            return self.state.owner_id == owner_id
        self.record(self.taken, at=at, **{self.owner_field: owner_id})
        return True

    def free(self, owner_id: str, *, at: datetime) -> None:
        """Release the name if this owner holds it."""
        if self.state.owner_id == owner_id:
            self.record(self.freed, at=at, **{self.owner_field: owner_id})

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        self.state.owner_id = event.about if isinstance(event, self.taken) else None
