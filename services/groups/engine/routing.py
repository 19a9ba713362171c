"""Route messages: start the runs that answer them, wait for these, and try others where they fail.

Where a message goes is durable before a run starts there, and the run's id follows from the message
and the number of the delivery. So a process that takes a message over starts no run twice, and a
message gets one answer, also if a process dies meanwhile. An attempt waits for runs only so long;
after that the sweeper finds the messages whose runs have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from libs.bus.fair_semaphore import FairSemaphore
from libs.contracts.bus_messages import PARKED, JsonObject
from libs.contracts.groups.routing import routed_message_deltas
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.progress import publish_progress
from libs.work.work_lease import DueWork, WorkLease
from services.groups.domain.routed_message import (
    RoutedMessage,
    RoutedMessageState,
    next_deadline,
    routing_of,
)
from services.groups.domain.routing.plans import Failed, Plan
from services.groups.domain.routing.strategies import STRATEGIES
from services.groups.engine.delivery_runs import DeliveryRuns, Outcome, RoutingPorts, Sending

PLACES = 64
ORGANISATION_PLACES_MAX = 48
# So long an attempt waits for runs itself: the answer of most messages comes at once that way.
HOLD_SECONDS = 15.0
STARTS_AT_ONCE = 16


class RoutedMessages(LeasedWork[DueWork]):
    """The messages that this process routes."""

    name = "routed message"
    ports: RoutingPorts

    def __init__(self, ports: RoutingPorts) -> None:
        super().__init__(ports, FairSemaphore(PLACES, of_organisation_max=ORGANISATION_PLACES_MAX))
        self.runs = DeliveryRuns(ports)
        self.are_waiting = False  # whether runs may end that no attempt waits for

    async def due(self) -> Sequence[DueWork]:
        """The messages that can go on and that nobody works on."""
        return await self.ports.queries.due_messages()

    def run_ended(self) -> None:
        """Look at once for messages that can go on, if any wait without an attempt."""
        if self.are_waiting and not self.stopping:
            self.are_waiting = False
            self.aside(self.look())

    async def look(self) -> None:
        """Sweep once; during an outage a later sweep looks again."""
        with suppress(StoreUnavailable):
            await self.sweep()

    def begin_routing(self, message: RoutedMessage, unit: UnitOfWork) -> None:
        """Have the commit that accepts a message take its lease, and send it then."""
        state = message.state.model_copy(deep=True)

        async def attempt(lease: WorkLease[DueWork]) -> None:
            await self.drive(lease, state, is_new=True)

        self.begin_after_commit(DueWork(message.id, unit.context.org), unit, attempt)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Go on with a message."""
        await self.drive(lease, await self.record(lease, []))

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that nobody answers a message."""
        message = await unit.load(RoutedMessage, work.id)
        if message.is_active:
            message.follow(Plan(end=Failed(PARKED, reason)), at=self.ports.clock.now())

    async def drive(
        self, lease: WorkLease[DueWork], state: RoutedMessageState, *, is_new: bool = False
    ) -> None:
        """Send a message to its agents, until it ends or its runs take long."""
        until = self.ports.clock.monotonic() + HOLD_SECONDS
        starts = asyncio.Semaphore(STARTS_AT_ONCE)
        tasks: dict[int, asyncio.Task[Outcome]] = {}
        outcomes: list[Outcome] = []
        try:
            while state.phase == "active":
                sending = Sending(lease, routing_of(state, self.ports.clock.now()), starts, is_new)
                is_overdue = sending.routing.is_late or bool(sending.routing.overdue)
                if is_overdue:
                    await cancel_all(tasks)
                    outcomes = await self.runs.withdraw(sending)
                else:
                    self.send_pending(sending, tasks)
                    outcomes = await self.next_outcomes(state, tasks, until)
                if not outcomes and self.ports.clock.monotonic() >= until:
                    self.are_waiting = True
                    return
                if outcomes or is_overdue:
                    state = await self.record(lease, outcomes)
        finally:
            await cancel_all(tasks)
        subject = routed_message_deltas(lease.work.org, lease.work.id)
        await publish_progress(self.ports.bus, subject, end_of(state, outcomes))

    async def record(
        self, lease: WorkLease[DueWork], outcomes: Sequence[Outcome]
    ) -> RoutedMessageState:
        """Record what came of deliveries and what follows from it, in one commit."""

        async def decide(unit: UnitOfWork) -> RoutedMessageState:
            message = await unit.load(RoutedMessage, lease.work.id)
            now = self.ports.clock.now()
            for outcome in outcomes:
                if outcome.refused:
                    why = outcome.refused
                    message.fail(outcome.number, why.code, why.reason, at=now)
                else:
                    message.deliver(outcome.number, bid=outcome.bid, at=now)
            if message.is_active:
                routing = message.routing(now)
                message.follow(STRATEGIES[routing.request.pattern].plan(routing), at=now)
            return message.state.model_copy(deep=True)

        return await lease.record(
            decide, release=lambda state: state.phase == "ended", advances=bool(outcomes)
        )

    def send_pending(self, sending: Sending, tasks: dict[int, asyncio.Task[Outcome]]) -> None:
        """Begin the deliveries that were decided and are not under way here."""
        for delivery in sending.routing.deliveries:
            if delivery.status == "pending" and delivery.number not in tasks:
                tasks[delivery.number] = asyncio.create_task(self.runs.outcome(sending, delivery))

    async def next_outcomes(
        self, state: RoutedMessageState, tasks: dict[int, asyncio.Task[Outcome]], until: float
    ) -> list[Outcome]:
        """The outcomes that are there; waits for the first of them, but not longer than `until` and
        the next deadline of the message. Raises StoreUnavailable."""
        left = (next_deadline(state) - self.ports.clock.now()).total_seconds()
        seconds = max(min(until - self.ports.clock.monotonic(), left), 0.0)
        sleeping = asyncio.ensure_future(self.ports.clock.sleep(seconds))
        try:
            await asyncio.wait([*tasks.values(), sleeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        ended = [number for number, task in tasks.items() if task.done()]
        return [tasks.pop(number).result() for number in ended]


def end_of(state: RoutedMessageState, last: Sequence[Outcome]) -> JsonObject:
    """What followers are told of the end of a message: whose answer it is, if one agent's, and
    how its run ended, if that is among the `last` outcomes."""
    end: JsonObject = {"end": True}
    if len(state.answers) != 1:
        return end
    answer = state.deliveries[state.answers[0] - 1]
    end |= {"agent_id": answer.agent_id, "run_id": answer.run_id}
    end["attempts"] = len(state.deliveries)
    for outcome in last:
        if outcome.number == answer.number and outcome.run:
            end |= {"stop_reason": outcome.run.stop_reason, "usage": outcome.run.usage}
    return end


async def cancel_all(tasks: dict[int, asyncio.Task[Outcome]]) -> None:
    """End what is being waited for."""
    ending = list(tasks.values())
    tasks.clear()
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
