"""The bus of a service that shares its process with others: what is sent to those goes to them in
memory, everything else over NATS.

A command is handed to its handler at most once in memory. If it is not answered by that, and where
its service is not in this process, it is sent over NATS until it is, with all that holds there:
redelivery after pauses, replicas, a service that is only starting. Deltas go both ways, since a
process outside may hear them and the stream keeps the tokens.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from libs.bus.nats_bus import NatsBus
from libs.bus.nats_command_client import within
from libs.bus.nats_command_consumer import REDELIVERY_SECONDS
from libs.bus.nats_deltas import NatsDeltas
from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    Answer,
    BusUnavailable,
    Deliver,
    IncomingCommand,
    Subscription,
    TryAgain,
    too_large,
)
from libs.bus.process_router import ProcessRouter, Servant
from libs.contracts.bus_messages import REPLY, Accepted, Rejected


class ProcessBus(NatsBus):
    """Keeps the contract of `ports.Bus`. The services of one process have a `router` in common."""

    def __init__(self, url: str, holder: str, router: ProcessRouter) -> None:
        super().__init__(url, holder)
        self.router = router
        self.deltas = NatsDeltas(self.connection, router.id)
        self.served: list[tuple[str, Servant]] = []

    async def start(self) -> None:
        """Connect, and begin to deliver, over NATS and in memory."""
        await super().start()
        for service, servant in self.served:
            self.router.servants[service].append(servant)

    async def resend(
        self, incoming: IncomingCommand, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command until it is answered: first to a handler in this process."""
        servant = self.router.servant(incoming.name.partition(".")[0])
        if servant is None:
            return await super().resend(incoming, seconds_max=seconds_max)
        bytes_max = self.connection.payload_bytes_max
        refused = too_large(incoming, bytes_max)
        if refused:
            return refused
        began, pause = time.monotonic(), REDELIVERY_SECONDS[0]
        sent_at = datetime.now(UTC).isoformat()
        delivery = replace(
            incoming,
            context=replace(incoming.context, sent_at=sent_at),
            seconds_left=seconds_max,
            last_delivery=seconds_max <= pause,
        )
        task = servant.begin(delivery, bytes_max=bytes_max, pause_seconds=pause)
        outcome = await within(task, seconds_max)
        if isinstance(outcome, bytes):
            return REPLY.validate_json(outcome)
        if isinstance(outcome, TryAgain):
            await asyncio.sleep(min(outcome.seconds, began + seconds_max - time.monotonic()))
            return await self.requests.resend(incoming, seconds_max=seconds_max, began=began)
        raise BusUnavailable(f"{incoming.name}: no answer")

    async def serve(self, service: str, answer: Answer) -> None:
        await super().serve(service, answer)
        self.served.append((service, Servant(answer, self.commands.in_flight)))

    async def stop_serving(self) -> None:
        for service, servant in self.served:
            self.router.servants[service].remove(servant)
        self.served = []
        await super().stop_serving()

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        """Deliver a delta in this process, and publish it."""
        self.router.deliver(subject, payload)
        await super().publish_delta(subject, payload, replaces_kept=replaces_kept)

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> ProcessSubscription:
        """Hear the deltas of a subject from now on, each once: those of this process in memory."""
        inside = self.router.subscribe(subject, deliver)
        try:
            return ProcessSubscription(inside, await super().subscribe_deltas(subject, deliver))
        except BaseException:
            await inside.end()
            raise


@dataclass(frozen=True, slots=True)
class ProcessSubscription:
    """A subscription to this process and to the others."""

    inside: Subscription
    outside: Subscription

    async def end(self) -> None:
        await self.inside.end()
        await self.outside.end()
