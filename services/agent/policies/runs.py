"""Whenever a run starts, drive it to its end: ask the model, run the tools, record each fact.

A run is driven by the process that holds the lease of its conversation. It dies and another takes
over: what is recorded is not done again, what is not recorded is. Between the steps nothing is
held but the lease, no database connection and no lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count

from libs.bus.logs import correlation
from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.conversation import (
    MessageAppended,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCall,
    ToolCallStarted,
)
from libs.contracts.letta.base_tools import BASE_TOOLS, json_schema
from libs.contracts.message import Context, Event, JsonObject, delta_subject
from libs.contracts.served import served_messages
from libs.eventstore import failpoints
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.work import Repository
from services.agent.adapters.models.port import ModelFailed, Models
from services.agent.adapters.observed import RunSpans
from services.agent.adapters.queries import Queries
from services.agent.adapters.tools import Tools
from services.agent.domain.agent import Agent, Design
from services.agent.domain.context import (
    ModelRequest,
    SeenBlock,
    rebuilt_prompt,
    shown_messages,
)
from services.agent.domain.conversation import Conversation
from services.agent.domain.turn import AskModel, Failure, RunTool, StartTool
from services.agent.projections import ended_fields

log = logging.getLogger(__name__)

STORE_RETRY_SECONDS = (0.1, 0.3, 1.0, 2.0)
DRAIN_SECONDS_MAX = 5.0
FAILURES_MAX = 3
GAVE_UP = Failure(
    "internal_error",
    f"The run failed {FAILURES_MAX} times for a reason that the server did not expect, and was"
    " given up. The server's log says more.",
    stop_reason="error",
)


@dataclass(frozen=True, slots=True)
class FreshLook:
    """What was read of an agent after the message came that starts its turn."""

    design: Design
    blocks: asyncio.Future[list[SeenBlock]]


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
    ) -> None:
        self.repository = repository
        self.models = models
        self.tools = tools
        self.queries = queries
        self.bus = bus
        self.clock = clock
        self.ids = ids
        self.committed = committed
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.failures: dict[str, int] = {}
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
        task.add_done_callback(lambda done: self.forget(conversation_id, done))

    def look(self, design: Design) -> FreshLook:
        """Begin to read the blocks of an agent while its turn is being committed."""
        blocks = asyncio.ensure_future(self.queries.seen_blocks(design.block_ids))
        # If the commit is refused nobody asks what came of it.
        blocks.add_done_callback(lambda done: done.cancelled() or done.exception())
        return FreshLook(design, blocks)

    def forget(self, conversation_id: str, done: asyncio.Task[None]) -> None:
        """A drive has ended."""
        if self.tasks.get(conversation_id) is done:
            del self.tasks[conversation_id]

    def leases_held(self, held: set[str]) -> None:
        """Stop driving what somebody else drives now."""
        for conversation_id, task in list(self.tasks.items()):
            if conversation_id not in held:
                task.cancel()

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


class RunDriver:
    """Drives one conversation for as long as somebody has the turn."""

    def __init__(
        self, drivers: RunDrivers, fence: Fence, context: Context, fresh: FreshLook | None
    ) -> None:
        self.all = drivers
        self.fence = fence
        self.context = context
        self.conversation = Conversation.blank(fence.key)
        self.started_here: set[tuple[str, str]] = set()
        self.served = 0
        self.released = False
        self.fresh_design = fresh.design if fresh else None
        self.fresh_blocks = fresh.blocks if fresh else None

    async def drive(self) -> None:
        """Until nobody has the turn. A process edge: a bug is logged and the turn left to the
        sweeper. The lease is given back in any case: this process would renew it for ever, and
        nobody could drive the conversation."""
        correlation.set(self.context.correlation_id)
        repository = self.all.repository
        try:
            await self.resume(self.just_committed())
            with RunSpans(self.context, self.all.queries) as spans:
                await self.show(spans)
                while await self.act():
                    await self.show(spans)
            repository.keep(self.conversation)
            if not self.released:
                await self.let_go()
        except StaleLease:
            log.info("the turn of %s was taken over elsewhere", self.fence.key)
        except asyncio.CancelledError:
            await self.give_back()
            raise
        except Exception:
            log.exception("driving %s failed", self.fence.key)
            await self.give_up_or_back()

    async def show(self, spans: RunSpans) -> None:
        """Let traces see which run has the turn."""
        turn = self.conversation.state.turn
        run_id = turn.run.id if turn else ""
        await spans.follow(self.fence.key, run_id, self.fresh_design)

    def just_committed(self) -> Conversation | None:
        """The conversation as the commit that took the lease left it, if it is still here. A
        cached one is good enough then, and only then: whoever takes a turn over must see what
        its last driver recorded."""
        if self.fresh_design is None:
            return None
        claimed = self.all.repository.claim(Conversation, self.fence.key)
        return claimed if claimed and claimed.state.turn else None

    async def resume(self, claimed: Conversation | None = None) -> None:
        """See the conversation as it is stored."""
        self.conversation = claimed or await self.reloaded()
        turn = self.conversation.state.turn
        self.served = turn.served if turn else 0

    async def reloaded(self) -> Conversation:
        """The conversation as it is stored, once the store answers."""
        load = self.all.repository.load
        return await self.once_answered(lambda: load(Conversation, self.fence.key))

    async def once_answered[T](self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store says, however long it is away: the lease says whether it is still ours
        to do something with it."""
        for attempt in count():
            try:
                return await ask()
            except StoreUnavailable:
                await self.pause(attempt)
        raise AssertionError("counting never ends")

    async def pause(self, attempt: int) -> None:
        """Wait for the store to come back."""
        last = len(STORE_RETRY_SECONDS) - 1
        await self.all.clock.sleep(STORE_RETRY_SECONDS[min(attempt, last)])

    async def let_go(self) -> None:
        """There turned out to be nothing to do. A run that was accepted before the lease is gone
        relied on us; one that is accepted after takes the lease itself."""
        work = self.all.repository.work(self.context)
        await work.commit(fence=self.fence, release_lease=True)
        if (await self.reloaded()).state.turn is not None:
            epoch = await self.all.repository.store.take_lease(self.fence.key)
            self.all.begin(self.fence.key, epoch, self.context)

    async def give_up_or_back(self) -> None:
        """A bug may be a passing one: let the turn be tried again, but not for ever."""
        failures = self.all.failures
        failures[self.fence.key] = failures.get(self.fence.key, 0) + 1
        if failures[self.fence.key] < FAILURES_MAX:
            await self.give_back()
            return
        del failures[self.fence.key]
        try:
            await self.resume()
            await self.record(
                lambda talk: talk.abort(
                    GAVE_UP, message_ids=self.fresh_message_ids(), at=self.all.clock.now()
                )
            )
        except StaleLease:
            log.info("the turn of %s was taken over elsewhere", self.fence.key)
        else:
            if not self.released:
                await self.give_back()

    def fresh_message_ids(self) -> Iterator[str]:
        """As many as are needed."""
        while True:
            yield self.all.ids.new("message")

    async def give_back(self) -> None:
        """Let somebody else take over at once."""
        try:
            await self.all.repository.store.release_lease(self.fence)
        except StoreUnavailable:
            log.warning("the lease of %s will run out by itself", self.fence.key)

    async def act(self) -> bool:
        """Do what has to be done next; returns whether there was anything."""
        match self.conversation.next_action():
            case AskModel(step_id):
                await self.ask_model(step_id)
            case StartTool(call):
                await self.record(lambda talk: talk.start_tool(call, at=self.all.clock.now()))
            case RunTool(step_id, call):
                await self.run_tool(step_id, call)
            case None:
                return False
        return True

    async def ask_model(self, step_id: str) -> None:
        """Ask the model for a step and record its answer, or why there is none."""
        talk = self.conversation.state
        design = await self.design_of(talk.agent_id)
        if design is None:
            await self.resume()
            return
        blocks = await self.blocks_of(design)
        rebuilt = rebuilt_prompt(talk, design.config, blocks, at=self.all.clock.now())
        request = ModelRequest(
            config=design.config,
            messages=shown_messages(talk, rebuilt),
            tools=[json_schema(BASE_TOOLS[name]) for name in design.tools],
            parallel=bool(design.config.llm_config.parallel_tool_calls),
        )
        try:
            reply = await self.all.models.reply(request)
        except ModelFailed as failed:
            failure = failed.failure
            log.warning("the model failed: %s", failure.message)
            await self.record(lambda talk: talk.fail(step_id, failure, at=self.all.clock.now()))
            return
        failpoints.reached("after_model_reply")
        message_id = self.all.ids.new("message")
        await self.record(
            lambda talk: talk.model_replied(
                step_id,
                design.config.llm_config.handle or design.config.llm_config.model,
                reply,
                message_id=message_id,
                parallel=request.parallel,
                rebuilt=rebuilt,
                at=self.all.clock.now(),
            )
        )

    async def blocks_of(self, design: Design) -> list[SeenBlock]:
        """The blocks of an agent as they are now."""
        early, self.fresh_blocks = self.fresh_blocks, None
        if early is not None:
            with contextlib.suppress(StoreUnavailable):
                return await early
        seen_blocks = self.all.queries.seen_blocks
        return await self.once_answered(lambda: seen_blocks(design.block_ids))

    async def design_of(self, agent_id: str) -> Design | None:
        """The agent as it is now; None if it is gone."""
        if self.fresh_design is not None:
            design, self.fresh_design = self.fresh_design, None
            return design
        load = self.all.repository.load
        agent = await self.once_answered(lambda: load(Agent, agent_id))
        self.all.repository.keep(agent)
        return agent.design

    async def run_tool(self, step_id: str, call: ToolCall) -> None:
        """Run a tool whose start is recorded, and record its result."""
        message_id = self.all.ids.new("message")
        recovering = (step_id, call.id) not in self.started_here
        if recovering and not self.all.tools.idempotent(call.name):
            await self.record(
                lambda talk: talk.tool_interrupted(
                    step_id, call, message_id=message_id, at=self.all.clock.now()
                )
            )
            return
        turn = self.conversation.running()
        design = await self.design_of(self.conversation.state.agent_id)
        if design is None:
            await self.resume()
            return
        result = await self.all.tools.run(call, design, turn.run.id, step_id, self.context)
        await self.record(
            lambda talk: talk.tool_returned(
                step_id, call, result, message_id=message_id, at=self.all.clock.now()
            )
        )

    async def record(self, decide: Callable[[Conversation], None]) -> None:
        """Make a fact durable, deciding again as often as somebody else wrote first."""
        attempt = 0
        while True:
            decide(self.conversation)
            work = self.all.repository.work(self.context)
            work.adopt(self.conversation)
            try:
                idle = self.conversation.state.turn is None
                await work.commit(fence=self.fence, release_lease=idle)
            except VersionConflict:
                await self.resume()
            except StoreUnavailable as problem:
                log.warning("the commit's outcome is unknown: %s", problem)
                self.note_started(work.events)
                await self.pause(attempt)
                attempt += 1
                await self.resume()
            else:
                self.released = idle
                self.all.committed()
                self.note_started(work.events)
                for event in work.events:
                    await self.tell(event)
                return

    def note_started(self, events: list[Event]) -> None:
        """Remember which calls started under this lease, or may have: only this driver can have
        run them, so they were not interrupted."""
        for event in events:
            if isinstance(event, ToolCallStarted):
                self.started_here.add((event.step_id, event.tool_call_id))

    async def tell(self, event: Event) -> None:
        """Show whoever waits for the run what was just recorded."""
        match event:
            case MessageAppended(run_id=str(run_id), step_id=str(step_id), sent=False):
                for doc in served_messages(event.message, run_id=run_id, step_id=step_id):
                    self.served += 1
                    await self.publish(run_id, {"seq": self.served, "message": doc})
            case RunCompleted():
                end = ended_fields(event, event.context_tokens)
                await self.publish(event.run_id, {"seq": self.served + 1, "end": end})
            case RunFailed():
                end = {**ended_fields(event, None), "error": error_of(event)}
                await self.publish(event.run_id, {"seq": self.served + 1, "end": end})
            case RunStarted():
                self.served = 0
            case _:
                pass

    async def publish(self, run_id: str, delta: JsonObject) -> None:
        """Send a delta of a run; nobody waits for it."""
        subject = delta_subject("agent", "run", self.context.org, run_id)
        await self.all.bus.publish_delta(subject, json.dumps(delta).encode())


def error_of(event: RunFailed) -> JsonObject:
    """Why a run failed, as its row says it."""
    return {
        "error_type": event.error_type,
        "message": event.message,
        "detail": event.detail,
    }
