"""Tell clients that their runs have ended, as often as it takes, within bounds.

That a client is to be told is a row from the acceptance of its run on. Each attempt is made under a
lease, and its outcome is an event: whoever dies in between has it made once more by another, so a
client may be told twice, but not never.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import datetime
from typing import Protocol

from pydantic_core import to_json

from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import Context, JsonObject, NewerVersion
from libs.contracts.letta.enums import StopReasonType
from libs.contracts.letta.messages import only_types
from libs.contracts.letta.response_and_stream_events import letta_response
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from services.agent.adapters.callback_queries import DUE_MAX, DueCallback
from services.agent.domain.conversations.callback_attempts import CallbackOutcome, record_attempt
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)

ROUNDS_MAX = 12
BODY_BYTES_MAX = 4 << 20
CONFLICTS_MAX = 5
NO_BODY = "The answer of the run could not be put together: the log of the server says why"


class Poster(Protocol):
    """Who posts."""

    async def post(self, url: str, body: bytes) -> CallbackOutcome:
        """Post JSON to an address of a client. Raises nothing."""
        ...


class CallbackSender:
    """Sends what is due."""

    def __init__(self, ports: EnginePorts, poster: Poster) -> None:
        self.ports = ports
        self.poster = poster

    async def sweep(self) -> None:
        """Tell those whose time has come, some of them at once. After each attempt it is looked
        anew whose turn it is: a client that does not answer keeps the others waiting for no more
        than one of its attempts."""
        for _ in range(ROUNDS_MAX):
            due = await self.ports.queries.due_callbacks()
            recorded = await asyncio.gather(*map(self.tell, due))
            if len(due) < DUE_MAX or not all(recorded):
                return

    async def tell(self, due: DueCallback) -> bool:
        """Make an attempt, unless another process does, and record it. Returns False where the
        attempt is not recorded: its lease is free again, so that a later sweep repeats it. A
        process edge: a bug is logged here, once."""
        store = self.ports.repository.store
        fence: Fence | None = None
        try:
            key = f"callback-{due.run_id}"
            epoch = await store.take_lease(key)
            if epoch is None:
                return True
            fence = Fence(key, epoch)
            return await self.attempt(due, fence)
        except StaleLease:
            log.info("the callback of %s was taken over elsewhere", due.run_id)
        except NewerVersion as unknown:
            log_once(unknown)
        except StoreUnavailable as problem:
            log.warning("the callback of %s is not recorded: %s", due.run_id, problem)
        except Exception:
            log.exception("the callback of %s is not recorded", due.run_id)
        finally:
            if fence is not None:
                with contextlib.suppress(StoreUnavailable):
                    await store.release_lease(fence)
        return False

    async def attempt(self, due: DueCallback, fence: Fence) -> bool:
        """Tell a client, and record what came of it; returns whether that is recorded."""
        sent_at = self.ports.clock.now()
        outcome = await self.outcome(due)
        log.info("callback of %s: %s", due.run_id, outcome.status or outcome.error)
        for _ in range(CONFLICTS_MAX):
            try:
                await self.record(due, outcome, fence, sent_at)
                return True
            except VersionConflict:
                continue
        return False

    async def outcome(self, due: DueCallback) -> CallbackOutcome:
        """What comes of telling a client. Where the answer of the run cannot be put together, for
        a reason that the next attempt may find as well, that counts as an attempt that failed."""
        try:
            body = await self.body(due)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("the answer of %s cannot be put together", due.run_id)
            return CallbackOutcome(error=NO_BODY)
        return await self.poster.post(due.url, body)

    async def record(
        self, due: DueCallback, outcome: CallbackOutcome, fence: Fence, sent_at: datetime
    ) -> None:
        """Make the outcome of an attempt durable, and give its lease back."""
        ports = self.ports
        async with ports.locks.hold(due.conversation_id):
            work = ports.repository.work(Context(ports.ids.new("callback"), org=due.org))
            conversation = await work.load(Conversation, due.conversation_id)
            if conversation.exists and not conversation.deleted:
                record_attempt(
                    conversation,
                    due.run_id,
                    outcome,
                    attempts=due.attempts + 1,
                    sent_at=sent_at,
                    at=ports.clock.now(),
                )
            await work.commit(fence=fence, release_lease=True)
        ports.committed()

    async def body(self, due: DueCallback) -> bytes:
        """What a client is told: how its run ended and, unless that is too long, the answer."""
        asked = due.run["request_config"]["include_return_message_types"]
        found = await self.ports.queries.messages_of_run(due.org, due.run_id)
        messages = only_types(found, asked or None)
        reason = StopReasonType(str(due.run["stop_reason"]))
        result = letta_response(messages, reason, due.usage or {})
        body = to_json(told(due, result))
        return body if len(body) <= BODY_BYTES_MAX else to_json(told(due, None))


def told(due: DueCallback, result: JsonObject | None) -> JsonObject:
    """What a client is told of a run."""
    return {
        "run_id": due.run_id,
        "status": due.run["status"],
        "completed_at": due.run["completed_at"],
        "metadata": {**(due.run["metadata"] or {}), "result": result},
    }
