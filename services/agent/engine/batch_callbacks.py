"""Tell clients that their batches have ended, as often as it takes, within bounds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic_core import to_json

from libs.bus.fair_semaphore import FairSemaphore
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import WorkLease
from services.agent.adapters.batch_queries import DueBatchCallback
from services.agent.domain.batches.batch import Batch
from services.agent.domain.conversations.callback_attempts import CallbackOutcome
from services.agent.engine.callbacks import (
    CALLBACKS_AT_ONCE_MAX,
    ORGANISATION_CALLBACKS_AT_ONCE_MAX,
    Poster,
)
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)


class BatchCallbacks(LeasedWork[DueBatchCallback]):
    """Tells the clients of batches, at least once, as `CallbackSender` tells those of runs."""

    name = "batch callback"
    ports: EnginePorts

    def __init__(self, ports: EnginePorts, poster: Poster) -> None:
        places = FairSemaphore(
            CALLBACKS_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_CALLBACKS_AT_ONCE_MAX,
            users="callbacks",
            thing="place",
        )
        super().__init__(ports, places)
        self.poster = poster

    async def due(self) -> Sequence[DueBatchCallback]:
        """The callbacks whose time has come, and that nobody sends."""
        return await self.ports.queries.due_batch_callbacks(CALLBACKS_AT_ONCE_MAX)

    async def attempt(self, lease: WorkLease[DueBatchCallback]) -> None:
        """Tell a client that its batch has ended, and record what came of it."""
        due, sent_at = lease.work, self.ports.clock.now()
        outcome = await self.poster.post(due.url, callback_body(due))
        log.info("callback of %s: %s", due.batch_id, outcome.status or outcome.error)

        async def decide(unit: UnitOfWork) -> None:
            batch = await unit.load(Batch, due.batch_id)
            now = self.ports.clock.now()
            batch.note_callback(outcome, attempts=due.attempts + 1, sent_at=sent_at, at=now)

        await lease.record(decide, about=due.batch_id)

    async def give_up(self, unit: UnitOfWork, work: DueBatchCallback, reason: str) -> None:
        """Decide that a client is not told."""
        batch, at = await unit.load(Batch, work.batch_id), self.ports.clock.now()
        outcome = CallbackOutcome(error=reason, forbidden=True)
        batch.note_callback(outcome, attempts=work.attempts + 1, sent_at=at, at=at)

    def aggregate_id(self, work: DueBatchCallback) -> str:
        """The batch that has ended."""
        return work.batch_id


def callback_body(due: DueBatchCallback) -> bytes:
    """The callback's body for the client of a batch, in V1's names."""
    return to_json({"job_id": due.batch_id, "status": due.status, "completed_at": due.completed_at})
