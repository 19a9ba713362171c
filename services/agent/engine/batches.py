"""Carry batches on: start items while there is room, take the results of those that have ended.

Nobody waits for a run: that an item is started is an event, and a batch is due again when the run
of one of its items has ended. Each command has an id that follows from the batch and the number of
the item, so that an attempt that is repeated starts nothing a second time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.ports import BusUnavailable
from libs.contracts.agent.batches import BatchItem, ItemOutcome
from libs.contracts.agent.conversations import DeleteConversation
from libs.contracts.agent.runs import (
    QueuedRunsCancelled,
    RunCancelled,
    RunCompleted,
    RunFailed,
)
from libs.contracts.bus_messages import NOT_FOUND, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import StopReasonType
from libs.contracts.letta.messages import only_types
from libs.contracts.state_size_limits import size
from libs.eventstore.ports import StoreUnavailable
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.agent_runs import AgentRuns
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from services.agent.adapters.batch_queries import StoredItem
from services.agent.domain.batches.batch import Batch
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)

BATCHES_AT_ONCE_MAX = 8
ORGANISATION_BATCHES_AT_ONCE_MAX = 6
# What is kept of the answer to one item, as JSON; of a longer one only what the agent said last.
RESULT_BYTES_MAX = 512 << 10
ENDING_EVENTS = (RunCompleted, RunFailed, RunCancelled, QueuedRunsCancelled)
DELETED = "The run of this item, its conversation or its agent was deleted"
WAITS_FOR_CLIENT = (
    "The agent waits for an approval or for the result of a client's tool, which nobody can give in"
    " a batch: send this message by itself"
)


class Batches(LeasedWork[DueWork]):
    """The batches that this process carries on. An attempt does what can be done at once, and
    holds nothing while runs go on."""

    name = "batch"
    ports: EnginePorts

    def __init__(self, ports: EnginePorts) -> None:
        places = FairSemaphore(
            BATCHES_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_BATCHES_AT_ONCE_MAX,
            users="batches",
            thing="place",
        )
        super().__init__(ports, places)
        self.runs = AgentRuns(ports.bus, ports.queries)
        self.may_be_open = False
        self.sweeping_soon = False

    async def due(self) -> Sequence[DueWork]:
        """The batches that can be carried on, and that nobody carries on."""
        self.may_be_open = await self.ports.queries.has_open_batches()
        if not self.may_be_open:
            return ()
        return await self.ports.queries.due_batches(BATCHES_AT_ONCE_MAX)

    def note_end_of_run(self, _event: Event) -> None:
        """A run has ended in this process: look at once whether it was an item, if there are any
        batches."""
        if self.may_be_open and not self.sweeping_soon and not self.stopping:
            self.sweeping_soon = True
            self.aside(self.sweep_once())

    async def sweep_once(self) -> None:
        """Sweep, together with what has ended until it begins."""
        with contextlib.suppress(StoreUnavailable):
            async with self.beginning:
                self.sweeping_soon = False
                await self.begin_due()

    def begin_batch(self, batch_id: str, unit: UnitOfWork) -> None:
        """Have a commit take the lease of a batch, and carry the batch on then."""
        self.may_be_open = True
        self.begin_after_commit(DueWork(batch_id, unit.context.org), unit)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Carry a batch on as far as it goes without waiting; the rest is for a later attempt."""
        try:
            await self.carry_on(lease)
        except BusUnavailable as outage:
            log.warning("%s goes on later: %s", lease.work.id, outage)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that a batch has failed. Its runs that were started go on."""
        (await unit.load(Batch, work.id)).give_up(reason, at=self.ports.clock.now())

    async def carry_on(self, lease: WorkLease[DueWork]) -> None:
        """Carry a batch on. Raises BusUnavailable."""
        batch = await lease.unit().load(Batch, lease.work.id)
        if not batch.is_open:
            return
        lease.context = batch.context()  # what follows belongs to the story of its request
        if batch.state.cancelled:
            running = await self.items(batch, batch.numbers("running"))
            await self.cancel_runs(batch, [item for item in running if not item.has_ended])
        running = await self.items(batch, batch.numbers("running"))
        await self.take_results(lease, batch, [item for item in running if item.has_ended])
        await self.start_again(lease, batch, [item for item in running if item.status is None])
        await self.start_more(lease, batch)
        await self.complete(lease)

    async def items(self, batch: Batch, numbers: list[int]) -> list[StoredItem]:
        """These items, as they are stored, with how far their runs are."""
        if not numbers:
            return []
        return await self.ports.queries.batch_items(batch.org, batch.id, numbers)

    # Results

    async def take_results(
        self, lease: WorkLease[DueWork], batch: Batch, ended: Sequence[StoredItem]
    ) -> None:
        """Record what came of items whose runs have ended; then their conversations may go."""
        # What waits for a client that cannot answer would keep others out of the conversation.
        await self.cancel_runs(batch, [item for item in ended if waits_for_client(item)])
        for item in ended:
            await self.end(lease, [await self.outcome(batch.org, item)])
        await self.remove_conversations(batch, [item.number for item in ended])

    async def outcome(self, org: str, item: StoredItem) -> ItemOutcome:
        """What came of the run of an item."""
        found = await self.ports.queries.run_messages(org, item.request.run.id)
        said = [message for message in found if message["message_type"] != "user_message"]
        messages = only_types(said, item.request.run.include_return_message_types)
        cut = size(messages) > RESULT_BYTES_MAX
        if cut:
            answers = [each for each in messages if each["message_type"] == "assistant_message"]
            messages = [each for each in answers[-1:] if size(each) <= RESULT_BYTES_MAX]
        reason = reason_of(item)
        status = "cancelled" if item.status == "cancelled" else "failed" if reason else "completed"
        return ItemOutcome(
            number=item.number,
            status=status,
            stop_reason=item.stop_reason,
            reason=reason,
            messages=messages,
            usage=item.usage,
            cut=cut,
        )

    async def end(self, lease: WorkLease[DueWork], outcomes: Sequence[ItemOutcome]) -> None:
        """Record what came of items, unless that was recorded before."""

        async def decide(unit: UnitOfWork) -> None:
            batch = await unit.load(Batch, lease.work.id)
            batch.end_items(outcomes, at=self.ports.clock.now())

        await lease.record(decide, release=False, advances=True)

    async def remove_conversations(self, batch: Batch, numbers: list[int] | None) -> None:
        """Delete the conversations that were made for these items, or for all; not those that the
        client wants to keep. Safe to repeat."""
        if batch.state.keep or numbers == []:
            return
        left = await self.ports.queries.left_conversations(batch.org, batch.id, numbers)
        for conversation in left:
            command = DeleteConversation(conversation_id=conversation.id)
            name = derived_id("cmd", conversation.id, "delete")
            await self.ports.bus.request(command, batch.context().follow_up(name))

    # Starts

    async def start_more(self, lease: WorkLease[DueWork], batch: Batch) -> None:
        """Start items, as many as there is room for."""
        busy = await self.ports.queries.busy_agents(batch.org, batch.id)

        async def decide(unit: UnitOfWork) -> list[int]:
            current = await unit.load(Batch, batch.id)
            return current.start(busy, at=self.ports.clock.now())

        numbers = await lease.record(decide, release=False, advances=True)
        for item in await self.items(batch, numbers):
            await self.start_item(lease, batch, item)

    async def start_again(
        self, lease: WorkLease[DueWork], batch: Batch, lost: Sequence[StoredItem]
    ) -> None:
        """See to items without a run: the process that was about to start it has died, or it was
        deleted since. The start is repeated; if there is still no run, it was deleted."""
        if batch.state.cancelled:
            await self.end(lease, [cancellation(item) for item in lost])
            return
        started = [item.number for item in lost if await self.start_item(lease, batch, item)]
        after = await self.items(batch, started)
        gone = [failure(item, DELETED) for item in after if item.status is None]
        if gone:
            await self.end(lease, gone)

    async def start_item(self, lease: WorkLease[DueWork], batch: Batch, item: StoredItem) -> bool:
        """Start the run of an item; returns whether it was accepted, now or before. An item that is
        refused has failed, unless there is only no room for it now."""
        refused = await self.start_run(batch, item.request)
        if refused is None:
            return True
        if refused.next_try != "again":
            await self.end(lease, [failure(item, refused.reason)])
        return False

    async def start_run(self, batch: Batch, item: BatchItem) -> Rejected | None:
        """Have the run of an item accepted, in its conversation; returns why it is not."""
        context, run = batch.context(), item.run
        if run.conversation_id is not None:
            refused = await self.runs.make_conversation(
                run.agent_id,
                run.conversation_id,
                {"summary": f"An item of {batch.id}", "hidden": not batch.state.keep},
                context,
            )
            if refused is not None:
                return refused
        reply = await self.ports.bus.request(item.start_command(), context.follow_up(run.id))
        return reply if isinstance(reply, Rejected) else None

    # Ends

    async def cancel_runs(self, batch: Batch, items: Sequence[StoredItem]) -> None:
        """Cancel the runs of items that have one, or what they wait for. Safe to repeat."""
        for item in items:
            run = item.request.run
            if item.status is not None:
                cause, conversation_id = batch.context(), run.conversation_id
                refused = await self.runs.cancel(run.agent_id, run.id, cause, conversation_id)
                if refused is not None and refused.code != NOT_FOUND:
                    log.info("%s is not cancelled: %s", run.id, refused.reason)

    async def complete(self, lease: WorkLease[DueWork]) -> None:
        """End the batch, if all of its items have ended; first the conversations go that an attempt
        has left which did not get that far."""
        batch = await lease.unit().load(Batch, lease.work.id)
        if not batch.is_open or not batch.is_done:
            return
        await self.remove_conversations(batch, None)

        async def decide(unit: UnitOfWork) -> None:
            current = await unit.load(Batch, batch.id)
            current.complete(at=self.ports.clock.now())

        await lease.record(decide)


def waits_for_client(item: StoredItem) -> bool:
    """Whether the run of an item has ended with calls that wait for an answer."""
    return item.stop_reason == StopReasonType.requires_approval


def reason_of(item: StoredItem) -> str:
    """Why an item was not answered, although its run has ended; empty if it was."""
    if waits_for_client(item):
        return WAITS_FOR_CLIENT
    if item.status == "failed":
        return str((item.error or {}).get("message") or item.stop_reason)
    return "Its run was cancelled" if item.status == "cancelled" else ""


def failure(item: StoredItem, reason: str) -> ItemOutcome:
    """The outcome of an item that was not answered."""
    return ItemOutcome(number=item.number, status="failed", reason=reason)


def cancellation(item: StoredItem) -> ItemOutcome:
    """The outcome of an item whose batch was cancelled before its run began."""
    return ItemOutcome(number=item.number, status="cancelled", reason="The batch was cancelled")
