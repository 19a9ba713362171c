"""Commands wait in line: one at a time for each aggregate, and never more than are worth waiting.

What is over a bound is refused at once as busy, so that the sender knows and nobody else pays.
What waited longer than its sender does is dropped.
"""

from __future__ import annotations

from collections import Counter

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import Answer, Clock, Expired, IncomingCommand, TryAgain
from libs.contracts.bus_messages import BUSY, Accepted, Rejected

# Of one process. Nobody waits long: a decision takes milliseconds. An organisation has half of the
# room at most, so that the others have theirs.
AGGREGATE_COMMANDS_MAX = 256
ORGANISATION_COMMANDS_MAX = 1_024
PROCESS_COMMANDS_MAX = 2_048
PROCESS_BYTES_MAX = 128 << 20
AGAIN_SECONDS = 0.5


class CommandQueue:
    """Stands between the bus and the answers of a service."""

    def __init__(self, answer: Answer, locks: AggregateLocks, clock: Clock) -> None:
        self.answer_one = answer
        self.locks = locks
        self.clock = clock
        self.to_aggregate: Counter[str] = Counter()
        self.of_organisation: Counter[str] = Counter()
        self.commands = 0
        self.bytes = 0

    async def answer(self, incoming: IncomingCommand) -> Accepted | Rejected:
        """The reply to a command when it is its turn; BUSY if there is no room for it to wait.
        Raises Expired if its sender has stopped waiting, and TryAgain for one without room that
        came before: another copy of it may take effect, so it must not be refused."""
        refused = self.full(incoming)
        if refused is not None:
            if incoming.again:
                raise TryAgain(AGAIN_SECONDS)
            return refused
        expires_at = self.clock.monotonic() + incoming.seconds_left
        self.count(incoming)
        try:
            async with self.locks.hold(incoming.target):
                if self.clock.monotonic() >= expires_at:
                    raise Expired(incoming.name)
                return await self.answer_one(incoming)
        finally:
            self.forget(incoming)

    def full(self, incoming: IncomingCommand) -> Rejected | None:
        """The refusal of a command for which there is no room."""
        if self.to_aggregate[incoming.target] >= AGGREGATE_COMMANDS_MAX:
            return busy(f"{AGGREGATE_COMMANDS_MAX} requests wait for {incoming.target}")
        if self.of_organisation[incoming.context.org] >= ORGANISATION_COMMANDS_MAX:
            return busy(f"{ORGANISATION_COMMANDS_MAX} requests of this organisation wait")
        if self.commands >= PROCESS_COMMANDS_MAX or self.bytes >= PROCESS_BYTES_MAX:
            return busy("The server has as many requests waiting as it can keep")
        return None

    def count(self, incoming: IncomingCommand) -> None:
        """Count a command among those that are here."""
        self.to_aggregate[incoming.target] += 1
        self.of_organisation[incoming.context.org] += 1
        self.commands += 1
        self.bytes += len(incoming.payload)

    def forget(self, incoming: IncomingCommand) -> None:
        """A command is answered, or has left without an answer."""
        decrement(self.to_aggregate, incoming.target)
        decrement(self.of_organisation, incoming.context.org)
        self.commands -= 1
        self.bytes -= len(incoming.payload)


def decrement[T](counter: Counter[T], name: T) -> None:
    """One less of a name. What there is none of takes no room."""
    if counter[name] == 1:
        del counter[name]
    else:
        counter[name] -= 1


def busy(why: str) -> Rejected:
    """The refusal that says to come again."""
    return Rejected(code=BUSY, reason=f"{why}: try again in a moment")
