"""Whenever a run starts, begin an attempt at it.

A run is answered by the process that holds the lease of its conversation. It dies and another takes
over: what is recorded is not done again, what is not recorded is. Between the steps nothing is
held but the lease, no database connection and no lock.
"""

from __future__ import annotations

import asyncio
import logging

from libs.contracts.agent.stream_chunks import NUMBER_MAX
from libs.contracts.bus_messages import Context
from libs.eventstore.ports import Fence, VersionConflict
from libs.work.leased_tasks import LeasedTasks
from services.agent.adapters.all_queries import seen_memory
from services.agent.adapters.tool_permissions import with_forbidden
from services.agent.adapters.tool_queries import with_custom_tools
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.model_step import StepRequest, step_request
from services.agent.engine.ports import EnginePorts
from services.agent.engine.run_attempt import PreparedStep, RunAttempt
from services.agent.engine.run_stream import RunStreamPublisher

log = logging.getLogger(__name__)

LOOKS_AT_ONCE = 50


class RunEngine(LeasedTasks[RunAttempt]):
    """The runs that this process answers: an attempt for each conversation with a run."""

    drain_seconds_max = 5.0

    def __init__(self, ports: EnginePorts) -> None:
        super().__init__(ports.clock)
        self.ports = ports
        self.attempts: dict[str, RunAttempt] = {}  # the newest of each conversation

    def begin(
        self,
        conversation_id: str,
        epoch: int | None,
        context: Context,
        fresh: PreparedStep | None = None,
    ) -> None:
        """Begin an attempt at the run of a conversation whose lease was just taken; `fresh` is what
        was read of the agent a moment ago, if it was.

        Without an epoch the lease was not free: its holder, or the sweeper, sees to the run.
        """
        if epoch is None or self.stopping:
            return
        fence = Fence(conversation_id, epoch)
        attempt = RunAttempt(self.ports, self, fence, context, fresh)
        self.attempts[conversation_id] = attempt
        self.begin_task(attempt, attempt.run())

    def look(self, design: AgentDesign, conversation: Conversation) -> PreparedStep:
        """Begin to prepare what the model is asked while the start of a run is being committed."""
        preparation = self.prepare_step(design, conversation, conversation.version)
        question = asyncio.ensure_future(preparation)
        # If the commit is refused nobody asks what came of it.
        question.add_done_callback(lambda done: done.cancelled() or done.exception())
        return PreparedStep(design, question)

    async def prepare_step(
        self, design: AgentDesign, conversation: Conversation, version: int
    ) -> StepRequest:
        """The first request to the model. Yields to the event loop first: a client waits for the
        commit that goes on meanwhile. Raises VersionConflict if the conversation has changed since
        `version`."""
        await asyncio.sleep(0)
        queries, org = self.ports.queries, conversation.org
        memory = await seen_memory(queries, org, design)
        design = await with_custom_tools(queries, org, design)
        design = with_forbidden(self.ports.policies(), org, design)
        if conversation.version != version:
            raise VersionConflict(conversation.id)
        at = self.ports.clock.now()
        return step_request(conversation, design, memory, at=at)

    def forget(self, attempt: RunAttempt, ended: asyncio.Task[None]) -> None:
        """Forget an attempt whose task has ended."""
        del self.tasks[attempt]
        if self.attempts.get(attempt.fence.key) is attempt:
            del self.attempts[attempt.fence.key]

    def cancelled(self, conversation_id: str, run_ids: list[str], context: Context) -> None:
        """These runs of a conversation were just cancelled: let go of them, and say so."""
        attempt = self.attempts.get(conversation_id)
        if attempt is not None:
            attempt.interrupt(run_ids)
        self.show_ended(run_ids, context)

    def show_ended(self, run_ids: list[str], context: Context) -> None:
        """Say that these runs have ended without an attempt at them."""
        self.aside(self.show_rows(run_ids, context))

    async def show_rows(self, run_ids: list[str], context: Context) -> None:
        """Bid those who follow these runs to look at their rows."""
        publisher = RunStreamPublisher(self.ports.bus, context.org)
        for number, run_id in enumerate(run_ids, start=1):
            await publisher.look(run_id, NUMBER_MAX)
            if number % LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)  # others have something to do too

    async def end_cancelled(self) -> None:
        """Let go of the runs that were cancelled in another process."""
        attempts = list(self.attempts.values())
        working = [attempt for attempt in attempts if attempt.waits_for]
        orgs = [attempt.context.org for attempt in working]
        gone = await self.ports.queries.cancelled_runs(
            orgs, [attempt.waits_for for attempt in working]
        )
        for attempt in attempts:
            attempt.interrupt(gone)

    async def sweep(self) -> None:
        """Take over the runs that nobody has a lease for."""
        if self.stopping:
            return
        for orphan in await self.ports.queries.orphaned_runs(self.are_left()):
            if orphan.id in self.attempts:
                continue
            epoch = await self.ports.repository.store.take_lease(orphan.id)
            if epoch is not None:
                log.info("taking over the run of %s", orphan.id)
                self.begin(orphan.id, epoch, Context(self.ports.ids.new("sweep"), org=orphan.org))

    def has_begun_another(self, fence: Fence) -> bool:
        """Whether an attempt has begun here under a later lease of the same conversation."""
        attempt = self.attempts.get(fence.key)
        return attempt is not None and attempt.fence.epoch > fence.epoch
