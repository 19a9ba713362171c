"""Route messages: start the runs that answer them, wait for these, and try others where they fail.

Where a message goes is durable before a run starts there, and the run's id follows from the message
and the number of the delivery. So a process that takes a message over starts no run twice, and a
message gets one answer, whoever dies meanwhile. An attempt waits for runs only so long; after that
the sweeper finds the messages whose runs have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.ports import BusUnavailable
from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import BUSY, CONFLICT, NOT_FOUND, UNAVAILABLE, JsonObject, Rejected
from libs.contracts.groups.routing import routed_message_deltas
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.agent_runs import LOOK_SECONDS, AgentRuns, RunProgress, WantedRun, answer_texts
from libs.work.leased_work import LeasedWork
from libs.work.progress import publish_progress
from libs.work.work_lease import DueWork, WorkLease
from services.groups.adapters.recipient_queries import RecipientQueries
from services.groups.domain.routed_message import RoutedMessage, RoutedMessageState
from services.groups.domain.routing.contract_net import parsed_bid
from services.groups.domain.routing.plans import Delivery, Routing
from services.groups.domain.routing.strategies import STRATEGIES

PLACES = 64
ORGANISATION_PLACES_MAX = 48
# So long an attempt waits for runs itself: the answer of most messages comes at once that way.
HOLD_SECONDS = 15.0
RETRY_SECONDS = 0.5
STARTS_AT_ONCE = 16


@dataclass(slots=True, kw_only=True)
class RoutingPorts(ProcessPorts):
    """What routing needs."""

    queries: RecipientQueries
    runs: AgentRuns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a delivery: `refused` says why it failed."""

    number: int
    refused: Rejected | None = None
    bid: float | None = None


@dataclass(frozen=True, slots=True)
class Sending:
    """A message that this process routes now, as its last decision left it."""

    lease: WorkLease[DueWork]
    routing: Routing
    starts: asyncio.Semaphore
    is_new: bool


class RoutedMessages(LeasedWork[DueWork]):
    """The messages that this process routes."""

    name = "routed message"
    ports: RoutingPorts

    def __init__(self, ports: RoutingPorts) -> None:
        super().__init__(ports, FairSemaphore(PLACES, of_organisation_max=ORGANISATION_PLACES_MAX))
        self.are_waiting = False  # whether runs may end that no attempt waits for

    async def due(self) -> Sequence[DueWork]:
        """The messages that can go on and that nobody works on."""
        return await self.ports.queries.due_messages()

    def run_ended(self) -> None:
        """Look at once for messages that can go on, if any wait without an attempt."""
        if self.are_waiting and not self.stopping:
            self.are_waiting = False
            self.aside(self.sweep())

    def begin_routing(self, message: RoutedMessage, unit: UnitOfWork) -> None:
        """Have the commit that accepts a message take its lease, and send it then."""
        state = message.state.model_copy(deep=True)

        async def attempt(lease: WorkLease[DueWork]) -> None:
            await self.drive(lease, state, is_new=True)

        self.begin_after_commit(DueWork(message.id, unit.context.org), unit, attempt)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Go on with a message."""
        await self.drive(lease, await self.record(lease, []))

    async def drive(
        self, lease: WorkLease[DueWork], state: RoutedMessageState, *, is_new: bool = False
    ) -> None:
        """Send a message to its agents, until it ends or its runs take long."""
        until = self.ports.clock.monotonic() + HOLD_SECONDS
        starts = asyncio.Semaphore(STARTS_AT_ONCE)
        tasks: dict[int, asyncio.Task[Outcome]] = {}
        try:
            while state.phase == "active":
                sending = Sending(lease, self.routing_of(state), starts, is_new)
                if sending.routing.is_late:
                    await cancel_all(tasks)
                    outcomes = await self.withdraw(sending)
                else:
                    self.send_pending(sending, tasks)
                    outcomes = await self.next_outcomes(state, tasks, until)
                if not outcomes and self.ports.clock.monotonic() >= until:
                    self.are_waiting = True
                    return
                if outcomes or sending.routing.is_late:
                    state = await self.record(lease, outcomes)
        finally:
            await cancel_all(tasks)
        subject = routed_message_deltas(lease.work.org, lease.work.id)
        await publish_progress(self.ports.bus, subject, end_of(state))

    def routing_of(self, state: RoutedMessageState) -> Routing:
        """What strategies decide on now."""
        assert state.request is not None, "an active message has a request"
        assert state.deadline_at is not None, "an active message has a deadline"
        is_late = self.ports.clock.now() >= state.deadline_at
        return Routing(state.request, state.stages, state.deliveries, is_late)

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

        return await lease.record(decide, release=lambda state: state.phase == "ended")

    def send_pending(self, sending: Sending, tasks: dict[int, asyncio.Task[Outcome]]) -> None:
        """Begin the deliveries that were decided and are not under way here."""
        for delivery in sending.routing.deliveries:
            if delivery.status == "pending" and delivery.number not in tasks:
                tasks[delivery.number] = asyncio.create_task(self.outcome(sending, delivery))

    async def next_outcomes(
        self, state: RoutedMessageState, tasks: dict[int, asyncio.Task[Outcome]], until: float
    ) -> list[Outcome]:
        """The outcomes that are there; waits for the first of them, but not longer than `until` and
        the deadline of the message. Raises StoreUnavailable."""
        assert state.deadline_at is not None, "an active message has a deadline"
        left = (state.deadline_at - self.ports.clock.now()).total_seconds()
        seconds = max(min(until - self.ports.clock.monotonic(), left), 0.0)
        sleeping = asyncio.ensure_future(self.ports.clock.sleep(seconds))
        try:
            await asyncio.wait([*tasks.values(), sleeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        ended = [number for number, task in tasks.items() if task.done()]
        return [tasks.pop(number).result() for number in ended]

    async def outcome(self, sending: Sending, delivery: Delivery) -> Outcome:
        """Deliver once, and wait for the answer if there is to be one. Raises StoreUnavailable."""
        org, runs = sending.lease.work.org, self.ports.runs
        if delivery.purpose == "notice":
            return Outcome(delivery.number, await self.start(sending, delivery))
        async with runs.follow_run(org, delivery.run_id) as progress:
            refused = await self.start(sending, delivery)
            if refused:
                return Outcome(delivery.number, refused)
            if sending.is_new:
                await progress.next(LOOK_SECONDS)
            run = await runs.look_until_end(org, delivery.run_id, progress)
        return await self.outcome_of(org, delivery, run)

    async def outcome_of(self, org: str, delivery: Delivery, run: RunProgress | None) -> Outcome:
        """What the end of a run means for a delivery. Raises StoreUnavailable."""
        if run is None:
            reason = f"The run {delivery.run_id} is not there any more"
            return Outcome(delivery.number, Rejected(code=NOT_FOUND, reason=reason))
        if run.status != "completed":
            why = (run.error or {}).get("message") or run.stop_reason
            reason = f"Its run is {run.status}" + (f": {why}" if why else "")
            return Outcome(delivery.number, Rejected(code=UNAVAILABLE, reason=reason))
        bid = None
        if delivery.purpose == "bid":
            texts = answer_texts(await self.ports.runs.messages(org, delivery.run_id))
            bid = parsed_bid("\n".join(texts))
        return Outcome(delivery.number, bid=bid)

    async def start(self, sending: Sending, delivery: Delivery) -> Rejected | None:
        """Have the run of a delivery accepted, unless it was before; returns why it is not. Where
        nobody else can be asked instead, an agent that is busy is asked again."""
        org = sending.lease.work.org
        if not sending.is_new and await self.ports.runs.queries.run_progress(org, delivery.run_id):
            return None
        wanted = await self.wanted_run(sending, delivery)
        fails_over = sending.routing.request.pattern in ("one", "pipeline")
        while True:
            try:
                async with sending.starts:
                    refused = await self.ports.runs.start(wanted, sending.lease.context)
                if not refused or refused.code != BUSY or fails_over:
                    return refused
            except BusUnavailable:
                pass
            await self.ports.clock.sleep(RETRY_SECONDS)

    async def wanted_run(self, sending: Sending, delivery: Delivery) -> WantedRun:
        """The run of a delivery. Raises StoreUnavailable."""
        request = sending.routing.request
        texts = await self.texts_before(sending, delivery)
        messages = STRATEGIES[request.pattern].compose(sending.routing, delivery, texts)
        return WantedRun(
            run_id=delivery.run_id,
            agent_id=delivery.agent_id,
            messages=[with_otid(message) for message in messages],
            created_at=self.ports.clock.now(),
            metadata={
                "run_type": "routed_message",
                "routed_message_id": sending.lease.work.id,
                "purpose": delivery.purpose,
            },
            max_steps=request.max_steps,
            callers=tuple(request.callers),
        )

    async def texts_before(self, sending: Sending, delivery: Delivery) -> Mapping[int, str]:
        """What the stage before that of a delivery has answered, by the number of its delivery."""
        if delivery.stage == 0:
            return {}
        org = sending.lease.work.org
        return {
            before.number: "\n".join(
                answer_texts(await self.ports.runs.messages(org, before.run_id))
            )
            for before in sending.routing.deliveries
            if before.stage == delivery.stage - 1 and before.status == "delivered"
        }

    async def withdraw(self, sending: Sending) -> list[Outcome]:
        """End the runs that nobody waits for any more. Raises StoreUnavailable."""
        pending = [each for each in sending.routing.deliveries if each.status == "pending"]
        return [await self.withdraw_one(sending, delivery) for delivery in pending]

    async def withdraw_one(self, sending: Sending, delivery: Delivery) -> Outcome:
        """End one run. One that has answered meanwhile counts, and so does one that only tells its
        agent something: it goes on. Raises StoreUnavailable."""
        org, queries = sending.lease.work.org, self.ports.runs.queries
        run = await queries.run_progress(org, delivery.run_id)
        if run and delivery.purpose == "notice":
            return Outcome(delivery.number)
        if run and run.is_active:
            await self.cancel_run(sending, delivery)
            run = await queries.run_progress(org, delivery.run_id)
        if run and run.status == "completed":
            return await self.outcome_of(org, delivery, run)
        reason = "It did not answer in time"
        return Outcome(delivery.number, Rejected(code=CONFLICT, reason=reason))

    async def cancel_run(self, sending: Sending, delivery: Delivery) -> None:
        """Cancel the run of a delivery, also through an outage of the bus."""
        while True:
            try:
                context = sending.lease.context
                await self.ports.runs.cancel(delivery.agent_id, delivery.run_id, context)
                return
            except BusUnavailable:
                await self.ports.clock.sleep(RETRY_SECONDS)


def end_of(state: RoutedMessageState) -> JsonObject:
    """What followers are told of the end of a message: whose answer it is, if one agent's."""
    end: JsonObject = {"end": True}
    if len(state.answers) != 1:
        return end
    answer = state.deliveries[state.answers[0] - 1]
    return {
        **end,
        "agent_id": answer.agent_id,
        "run_id": answer.run_id,
        "attempts": len(state.deliveries),
    }


def with_otid(message: Message) -> Message:
    """A message under an otid that follows from its id, as messages of clients have one."""
    return message.model_copy(update={"otid": message.id.removeprefix("message-")})


async def cancel_all(tasks: dict[int, asyncio.Task[Outcome]]) -> None:
    """End what is being waited for."""
    ending = list(tasks.values())
    tasks.clear()
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
