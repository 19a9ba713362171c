"""Tell clients that their runs and batches have ended, as often as it takes, within bounds.

That a client is to be told is a row from the acceptance of its run or batch on. Each attempt is
made under a lease, and its outcome is an event. If the process dies in between, another repeats the
attempt: delivery is at least once.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime

from pydantic_core import to_json

from libs.bus.fair_semaphore import FairSemaphore
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.enums import StopReasonType
from libs.contracts.letta.messages import only_types
from libs.contracts.letta.response_and_stream_events import letta_response
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import WorkLease
from services.agent.adapters.batch_queries import DueBatchCallback
from services.agent.adapters.callback_poster import CallbackPoster
from services.agent.adapters.run_queries import DueCallback
from services.agent.domain.batches.batch import Batch
from services.agent.domain.conversations.callback_attempts import CallbackOutcome, record_attempt
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)

CALLBACKS_AT_ONCE_MAX = 16
ORGANISATION_CALLBACKS_AT_ONCE_MAX = 12
BODY_BYTES_MAX = 4 << 20
NO_BODY = "The answer of the run could not be put together: the log of the server says why"


class SentCallbacks[Due: DueCallback | DueBatchCallback](LeasedWork[Due]):
    """The sender of HTTP posts."""

    ports: EnginePorts

    def __init__(self, ports: EnginePorts, poster: CallbackPoster) -> None:
        places = FairSemaphore(
            CALLBACKS_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_CALLBACKS_AT_ONCE_MAX,
            users="callbacks",
            thing="place",
        )
        super().__init__(ports, places)
        self.poster = poster

    @abstractmethod
    async def outcome(self, due: Due) -> CallbackOutcome:
        """What comes of telling a client."""

    @abstractmethod
    async def note(
        self, unit: UnitOfWork, due: Due, outcome: CallbackOutcome, sent_at: datetime
    ) -> None:
        """Decide that a client was told so, unless nobody needs to know any more."""

    async def attempt(self, lease: WorkLease[Due]) -> None:
        """Tell a client, and record what came of it."""
        due, sent_at = lease.work, self.ports.clock.now()
        outcome = await self.outcome(due)
        log.info("%s: %s", due.id, outcome.status or outcome.error)

        async def decide(unit: UnitOfWork) -> None:
            await self.note(unit, due, outcome, sent_at)

        await lease.record(decide, about=self.aggregate_id(due))

    async def give_up(self, unit: UnitOfWork, work: Due, reason: str) -> None:
        """Decide that a client is not told."""
        outcome = CallbackOutcome(error=reason, forbidden=True)
        await self.note(unit, work, outcome, self.ports.clock.now())


class CallbackSender(SentCallbacks[DueCallback]):
    """The callbacks of runs."""

    name = "callback"

    async def due(self) -> Sequence[DueCallback]:
        """The callbacks whose time has come, and that nobody sends."""
        return await self.ports.queries.due_callbacks(
            ORGANISATION_CALLBACKS_AT_ONCE_MAX, CALLBACKS_AT_ONCE_MAX
        )

    def aggregate_id(self, work: DueCallback) -> str:
        """The conversation of the run."""
        return work.conversation_id

    async def note(
        self, unit: UnitOfWork, due: DueCallback, outcome: CallbackOutcome, sent_at: datetime
    ) -> None:
        conversation = await unit.load(Conversation, due.conversation_id)
        if conversation.exists and not conversation.deleted:
            now = self.ports.clock.now()
            attempts = due.attempts + 1
            record_attempt(
                conversation, due.run_id, outcome, attempts=attempts, sent_at=sent_at, at=now
            )

    async def outcome(self, due: DueCallback) -> CallbackOutcome:
        """The outcome of one post. If the run's answer cannot be put together, for a reason that
        the next attempt may meet as well, the attempt counts as failed."""
        try:
            body = await self.body(due)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("the answer of %s cannot be put together", due.run_id)
            return CallbackOutcome(error=NO_BODY)
        return await self.poster.post(due.url, body)

    async def body(self, due: DueCallback) -> bytes:
        """The callback's body: how its run ended and, unless that is too long, the answer."""
        asked = due.run["request_config"]["include_return_message_types"]
        found = await self.ports.queries.run_messages(due.org, due.run_id)
        messages = only_types(found, asked or None)
        reason = StopReasonType(str(due.run["stop_reason"]))
        result = letta_response(messages, reason, due.usage or {})
        body = to_json(callback_body(due, result))
        return body if len(body) <= BODY_BYTES_MAX else to_json(callback_body(due, None))


def callback_body(due: DueCallback, result: JsonObject | None) -> JsonObject:
    """The body of a callback: how the run ended, with this result."""
    return {
        "run_id": due.run_id,
        "status": due.run["status"],
        "completed_at": due.run["completed_at"],
        "metadata": {**(due.run["metadata"] or {}), "result": result},
    }


class BatchCallbacks(SentCallbacks[DueBatchCallback]):
    """The callbacks of batches."""

    name = "batch callback"

    async def due(self) -> Sequence[DueBatchCallback]:
        """The callbacks whose time has come, and that nobody sends."""
        return await self.ports.queries.due_batch_callbacks(CALLBACKS_AT_ONCE_MAX)

    def aggregate_id(self, work: DueBatchCallback) -> str:
        """The batch that has ended."""
        return work.batch_id

    async def outcome(self, due: DueBatchCallback) -> CallbackOutcome:
        """What comes of telling the client of a batch that it has ended, by V1's names."""
        body = {"job_id": due.batch_id, "status": due.status, "completed_at": due.completed_at}
        return await self.poster.post(due.url, to_json(body))

    async def note(
        self, unit: UnitOfWork, due: DueBatchCallback, outcome: CallbackOutcome, sent_at: datetime
    ) -> None:
        batch, now = await unit.load(Batch, due.batch_id), self.ports.clock.now()
        batch.note_callback(outcome, attempts=due.attempts + 1, sent_at=sent_at, at=now)
