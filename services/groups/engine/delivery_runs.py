"""Have an agent answer a delivery of a routed message: start its run, follow it, withdraw it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNAVAILABLE, Rejected
from libs.work.acceptance import until_accepted
from libs.work.agent_runs import AgentRuns, RunProgress, WantedRun, answer_texts
from libs.work.deliveries import Deliveries
from libs.work.work_lease import DueWork, WorkLease
from services.groups.adapters.recipient_queries import RecipientQueries
from services.groups.domain.routing.contract_net import parsed_bid
from services.groups.domain.routing.plans import Delivery, Routing
from services.groups.domain.routing.strategies import STRATEGIES


@dataclass(slots=True, kw_only=True)
class RoutingPorts(ProcessPorts):
    """What routed messages are worked on with."""

    queries: RecipientQueries
    runs: AgentRuns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a delivery: `refused` says why it failed."""

    number: int
    refused: Rejected | None = None
    bid: float | None = None
    run: RunProgress | None = None


@dataclass(frozen=True, slots=True)
class Sending:
    """A message that this process routes now, as its last decision left it."""

    lease: WorkLease[DueWork]
    routing: Routing
    starts: asyncio.Semaphore
    is_new: bool


class DeliveryRuns:
    """The runs that answer deliveries."""

    def __init__(self, ports: RoutingPorts) -> None:
        self.ports = ports
        self.deliveries = Deliveries(ports.runs, ports.clock)

    async def outcome(self, sending: Sending, delivery: Delivery) -> Outcome:
        """Deliver once, and wait for the answer if there is to be one. Raises StoreUnavailable."""
        org, runs = sending.lease.work.org, self.ports.runs
        if delivery.purpose == "notice":
            return Outcome(delivery.number, await self.start(sending, delivery))
        async with runs.follow_run(org, delivery.run_id) as progress:
            refused = await self.start(sending, delivery)
            if refused:
                return Outcome(delivery.number, refused)
            run = await runs.wait_for_end(org, delivery.run_id, progress, is_new=sending.is_new)
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
        return Outcome(delivery.number, bid=bid, run=run)

    async def start(self, sending: Sending, delivery: Delivery) -> Rejected | None:
        """Have the run of a delivery accepted, unless it was before; returns why it is not. A busy
        agent is asked again where it matters that it is this one."""
        org = sending.lease.work.org
        if not sending.is_new and await self.ports.runs.queries.run_progress(org, delivery.run_id):
            return None
        wanted = await self.wanted_run(sending, delivery)

        async def start() -> Rejected | None:
            async with sending.starts:
                return await self.ports.runs.start(wanted, sending.lease.context)

        seconds_max = 0.0 if is_replaceable(sending.routing, delivery) else inf
        return await until_accepted(self.ports.clock, start, seconds_max=seconds_max)

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
        return [await self.withdraw_one(sending, delivery) for delivery in sending.routing.overdue]

    async def withdraw_one(self, sending: Sending, delivery: Delivery) -> Outcome:
        """End one run. One that has answered meanwhile counts, and so does one that only tells its
        agent something: it goes on. Raises StoreUnavailable."""
        org, queries = sending.lease.work.org, self.ports.runs.queries
        run = await queries.run_progress(org, delivery.run_id)
        if run and delivery.purpose == "notice":
            return Outcome(delivery.number)
        if run is None or run.is_active:  # its start may be on the way
            context = sending.lease.context
            await self.deliveries.withdraw(delivery.agent_id, delivery.run_id, context)
            run = await queries.run_progress(org, delivery.run_id)
        if run and run.status == "completed":
            return await self.outcome_of(org, delivery, run)
        reason = "It did not answer in time"
        return Outcome(delivery.number, Rejected(code=CONFLICT, reason=reason))


def is_replaceable(routing: Routing, delivery: Delivery) -> bool:
    """Whether a delivery to a busy agent fails: somebody else is asked instead, or somebody waits
    for an answer that is there already."""
    pattern, purpose = routing.request.pattern, delivery.purpose
    tells_losers = pattern == "contract_net" and purpose == "notice"
    return pattern in ("one", "pipeline") or purpose == "award" or tells_losers


def with_otid(message: Message) -> Message:
    """A message under an otid that follows from its id, as messages of clients have one."""
    return message.model_copy(update={"otid": message.id.removeprefix("message-")})
