"""Try a command again that fails, after growing pauses; park it when that is of no use.

What is counted is kept in Postgres, by message: copies of a message, several replicas and a wiped
NATS do not start the count anew, and an attempt that the process did not survive counts as well.
The first delivery of a message is not written down, so what works at once costs nothing here; only
for a minute after a message has failed twice, or after a process has died, each one is, lest its
next copy kill once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NoReturn

from libs.bus.command_dispatcher import same_request
from libs.bus.dead_letter_records import (
    DIED,
    FailedMessage,
    Problem,
    letter_of,
    problem_of,
    refusal,
)
from libs.bus.ports import Answer, Clock, Expired, IncomingCommand, TryAgain
from libs.bus.retry_policy import ATTEMPTS_MAX, TRANSIENT, pause_seconds, uncount
from libs.bus.suspect_quarantine import Quarantine
from libs.bus.unknown_version_delays import COMMAND_SECONDS, log_once
from libs.contracts.bus_messages import (
    COMMANDS,
    PARKED,
    REPLY,
    UNPROCESSABLE,
    Accepted,
    NewerVersion,
    Rejected,
)
from libs.eventstore.failed_messages.ports import Attempt, park
from libs.eventstore.ports import (
    Commit,
    DuplicateMessage,
    EventStore,
    InboxEntry,
    StoreRefused,
    StoreUnavailable,
)
from libs.eventstore.unit_of_work import LockTaken

log = logging.getLogger(__name__)

DEATHS_MAX = 5  # an attempt that did not end may have been ended by somebody else
HOLD_SECONDS = 6.0  # an attempt that nobody says is alive is over after that
HOLD_RENEWAL_SECONDS = 2.0
# A process takes all that it is handling with it when it dies. From this attempt on a message is
# handled with no other suspect beside it, so that the count finds who is to blame.
UNQUARANTINED_ATTEMPTS_MAX = 2
SUSPECTS_WAITING_MAX = 64
FIRST_ATTEMPTS_COUNTED_SECONDS = 60.0
BUSY_SECONDS = 1.0
QUESTION_FAILED = "{name} failed for a reason that the server did not expect; its log says which"


class CommandRetries:
    """Stands between the bus and the answers of a service."""

    def __init__(
        self, service: str, store: EventStore, answer: Answer, clock: Clock, quarantine: Quarantine
    ) -> None:
        self.service = service
        self.store = store
        self.answer_once = answer
        self.clock = clock
        self.handling: set[str] = set()
        self.quarantine = quarantine
        self.suspects_waiting = 0
        self.counting_until: float | None = None

    async def answer(self, incoming: IncomingCommand) -> Accepted | Rejected:
        """The reply to a command, or that it was parked; raises TryAgain for an attempt later."""
        if not incoming.again and not await self.counts_first_attempts():
            return await self.attempt(incoming, None)
        if incoming.again and incoming.context.message_id in self.handling:
            raise TryAgain(BUSY_SECONDS)
        begun = await self.begin(incoming, UNQUARANTINED_ATTEMPTS_MAX)
        if begun.number > UNQUARANTINED_ATTEMPTS_MAX or begun.needs_quarantine:
            self.count_first_attempts()
        if not begun.needs_quarantine:
            return await self.go_on(incoming, begun)
        if self.suspects_waiting >= SUSPECTS_WAITING_MAX:
            raise TryAgain(BUSY_SECONDS)
        self.suspects_waiting += 1
        try:
            async with self.quarantine.lock:
                return await self.go_on(incoming, await self.begin(incoming, None))
        finally:
            self.suspects_waiting -= 1

    def count_first_attempts(self) -> None:
        """Write first deliveries down for a while: one of them may be what ended a process."""
        self.counting_until = self.clock.monotonic() + FIRST_ATTEMPTS_COUNTED_SECONDS

    async def counts_first_attempts(self) -> bool:
        """Whether first deliveries are written down too: there was trouble lately, and clients that
        get no answer send what caused it anew."""
        if self.counting_until is None:
            troubled = await self.store.letters.has_trouble(
                UNQUARANTINED_ATTEMPTS_MAX, FIRST_ATTEMPTS_COUNTED_SECONDS
            )
            self.counting_until = self.clock.monotonic() + FIRST_ATTEMPTS_COUNTED_SECONDS * troubled
        return self.clock.monotonic() < self.counting_until

    async def begin(self, incoming: IncomingCommand, unquarantined_max: int | None) -> Attempt:
        """Ask for the next attempt; if the message came before, one before it is known."""
        return await self.store.letters.begin(
            incoming.context.message_id,
            known=1 if incoming.again else 0,
            hold_seconds=HOLD_SECONDS,
            unquarantined_max=unquarantined_max,
        )

    async def go_on(self, incoming: IncomingCommand, begun: Attempt) -> Accepted | Rejected:
        """Do what the count allows."""
        if begun.reply_json is not None:
            return same_request(REPLY.validate_json(begun.reply_json), incoming.context)
        if not begun.number:
            raise TryAgain(max(begun.wait_seconds, BUSY_SECONDS))
        if begun.number > DEATHS_MAX:
            return await self.park(incoming, DIED, replace(begun, number=DEATHS_MAX))
        async with self.keep_alive(incoming.context.message_id):
            return await self.attempt(incoming, begun)

    async def attempt(
        self, incoming: IncomingCommand, begun: Attempt | None
    ) -> Accepted | Rejected:
        """One attempt, and what it means for the count."""
        message_id = incoming.context.message_id
        self.handling.add(message_id)
        try:
            reply = await self.answer_once(incoming)
        except TRANSIENT as trouble:
            if begun:
                await uncount(self.store.letters, message_id, self.clock)
            if incoming.last_delivery:
                await self.give_up(incoming, trouble)
            if isinstance(trouble, LockTaken):
                raise TryAgain(BUSY_SECONDS) from trouble
            raise
        except NewerVersion as unknown:
            if begun:
                await uncount(self.store.letters, message_id, self.clock)
            raise self.left_to_newer(incoming, unknown) from unknown
        except StoreRefused as hopeless:
            return await self.refuse(incoming, hopeless)
        except Exception as bug:
            return await self.handle_failure(incoming, bug, begun)
        finally:
            self.handling.discard(message_id)
        if begun:
            with contextlib.suppress(StoreUnavailable):
                await self.store.letters.forget(message_id)
        return reply

    def left_to_newer(self, incoming: IncomingCommand, unknown: NewerVersion) -> Exception:
        """Give a command back, for a process that knows what this one does not. Where none is met
        in time the sender, who has got no answer, has been told that of any other outage."""
        log_once(unknown)
        if incoming.last_delivery:
            return Expired(incoming.name)
        return TryAgain(COMMAND_SECONDS)

    async def handle_failure(
        self, incoming: IncomingCommand, bug: Exception, begun: Attempt | None
    ) -> Accepted | Rejected:
        """An attempt failed by a bug. A process edge: it is logged here, once."""
        message_id = incoming.context.message_id
        stored = await self.store.stored_reply(message_id)
        if stored is not None:
            return REPLY.validate_json(stored)
        number = begun.number if begun else 1
        pause = pause_seconds(number)
        failure = await self.store.letters.record_failure(message_id, number, pause)
        log.error("command %s failed, attempt %d", incoming.name, failure.number, exc_info=bug)
        if failure.number >= ATTEMPTS_MAX:
            return await self.park(incoming, problem_of(bug), failure)
        raise TryAgain(pause) from bug

    async def give_up(self, incoming: IncomingCommand, trouble: Exception) -> NoReturn:
        """The trouble lasts longer than the sender waits: keep the command as a dead letter, if
        there is a store to keep it. It is not refused for good: its sender may send it again, and
        it may be replayed; whichever comes first takes effect."""
        log.warning("command %s is given up: %s", incoming.name, trouble)
        if is_question(incoming):
            raise Expired(incoming.name) from trouble
        now = self.clock.now()
        commit = Commit()
        failed = FailedMessage(self.service, problem_of(trouble), 1, now, now)
        park(letter_of(incoming, failed), commit.rows)
        with contextlib.suppress(StoreUnavailable):
            await self.store.commit(commit)
        raise Expired(incoming.name) from trouble

    async def refuse(
        self, incoming: IncomingCommand, hopeless: StoreRefused
    ) -> Accepted | Rejected:
        """Trying again is of no use: say so where the sender can mend it, else park the command."""
        log.warning("command %s cannot be stored: %s", incoming.name, hopeless)
        if hopeless.by_data:
            with contextlib.suppress(StoreUnavailable):
                await self.store.letters.forget(incoming.context.message_id)
            return Rejected(code=UNPROCESSABLE, reason=f"This cannot be stored: {hopeless}")
        return await self.park(incoming, problem_of(hopeless), Attempt(1, self.clock.now()))

    async def park(
        self, incoming: IncomingCommand, problem: Problem, failure: Attempt
    ) -> Accepted | Rejected:
        """Put the message aside and refuse it, in one commit. If it took effect after all, by an
        attempt that was given up too early, it is answered instead."""
        failed = FailedMessage(
            self.service, problem, failure.number, failure.first_at, self.clock.now()
        )
        letter = letter_of(incoming, failed)
        if is_question(incoming) and problem is not DIED:
            log.error("question %s failed: %s", letter.name, letter.error_class)
            with contextlib.suppress(StoreUnavailable):
                await self.store.letters.forget(letter.message_id)
            return Rejected(code=PARKED, reason=QUESTION_FAILED.format(name=letter.name))
        reply = refusal(letter)
        commit = Commit(inbox=InboxEntry(letter.message_id, reply.model_dump_json()))
        park(letter, commit.rows)
        try:
            await self.store.commit(commit)
        except DuplicateMessage as seen:
            return REPLY.validate_json(seen.reply_json)
        log.error("command %s is parked as %s: %s", letter.name, letter.id, letter.error_class)
        return reply

    @asynccontextmanager
    async def keep_alive(self, message_id: str) -> AsyncIterator[None]:
        """Say from time to time that the attempt is still alive."""

        async def renew() -> None:
            while True:
                await self.clock.sleep(HOLD_RENEWAL_SECONDS)
                with contextlib.suppress(StoreUnavailable):
                    await self.store.letters.hold(message_id, HOLD_SECONDS)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()


def is_question(incoming: IncomingCommand) -> bool:
    """Whether the command changes nothing, so that no dead letter is kept of it: it can be asked
    again, and is asked for ever where it is one about health."""
    kind = COMMANDS.get(incoming.name)
    return kind is not None and not kind.keeps_reply
