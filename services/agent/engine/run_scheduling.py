"""Whenever a run starts, begin an attempt at it.

A run is answered by the process that holds the lease of its conversation. It dies and another takes
over: what is recorded is not done again, what is not recorded is. Between the steps nothing is
held but the lease, no database connection and no lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from libs.bus.unknown_version_delays import LEFT_ALONE_SECONDS
from libs.contracts.agent.stream_chunks import NUMBER_MAX
from libs.contracts.bus_messages import Context
from libs.eventstore.ports import Fence, StoreUnavailable, VersionConflict
from services.agent.adapters.memory_queries import seen_memory
from services.agent.adapters.tool_permissions import with_forbidden
from services.agent.adapters.tool_queries import with_custom_tools
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.model_step import StepRequest, step_request
from services.agent.engine.ports import EnginePorts
from services.agent.engine.run_attempt import PreparedStep, RunAttempt
from services.agent.engine.run_stream import RunStreamPublisher

log = logging.getLogger(__name__)

DRAIN_SECONDS_MAX = 5.0
LOOKS_AT_ONCE = 50
LEFT_MAX = 1_000


class RunEngine:
    """The runs that this process answers: an attempt for each conversation with a run."""

    def __init__(self, ports: EnginePorts) -> None:
        self.ports = ports
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.attempts: dict[str, RunAttempt] = {}
        self.asides: set[asyncio.Task[None]] = set()
        self.missing: set[asyncio.Task[None]] = set()
        self.left_until: dict[str, float] = {}  # conversations that only newer processes can read
        self.cancelled_unseen = False
        self.looking = False
        self.stopping = False

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
        task = asyncio.create_task(attempt.run())
        self.tasks[conversation_id] = task
        self.attempts[conversation_id] = attempt
        task.add_done_callback(lambda done: self.forget(conversation_id, done))

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
        blocks, folders, archival = await seen_memory(queries, org, design)
        design = await with_custom_tools(queries, org, design)
        design = with_forbidden(self.ports.policies(), org, design)
        if conversation.version != version:
            raise VersionConflict(conversation.id)
        at = self.ports.clock.now()
        return step_request(
            conversation, design, blocks, at=at, directories=folders, archival=archival
        )

    def forget(self, conversation_id: str, done: asyncio.Task[None]) -> None:
        """Forget an attempt whose task has ended."""
        if self.tasks.get(conversation_id) is done:
            del self.tasks[conversation_id]
            del self.attempts[conversation_id]

    def cancelled(self, conversation_id: str, run_ids: list[str], context: Context) -> None:
        """These runs of a conversation were just cancelled: let go of them, and say so."""
        attempt = self.attempts.get(conversation_id)
        if attempt is not None:
            attempt.interrupt(run_ids)
        self.show_ended(run_ids, context)

    def show_ended(self, run_ids: list[str], context: Context) -> None:
        """Say that these runs have ended without an attempt at them."""
        self.aside(self.show_rows(run_ids, context))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        task = asyncio.create_task(work)
        self.asides.add(task)
        task.add_done_callback(self.asides.discard)

    async def show_rows(self, run_ids: list[str], context: Context) -> None:
        """Bid those who follow these runs to look at their rows."""
        publisher = RunStreamPublisher(self.ports.bus, context.org)
        for number, run_id in enumerate(run_ids, start=1):
            await publisher.look(run_id, NUMBER_MAX)
            if number % LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)  # others have something to do too

    def cancelled_somewhere(self) -> None:
        """A run was cancelled; if there is an attempt at it here, let go of it. However many are
        cancelled while somebody looks, one more look follows."""
        self.cancelled_unseen = True
        if self.attempts and not self.looking:
            self.looking = True
            self.aside(self.interrupt_cancelled())

    async def interrupt_cancelled(self) -> None:
        """Let go of the runs that were cancelled in another process. If that fails, the next
        commit of their attempts finds out."""
        try:
            while self.cancelled_unseen:
                self.cancelled_unseen = False
                attempts = list(self.attempts.values())
                working = [attempt for attempt in attempts if attempt.waits_for]
                orgs = [attempt.context.org for attempt in working]
                runs = [attempt.waits_for for attempt in working]
                with contextlib.suppress(StoreUnavailable):
                    gone = await self.ports.queries.cancelled_runs(orgs, runs)
                    for attempt in attempts:
                        attempt.interrupt(gone)
        finally:
            self.looking = False

    def leases_held(self, held: set[str]) -> None:
        """Stop what somebody else does now. A lease that is missing for the first time
        may have just been given back by the commit that ended the run, which is still to be told;
        until the second time the fence keeps the attempt from doing harm."""
        missing = {task for name, task in self.tasks.items() if name not in held}
        for task in missing & self.missing:
            task.cancel()
        self.missing = missing

    async def sweep(self) -> None:
        """Take over the runs that nobody has a lease for."""
        if self.stopping:
            return
        for orphan in await self.ports.queries.orphaned_runs(self.conversations_left()):
            if orphan.id in self.tasks:
                continue
            epoch = await self.ports.repository.store.take_lease(orphan.id)
            if epoch is not None:
                log.info("taking over the run of %s", orphan.id)
                self.begin(orphan.id, epoch, Context(self.ports.ids.new("sweep"), org=orphan.org))

    def has_begun_another(self, fence: Fence) -> bool:
        """Whether an attempt has begun here under a later lease of the same conversation."""
        attempt = self.attempts.get(fence.key)
        return attempt is not None and attempt.fence.epoch > fence.epoch

    def leave(self, conversation_id: str) -> None:
        """Leave a conversation to newer processes: this one does not look at it for a while."""
        if len(self.left_until) >= LEFT_MAX:
            del self.left_until[next(iter(self.left_until))]
        self.left_until[conversation_id] = self.ports.clock.monotonic() + LEFT_ALONE_SECONDS

    def conversations_left(self) -> list[str]:
        """The conversations that this process leaves to newer processes for now."""
        now = self.ports.clock.monotonic()
        self.left_until = {left: until for left, until in self.left_until.items() if until > now}
        return list(self.left_until)

    async def drain(self) -> None:
        """Let the runs get on for a moment, then leave them to others, at once."""
        self.stopping = True
        if self.tasks:
            await asyncio.wait(self.tasks.values(), timeout=DRAIN_SECONDS_MAX)
        for task in list(self.tasks.values()):
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
