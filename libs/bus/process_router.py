"""The services of one process, as they find each other: commands to their handlers and deltas to
their subscribers, without NATS."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextvars import Context as Variables
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from libs.bus.clock_and_ids import RandomIds
from libs.bus.command_attempt import Outcome, attempt
from libs.bus.ports import Answer, Deliver, IncomingCommand

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Servant:
    """Answers the commands of a service, each in a task of its own, which no requester can cancel.
    It begins with the context variables of the code that made the servant, not of the requester."""

    answer: Answer
    in_flight: set[asyncio.Task[Any]]
    variables: Variables = field(default_factory=copy_context)

    def begin(
        self, incoming: IncomingCommand, *, bytes_max: int, pause_seconds: float
    ) -> asyncio.Task[Outcome]:
        """Deliver a command once; see `attempt`."""
        handling = attempt(self.answer, incoming, bytes_max=bytes_max, pause_seconds=pause_seconds)
        task = asyncio.create_task(handling, context=self.variables.copy())
        self.in_flight.add(task)
        task.add_done_callback(self.in_flight.discard)
        return task


@dataclass(slots=True)
class ProcessRouter:
    """The handlers and the subscribers in one process. Payloads pass as bytes, so that nothing that
    crosses can be changed on the other side. `id` marks what this process publishes."""

    id: str = field(default_factory=lambda: RandomIds().new("process"))
    servants: dict[str, list[Servant]] = field(default_factory=lambda: defaultdict(list))
    turns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    deltas: dict[str, list[Deliver]] = field(default_factory=lambda: defaultdict(list))
    wildcards: set[tuple[int, ...]] = field(default_factory=set)  # where the patterns have a `*`

    def servant(self, service: str) -> Servant | None:
        """The next one in turn that answers the commands of a service; None if there is none."""
        servants = self.servants[service]
        if not servants:
            return None
        self.turns[service] += 1
        return servants[self.turns[service] % len(servants)]

    def subscribe(self, pattern: str, deliver: Deliver) -> RoutedSubscription:
        """Hear the deltas that fit a pattern, in which `*` stands for any token."""
        self.wildcards.add(
            tuple(place for place, token in enumerate(pattern.split(".")) if token == "*")
        )
        self.deltas[pattern].append(deliver)
        return RoutedSubscription(self, pattern, deliver)

    def deliver(self, subject: str, payload: bytes) -> None:
        """Hand a delta to its subscribers, which neither wait nor take long. What it costs does not
        grow with the subscriptions to other subjects. A process edge: the publisher goes on after
        a bug of a subscriber."""
        for places in list(self.wildcards):
            tokens = subject.split(".")
            for place in places:
                tokens[place] = "*"
            for deliver in list(self.deltas.get(".".join(tokens), ())):
                try:
                    deliver(subject, payload)
                except Exception:
                    log.exception("a delta of %s is lost", subject)


@dataclass(frozen=True, slots=True)
class RoutedSubscription:
    """A subscription that can be ended."""

    router: ProcessRouter
    pattern: str
    deliver: Deliver

    async def end(self) -> None:
        listening = self.router.deltas[self.pattern]
        listening.remove(self.deliver)
        if not listening:
            del self.router.deltas[self.pattern]
