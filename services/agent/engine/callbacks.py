"""Tell clients that their runs have ended, as often as it takes, within bounds.

That a client is to be told is a row from the acceptance of its run on. Each attempt is made under a
lease, and its outcome is an event. If the process dies in between, another repeats the attempt:
delivery is at least once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

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
from services.agent.adapters.run_queries import DueCallback
from services.agent.domain.conversations.callback_attempts import CallbackOutcome, record_attempt
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)

CALLBACKS_AT_ONCE_MAX = 16
ORGANISATION_CALLBACKS_AT_ONCE_MAX = 12
BODY_BYTES_MAX = 4 << 20
NO_BODY = "The answer of the run could not be put together: the log of the server says why"


class Poster(Protocol):
    """The sender of HTTP posts."""

    async def post(self, url: str, body: bytes) -> CallbackOutcome:
        """Post JSON to an address of a client. Raises nothing."""
        ...


class CallbackSender(LeasedWork[DueCallback]):
    """Tells clients. After each attempt it looks anew whose turn it is: a client that does not
    answer keeps the others waiting for no more than one of its attempts."""

    name = "callback"
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

    async def due(self) -> Sequence[DueCallback]:
        """The callbacks whose time has come, and that nobody sends."""
        return await self.ports.queries.due_callbacks(
            ORGANISATION_CALLBACKS_AT_ONCE_MAX, CALLBACKS_AT_ONCE_MAX
        )

    async def attempt(self, lease: WorkLease[DueCallback]) -> None:
        """Tell a client that its run has ended, and record what came of it."""
        due, sent_at = lease.work, self.ports.clock.now()
        outcome = await self.outcome(due)
        log.info("callback of %s: %s", due.run_id, outcome.status or outcome.error)

        async def decide(unit: UnitOfWork) -> None:
            conversation = await unit.load(Conversation, due.conversation_id)
            if conversation.exists and not conversation.deleted:
                record_attempt(
                    conversation,
                    due.run_id,
                    outcome,
                    attempts=due.attempts + 1,
                    sent_at=sent_at,
                    at=self.ports.clock.now(),
                )

        await lease.record(decide, about=due.conversation_id)

    async def give_up(self, unit: UnitOfWork, work: DueCallback, reason: str) -> None:
        """Decide that a client is not told."""
        conversation = await unit.load(Conversation, work.conversation_id)
        outcome, at = CallbackOutcome(error=reason, forbidden=True), self.ports.clock.now()
        if conversation.exists and not conversation.deleted:
            attempts = work.attempts + 1
            record_attempt(conversation, work.run_id, outcome, attempts=attempts, sent_at=at, at=at)

    def aggregate_id(self, work: DueCallback) -> str:
        """The conversation of the run."""
        return work.conversation_id

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
