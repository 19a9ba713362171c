"""One process of a service does a job that is not to be done twice: who holds its lease."""

from __future__ import annotations

import contextlib

from libs.eventstore.ports import EventStore, Fence, StoreUnavailable


class Leadership:
    """One process of a service does a job: the one that holds the job's lease."""

    def __init__(self, store: EventStore, job: str) -> None:
        self.store = store
        self.job = job
        self.epoch: int | None = None

    async def is_leader(self) -> bool:
        """Whether this process is the one; takes the lease if it is free."""
        if self.epoch is None:
            self.epoch = await self.store.take_lease(self.job)
        return self.epoch is not None

    async def give_back(self) -> None:
        """Let another process do the job at once."""
        if self.epoch is not None:
            fence, self.epoch = Fence(self.job, self.epoch), None
            with contextlib.suppress(StoreUnavailable):
                await self.store.release_lease(fence)

    def keep(self, still_held: set[str]) -> None:
        """Forget the lease if a renewal did not find it."""
        if self.job not in still_held:
            self.epoch = None
