"""What a service may ask of the world besides its store: the bus, the clock, fresh ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.contracts.message import Accepted, Command, Context, Rejected
from libs.eventstore.ports import StoredEvent

REQUEST_SECONDS_MAX = 10.0


class BusUnavailable(Exception):
    """Nobody answered in time; whether the command took effect is not known."""


class TryAgain(Exception):
    """The command could not be answered now; deliver it again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class IncomingCommand:
    """A command as it arrives: its full name `<service>.<topic>`, its JSON, its context.

    `again` says that it was delivered, or sent, before.
    """

    name: str
    payload: bytes
    context: Context
    subject: str = ""
    again: bool = False


def outgoing(command: Command, context: Context) -> IncomingCommand:
    """A command as it will arrive."""
    name = f"{command.service}.{command.topic}"
    payload = command.model_dump_json().encode()
    return IncomingCommand(name, payload, context, command.subject(context.org))


Answer = Callable[[IncomingCommand], Awaitable[Accepted | Rejected]]
Deliver = Callable[[str, bytes], None]  # a delta's subject and payload
Ring = Callable[[], None]


class Subscription(Protocol):
    """Something that can be ended."""

    async def end(self) -> None:
        """Stop delivering."""
        ...


class Bus(Protocol):
    """The bus as one process sees it. Adapters: `nats.NatsBus` and `memory.MemoryBus`."""

    @property
    def connected(self) -> bool:
        """Whether deltas can arrive now."""
        ...

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made again; deltas were missed each time."""
        ...

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command until it is answered; raises BusUnavailable when time is up.

        The command may arrive more than once; the receiver's inbox makes that harmless.
        """
        ...

    async def resend(
        self, incoming: IncomingCommand, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command that arrived before, as it came; otherwise as `request`."""
        ...

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service; with several processes each command goes to one.

        What raises is answered later: the command is delivered again, after the pause that a
        TryAgain names, else after a growing one.
        """
        ...

    async def stop_serving(self) -> None:
        """Take no more commands, and return when those that were taken are answered."""
        ...

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Publish events in order and return when the stream has them; may publish again."""
        ...

    async def hear_events(self, service: str, topic: str, ring: Ring) -> None:
        """Ring when an event of this topic is published; some may be missed. The log is the truth:
        read it when the bell rings, and now and then without."""
        ...

    async def publish_delta(self, subject: str, payload: bytes) -> None:
        """Tell whoever listens now; nobody waits. Only tokens are kept, for a while."""
        ...

    async def kept_deltas(self, subject: str) -> list[bytes]:
        """The tokens of a subject that are still kept, in order; fewer, or none, in trouble."""
        ...

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> Subscription:
        """Hear the deltas of a subject, in which `*` stands for any token: all that are caused by
        what this bus sends from now on."""
        ...


class Clock(Protocol):
    """Time."""

    def now(self) -> datetime:
        """Now, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Ids(Protocol):
    """Fresh ids."""

    def new(self, prefix: str) -> str:
        """`<prefix>-<uuid4>`, never seen before."""
        ...


def fresh_ids(ids: Ids, prefix: str) -> Iterator[str]:
    """As many fresh ids as are needed."""
    while True:
        yield ids.new(prefix)
