"""A conversation under a lease: read as it is stored, changed by the lease's holder."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, replace
from itertools import count

from libs.contracts.agent.steps import ToolCallsStarted, ToolCallStarted
from libs.contracts.agent.stream_chunks import OPENING_NUMBER
from libs.contracts.bus_messages import Context, Event
from libs.eventstore.failed_messages.ports import DeadLetter, park
from libs.eventstore.ports import Fence, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.tool_permissions import with_forbidden
from services.agent.adapters.tool_queries import with_custom_tools
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.configuration_overrides import design_of_run, within_window
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.ports import EnginePorts
from services.agent.engine.run_stream import RunStreamPublisher

log = logging.getLogger(__name__)

STORE_RETRY_SECONDS = (0.1, 0.3, 1.0, 2.0)


class LeasedConversation:
    """The conversation as one attempt sees it.

    Meanwhile this process accepts and cancels runs of it. So the state is the one in the cache,
    which all decisions made here share, each under the lock of the conversation; what is read of it
    may be different after anything that was waited for.
    """

    def __init__(
        self,
        ports: EnginePorts,
        fence: Fence,
        context: Context,
        publisher: RunStreamPublisher,
    ) -> None:
        self.ports = ports
        self.fence = fence
        self.context = context
        self.publisher = publisher
        self.conversation = Conversation.blank(fence.key)
        self.released = False
        # Calls that started under this lease, or may have: only this attempt can have made them,
        # so they were not interrupted.
        self.started_here: set[tuple[str, str]] = set()

    @property
    def active(self) -> ActiveRun | None:
        return self.conversation.state.active_run

    @property
    def run_id(self) -> str:
        """The id of the active run; empty if there is none."""
        active = self.conversation.state.active_run
        return active.run.id if active else ""

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Be the only one in this process who decides about the conversation; a run that is under
        way goes before those that want to be accepted."""
        return self.ports.locks.hold(self.fence.key, first=True)

    def see(self, conversation: Conversation) -> None:
        """Make this the conversation that the attempt works on."""
        self.conversation = conversation
        active = conversation.state.active_run
        self.publisher.last_number = active.last_number if active else OPENING_NUMBER

    async def resume(self, known: Conversation | None = None) -> None:
        """See the conversation as it is stored, or as it is `known`."""
        self.see(known or await self.reload())
        self.ports.repository.keep(self.conversation)

    async def refresh(self) -> None:
        """See the conversation as the last decision made here left it."""
        async with self.lock():
            known = self.find_cached()
            if known is not None:
                self.see(known)
            else:
                await self.resume()

    async def reload(self) -> Conversation:
        """The conversation as it is stored. Retries until the store answers."""
        load, org = self.ports.repository.load, self.context.org
        return await self.once_answered(lambda: load(Conversation, self.fence.key, org=org))

    def find_cached(self) -> Conversation | None:
        """The conversation as this process's last decision left it; None if it is not cached."""
        cached = self.ports.repository.find_cached
        return cached(Conversation, self.fence.key, org=self.context.org)

    async def design_of(self, agent_id: str, known: AgentDesign | None) -> AgentDesign | None:
        """The agent as it is now in this conversation, or as it is known, with those of its tools
        that clients made; None if it is gone."""
        org, queries, design = self.context.org, self.ports.queries, known
        if design is None:
            load = self.ports.repository.load
            agent = await self.once_answered(lambda: load(Agent, agent_id, org=org))
            self.ports.repository.keep(agent)
            if agent.design is None:
                return None
            design = design_of_run(self.conversation.state, agent.design)
        found = design
        whole = await self.once_answered(lambda: with_custom_tools(queries, org, found))
        return self.within_window(with_forbidden(self.ports.policies(), org, whole))

    def within_window(self, design: AgentDesign) -> AgentDesign:
        """The agent with the window of its model, as far as its server has named that."""
        return within_window(design, self.ports.models.window_tokens(design.config.llm_config))

    async def once_answered[T](self, ask: Callable[[], Awaitable[T]]) -> T:
        """The store's answer, however long it is away: the lease decides whether the process may
        still act on it."""
        for attempt in count():
            try:
                return await ask()
            except StoreUnavailable:
                await self.pause(attempt)
        raise AssertionError("counting never ends")

    async def pause(self, attempt: int) -> None:
        """Wait for the store to come back."""
        last = len(STORE_RETRY_SECONDS) - 1
        await self.ports.clock.sleep(STORE_RETRY_SECONDS[min(attempt, last)])

    async def record(
        self, decide: Callable[[Conversation], None], letter: DeadLetter | None = None
    ) -> None:
        """Make a fact durable, deciding again as often as somebody else wrote first. With a
        letter, that is parked in the same commit, unless its run has ended otherwise by now."""
        attempt = 0
        while True:
            work = self.ports.repository.work(self.context)
            try:
                async with self.lock():
                    await self.decide(work, decide, letter)
            except VersionConflict:
                await self.resume()
            except StoreUnavailable as problem:
                log.warning("the commit's outcome is unknown: %s", problem)
                self.note_started(work.events)
                await self.pause(attempt)
                attempt += 1
                await self.resume()
            else:
                self.ports.committed()
                self.note_started(work.events)
                for event in work.events:
                    await self.publisher.publish_event(event)
                return

    async def decide(
        self,
        work: UnitOfWork,
        decide: Callable[[Conversation], None],
        letter: DeadLetter | None = None,
    ) -> None:
        """One decision about the conversation, under its lease; none about a letter's run that has
        ended. If it is refused the conversation has to be read again: it has left the cache,
        changed as it is.

        Where nothing has happened the lease is looked at all the same: what was committed before
        with an unknown outcome may have given it back. But it is not given back then: with no event
        at a version nobody would notice that another process has begun a run meanwhile, which
        relies on it.
        """
        repository = self.ports.repository
        known = repository.claim(Conversation, self.fence.key, org=self.context.org)
        self.conversation = known or await self.reload()
        if letter is not None:
            if letter.message_id != self.run_id:
                repository.keep(self.conversation)
                return
            park(letter, work.rows)
        before, run_id = self.conversation.version, self.run_id
        decide(self.conversation)
        if self.run_id not in ("", run_id):
            await self.attribute_start(work, self.run_id)
        work.adopt(self.conversation)
        idle = self.active is None and self.conversation.version > before
        await work.commit(fence=self.fence, release_lease=idle)
        repository.keep(self.conversation)
        self.released = idle

    async def origin_of(self, run_id: str) -> Context:
        """The context of what is done for a run: that of the request it was accepted for. Raises
        StoreUnavailable."""
        ask = self.ports.queries.origin_of_run
        origin = await ask(self.context.org, self.fence.key, run_id)
        return replace(self.context, **asdict(origin)) if origin else self.context

    async def attribute_start(self, work: UnitOfWork, run_id: str) -> None:
        """Have the start of a run that waited in line recorded under the request that it belongs
        to, in the commit that ends the run before it. Raises StoreUnavailable."""
        own, ending = await self.origin_of(run_id), self.context
        work.context_of = lambda event: own if getattr(event, "run_id", None) == run_id else ending

    def note_started(self, events: list[Event]) -> None:
        """Remember which tool calls started under this lease."""
        for event in events:
            match event:
                case ToolCallStarted():
                    self.started_here.add((event.step_id, event.tool_call_id))
                case ToolCallsStarted():
                    self.started_here |= {
                        (event.step_id, call.tool_call_id) for call in event.calls
                    }

    async def let_go(self) -> bool:
        """Release the lease where there turned out to be nothing to do; returns whether a run was
        accepted before it was gone, which relies on it. One that is accepted after takes the lease
        itself."""
        work = self.ports.repository.work(self.context)
        await work.commit(fence=self.fence, release_lease=True)
        return (await self.reload()).state.active_run is not None

    async def give_back(self) -> None:
        """Let somebody else take over at once."""
        try:
            await self.ports.repository.store.release_lease(self.fence)
        except StoreUnavailable:
            log.warning("the lease of %s will run out by itself", self.fence.key)
