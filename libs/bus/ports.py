"""Ports of a service besides its store: the bus, the clock, fresh ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.contracts.bus_messages import BUSY, TOO_LARGE, Accepted, Command, Context, Rejected
from libs.eventstore.ports import StoredEvent

REQUEST_SECONDS_MAX = 10.0


class BusUnavailable(Exception):
    """Nobody answered in time; whether the command took effect is not known."""


class Expired(Exception):
    """The sender of the command has stopped waiting for the answer: it is dropped unanswered."""


class TryAgain(Exception):
    """The command could not be answered now; deliver it again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class IncomingCommand:
    """A command as it arrives: its full name `<service>.<topic>`, its JSON, its context.

    `again` says that it was delivered, or sent, before; `seconds_left` how long its sender goes on
    waiting; `last_delivery` that it would come too late if it had to be delivered once more;
    `schema_version` which version of its class wrote the JSON.
    """

    name: str
    payload: bytes
    context: Context
    subject: str = ""
    again: bool = False
    seconds_left: float = REQUEST_SECONDS_MAX
    last_delivery: bool = False
    schema_version: int = 1

    @property
    def target(self) -> str:
        """The id that the command is about: the last token of its subject."""
        return self.subject.rpartition(".")[2]


def outgoing(command: Command, context: Context) -> IncomingCommand:
    """A command as it will arrive."""
    name = f"{command.service}.{command.topic}"
    payload = command.model_dump_json().encode()
    subject = command.subject(context.org)
    return IncomingCommand(name, payload, context, subject, schema_version=command.schema_version)


def too_large(incoming: IncomingCommand, bytes_max: int) -> Rejected | None:
    """The refusal of a command that the bus cannot carry, which holds for as long as it is sent."""
    if len(incoming.payload) <= bytes_max:
        return None
    reason = (
        f"The request makes a command of {len(incoming.payload)} bytes, and the server carries at"
        f" most {bytes_max} in one ({incoming.name}): send less at once"
    )
    return Rejected(code=TOO_LARGE, reason=reason)


def reply_payload(reply: Accepted | Rejected, bytes_max: int) -> bytes:
    """A reply as it is sent; for one that the bus cannot carry, a refusal that says so."""
    payload = reply.model_dump_json().encode()
    if len(payload) <= bytes_max:
        return payload
    reason = (
        f"The command was {reply.outcome}, but the bus cannot carry its answer of {len(payload)}"
        " bytes: read what became of it"
    )
    return Rejected(code=TOO_LARGE, reason=reason).model_dump_json().encode()


Answer = Callable[[IncomingCommand], Awaitable[Accepted | Rejected]]
Deliver = Callable[[str, bytes], None]  # a delta's subject and payload
Notify = Callable[[], None]


class Subscription(Protocol):
    """Something that can be ended."""

    async def end(self) -> None:
        """Stop delivering to this subscriber."""


class Bus(Protocol):
    """The bus as one service sees it. Adapters: `nats_bus.NatsBus`,
    `process_bus.ProcessBus` and `in_memory.InMemoryBus`."""

    @property
    def connected(self) -> bool:
        """Whether deltas can arrive now."""

    @property
    def reconnects(self) -> int:
        """The number of new connections since the first; deltas were missed each time."""

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command until it is answered; raises BusUnavailable when time is up. One that is
        too large for the bus is refused, and not sent.

        The command may arrive more than once; the receiver's inbox makes that harmless. That there
        is no room for it (BUSY) is an answer only while it was sent once: else another copy may
        find room.
        """

    async def resend(
        self, incoming: IncomingCommand, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command that arrived before, as it came; otherwise as `request`."""

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service; with several processes each command goes to one.

        What raises is answered later: the command is delivered again, after the pause that a
        TryAgain names, else after a growing one, for as long as its sender waits. What raises
        Expired is not.
        """

    async def stop_serving(self) -> None:
        """Take no more commands, and return when those that were taken are answered."""

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Publish events in order and return when the stream has them; may publish again.

        Large fields are published by reference. Raises BusUnavailable; whatever else it raises is
        about one of the events, and comes again however often they are published.
        """

    async def forget_events(self, service: str) -> None:
        """Empty the stream of a service's events: it only notifies, and the log has them all.
        Raises BusUnavailable."""

    async def hear_events(self, service: str, topic: str, notify: Notify) -> None:
        """Call `notify` when an event of this topic is published; some may be missed. The log is
        the truth: read it when notified, and now and then without."""

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        """Tell whoever listens now; nobody waits. Only tokens are kept, for a while, or until one
        comes that replaces those of its subject: it is soon forgotten itself."""

    async def kept_deltas(self, subject: str) -> list[bytes]:
        """The tokens of a subject that are still kept, in order; fewer, or none, in trouble."""

    async def kept_subjects(self, pattern: str) -> list[str]:
        """The subjects of which tokens are still kept, among those that fit a pattern; fewer, or
        none, in trouble."""

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> Subscription:
        """Hear the deltas of a subject, in which `*` stands for any token: all that are caused by
        what this bus sends from now on."""


def is_answer(reply: Accepted | Rejected, *, sent_again: bool) -> bool:
    """Whether a reply to one copy of a command says what becomes of the command."""
    return not (sent_again and isinstance(reply, Rejected) and reply.code == BUSY)


async def request_as_service(
    bus: Bus, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
) -> Accepted | Rejected:
    """Send a command in the course of other work that is repeated as a whole: raises BusUnavailable
    where there is no room for it. Who repeats the command alone asks until it is accepted
    (`libs.work.acceptance`)."""
    reply = await bus.request(command, context, seconds_max=seconds_max)
    if isinstance(reply, Rejected) and reply.code == BUSY:
        raise BusUnavailable(f"{command.service}.{command.topic}: {reply.reason}")
    return reply


class Clock(Protocol):
    """Time."""

    def now(self) -> datetime:
        """Return the time now, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""


class Ids(Protocol):
    """Fresh ids."""

    def new(self, prefix: str) -> str:
        """Return `<prefix>-<uuid4>`, never returned before."""


def fresh_ids(ids: Ids, prefix: str) -> Iterator[str]:
    """As many fresh ids as are needed."""
    while True:
        yield ids.new(prefix)
