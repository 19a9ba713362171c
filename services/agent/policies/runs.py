"""Whenever a run starts, have it driven to its end.

A run is driven by the process that holds the lease of its conversation. It dies and another takes
over: what is recorded is not done again, what is not recorded is. Between the steps nothing is
held but the lease, no database connection and no lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import Bus, Clock, Ids
from libs.bus.solitude import Solitude
from libs.contracts.message import Context
from libs.contracts.told import NUMBER_MAX
from libs.eventstore.ports import Fence, StoreUnavailable, VersionConflict
from libs.eventstore.work import Repository
from services.agent.adapters.models.port import Models
from services.agent.adapters.queries import Queries
from services.agent.adapters.tools import Tools
from services.agent.domain.agent import Design
from services.agent.domain.conversation import Conversation
from services.agent.policies.asking import Question, question_of
from services.agent.policies.driver import FreshLook, RunDriver
from services.agent.policies.telling import RunTeller
from services.agent.settings import RUN_SECONDS_MAX

log = logging.getLogger(__name__)

DRAIN_SECONDS_MAX = 5.0
LOOKS_AT_ONCE = 50


class RunDrivers:
    """The runs that this process drives."""

    def __init__(
        self,
        repository: Repository,
        models: Models,
        tools: Tools,
        queries: Queries,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        committed: Callable[[], None],
        solitude: Solitude | None = None,
        locks: AggregateLocks | None = None,
        *,
        run_seconds_max: float = RUN_SECONDS_MAX,
    ) -> None:
        self.repository = repository
        self.models = models
        self.tools = tools
        self.queries = queries
        self.bus = bus
        self.clock = clock
        self.ids = ids
        self.committed = committed
        self.solitude = solitude or Solitude(clock)
        self.locks = locks or AggregateLocks()
        self.run_seconds_max = run_seconds_max
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.driving: dict[str, RunDriver] = {}
        self.asides: set[asyncio.Task[None]] = set()
        self.missing: set[asyncio.Task[None]] = set()
        self.cancelled_unseen = False
        self.looking = False
        self.stopping = False

    def begin(
        self,
        conversation_id: str,
        epoch: int | None,
        context: Context,
        fresh: FreshLook | None = None,
    ) -> None:
        """Drive the turn of a conversation whose lease was just taken; `fresh` is what was read of
        the agent a moment ago, if it was.

        Without an epoch the lease was not free: its holder, or the sweeper, drives the turn.
        """
        if epoch is None or self.stopping:
            return
        driver = RunDriver(self, Fence(conversation_id, epoch), context, fresh)
        task = asyncio.create_task(driver.drive())
        self.tasks[conversation_id] = task
        self.driving[conversation_id] = driver
        task.add_done_callback(lambda done: self.forget(conversation_id, done))

    def look(self, design: Design, conversation: Conversation) -> FreshLook:
        """Begin to prepare what the model is asked while the turn is being committed."""
        question = asyncio.ensure_future(self.prepared(design, conversation, conversation.version))
        # If the commit is refused nobody asks what came of it.
        question.add_done_callback(lambda done: done.cancelled() or done.exception())
        return FreshLook(design, question)

    async def prepared(self, design: Design, conversation: Conversation, version: int) -> Question:
        """What the model is asked now; the commit goes first, which whoever asked waits for.
        Raises VersionConflict if the conversation has gone on meanwhile."""
        await asyncio.sleep(0)
        blocks = await self.queries.seen_blocks(design.block_ids)
        if conversation.version != version:
            raise VersionConflict(conversation.id)
        return question_of(conversation, design, blocks, at=self.clock.now())

    def forget(self, conversation_id: str, done: asyncio.Task[None]) -> None:
        """A drive has ended."""
        if self.tasks.get(conversation_id) is done:
            del self.tasks[conversation_id]
            del self.driving[conversation_id]

    def cancelled(self, conversation_id: str, run_ids: list[str], context: Context) -> None:
        """These runs of a conversation were just cancelled: let go of them, and say so."""
        driver = self.driving.get(conversation_id)
        if driver is not None:
            driver.interrupt(run_ids)
        self.aside(self.show_rows(run_ids, context))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        task = asyncio.create_task(work)
        self.asides.add(task)
        task.add_done_callback(self.asides.discard)

    async def show_rows(self, run_ids: list[str], context: Context) -> None:
        """Bid those who follow these runs to look at their rows."""
        teller = RunTeller(self.bus, context.org)
        for number, run_id in enumerate(run_ids, start=1):
            await teller.look(run_id, NUMBER_MAX)
            if number % LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)  # others have something to do too

    def cancelled_somewhere(self) -> None:
        """A run was cancelled; if it is driven here, let go of it. However many are cancelled while
        somebody looks, one more look follows."""
        self.cancelled_unseen = True
        if self.driving and not self.looking:
            self.looking = True
            self.aside(self.interrupt_cancelled())

    async def interrupt_cancelled(self) -> None:
        """Let go of the runs that were cancelled in another process. If that fails, the next
        commit of their drivers finds out."""
        try:
            while self.cancelled_unseen:
                self.cancelled_unseen = False
                drivers = list(self.driving.values())
                working_on = [one.working_on for one in drivers if one.working_on]
                with contextlib.suppress(StoreUnavailable):
                    gone = await self.queries.cancelled_runs(working_on)
                    for driver in drivers:
                        driver.interrupt(gone)
        finally:
            self.looking = False

    def leases_held(self, held: set[str]) -> None:
        """Stop driving what somebody else drives now. A lease that is missing for the first time
        may have just been given back by the commit that ended the run, which is still to be told;
        until the second time the fence keeps the driver from doing harm."""
        missing = {task for name, task in self.tasks.items() if name not in held}
        for task in missing & self.missing:
            task.cancel()
        self.missing = missing

    async def sweep(self) -> None:
        """Take over the turns that nobody drives."""
        if self.stopping:
            return
        for orphan in await self.queries.orphaned_turns():
            if orphan.id in self.tasks:
                continue
            epoch = await self.repository.store.take_lease(orphan.id)
            if epoch is not None:
                log.info("taking over the turn of %s", orphan.id)
                self.begin(orphan.id, epoch, Context(self.ids.new("sweep"), org=orphan.org))

    async def drain(self) -> None:
        """Let the runs get on for a moment, then leave them to others, at once."""
        self.stopping = True
        if self.tasks:
            await asyncio.wait(self.tasks.values(), timeout=DRAIN_SECONDS_MAX)
        for task in list(self.tasks.values()):
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
