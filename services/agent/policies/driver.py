"""Drive one run to its end: ask the model, run the tools, record each fact."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Container, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from libs.bus.dead_letters import DIED, Given, Problem, problem_of
from libs.bus.logs import correlation
from libs.bus.ports import fresh_ids
from libs.contracts.conversation import ToolCall, ToolCallStarted
from libs.contracts.message import Context, Event
from libs.contracts.told import NUMBERS_OF_AN_EPOCH, OPENING_NUMBER
from libs.eventstore import failpoints
from libs.eventstore.letters import Attempt, DeadLetter, park
from libs.eventstore.ports import (
    Fence,
    StaleLease,
    StoreRefused,
    StoreUnavailable,
    VersionConflict,
)
from libs.eventstore.work import Work
from services.agent.adapters.models.port import ModelFailed
from services.agent.adapters.observed import RunSpans
from services.agent.domain.agent import Agent, Design
from services.agent.domain.conversation import Conversation
from services.agent.domain.turn import (
    AskModel,
    RunTool,
    StartTool,
    Turn,
)
from services.agent.policies.asking import Asking, Question, question_of
from services.agent.policies.deadline import RunDeadline
from services.agent.policies.given_up import (
    CROWD_DRIVES_MAX,
    DRIVES_MAX,
    FAILURES_MAX,
    REST_SECONDS_MIN,
    DriveCount,
    gave_up,
    letter_of_run,
)
from services.agent.policies.telling import RunTeller

if TYPE_CHECKING:
    from services.agent.policies.runs import RunDrivers

log = logging.getLogger(__name__)

STORE_RETRY_SECONDS = (0.1, 0.3, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class FreshLook:
    """What was read of an agent after the message came that starts its turn, and what its model
    is asked then, prepared while the turn is being committed."""

    design: Design
    question: asyncio.Future[Question]


class RunDriver:
    """Drives one conversation for as long as somebody has the turn.

    Meanwhile this process accepts and cancels runs of it. So the conversation is the one in the
    cache, which all decisions made here share, each under the lock of the agent; what is read of it
    may be different after anything that was waited for.
    """

    def __init__(
        self, drivers: RunDrivers, fence: Fence, context: Context, fresh: FreshLook | None
    ) -> None:
        self.all = drivers
        self.fence = fence
        self.context = context
        self.conversation = Conversation.blank(fence.key)
        self.started_here: set[tuple[str, str]] = set()
        self.working: asyncio.Task[Any] | None = None
        self.working_on = ""
        self.teller = RunTeller(drivers.bus, context.org)
        self.asking = Asking(drivers.models, self.teller, drivers.clock, drivers.ids)
        self.deadline = RunDeadline(drivers.clock, drivers.run_seconds_max)
        self.taken_over_run = ""
        self.drives = DriveCount(drivers.repository.store.letters, drivers.solitude)
        self.released = False
        self.fresh_design = fresh.design if fresh else None
        self.fresh_question = fresh.question if fresh else None

    async def drive(self) -> None:
        """Until nobody has the turn. A process edge: a bug is logged and the turn left to the
        sweeper. The lease is given back in any case: this process would renew it for ever, and
        nobody could drive the conversation."""
        correlation.set(self.context.correlation_id)
        try:
            fresh = self.just_committed()
            await self.resume(fresh)
            if fresh is None:
                await self.count_drive()
                self.taken_over_run = self.run_id
            with RunSpans(self.context, self.all.queries) as spans:
                await self.show(spans)
                while await self.act():
                    await self.show(spans)
            if not self.released:
                await self.let_go()
        except StaleLease:
            log.info("the turn of %s was taken over elsewhere", self.fence.key)
        except asyncio.CancelledError:
            await self.drives.excuse()
            await self.give_back()
            raise
        except Exception as bug:
            log.exception("driving %s failed", self.fence.key)
            await self.give_up_or_back(bug)
        finally:
            self.drives.end()

    async def count_drive(self) -> None:
        """Write down that the turn is driven again from where it stands: whoever drove it before
        may have died of it. A turn that ends its drivers again and again is given up."""
        while True:
            drive = await self.once_answered(lambda: self.drives.begin(self.conversation))
            if drive is None or 0 < drive.number <= CROWD_DRIVES_MAX:
                return
            if not drive.number:
                await self.all.clock.sleep(max(drive.wait_seconds, REST_SECONDS_MIN))
            await self.resume()  # it had to wait, and may have been cancelled meanwhile
            if drive.number and self.drives.counts(self.conversation):
                break
        if drive.number > DRIVES_MAX:
            await self.give_up(DIED, replace(drive, number=DRIVES_MAX))

    async def show(self, spans: RunSpans) -> None:
        """Let traces see which run has the turn."""
        await spans.follow(self.fence.key, self.run_id, self.fresh_design)

    def just_committed(self) -> Conversation | None:
        """The conversation as the commit that took the lease left it, if it is still here. A
        cached one is good enough then, and only then: whoever takes a turn over must see what
        its last driver recorded."""
        if self.fresh_design is None:
            return None
        known = self.all.repository.cached(Conversation, self.fence.key)
        return known if known and known.state.turn else None

    async def resume(self, known: Conversation | None = None) -> None:
        """See the conversation as it is stored."""
        self.see(known or await self.reloaded())
        self.all.repository.keep(self.conversation)

    def see(self, conversation: Conversation) -> None:
        """Go on from here."""
        self.conversation = conversation
        turn = conversation.state.turn
        self.teller.told = turn.told if turn else OPENING_NUMBER

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Be the only one in this process who decides about the agent; a run that is under way goes
        before those that want to be accepted."""
        return self.all.locks.hold(self.conversation.state.agent_id, first=True)

    async def refresh(self) -> None:
        """See the conversation as the last decision made here left it."""
        async with self.lock():
            known = self.all.repository.cached(Conversation, self.fence.key)
            if known is not None:
                self.see(known)
            else:
                await self.resume()

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

    async def give_up_or_back(self, bug: Exception) -> None:
        """A bug may be a passing one: let the turn be tried again, but not for ever."""
        try:
            await self.resume()
            failure = await self.once_answered(lambda: self.drives.failed(self.conversation))
            hopeless = isinstance(bug, StoreRefused)
            if failure is not None and (hopeless or failure.number >= FAILURES_MAX):
                await self.give_up(problem_of(bug), failure)
        except StaleLease:
            log.info("the turn of %s was taken over elsewhere", self.fence.key)
            return
        except Exception:
            log.exception("giving up %s failed", self.fence.key)
        if not self.released:
            await self.give_back()

    async def give_up(self, problem: Problem, failure: Attempt) -> None:
        """End the run, and keep what is known of it as a dead letter, in one commit."""
        if not self.run_id:
            return
        now = self.all.clock.now()
        given = Given("agent", problem, failure.number, failure.first_at, now)
        letter = letter_of_run(self.conversation, self.context, given)
        log.warning("run %s is given up as %s", letter.message_id, letter.id)
        message_ids = fresh_ids(self.all.ids, "message")
        await self.record(
            lambda talk: talk.abort(
                gave_up(letter), message_ids=message_ids, at=self.all.clock.now()
            ),
            letter,
        )

    async def give_back(self) -> None:
        """Let somebody else take over at once."""
        try:
            await self.all.repository.store.release_lease(self.fence)
        except StoreUnavailable:
            log.warning("the lease of %s will run out by itself", self.fence.key)

    async def act(self) -> bool:
        """Do what has to be done next; returns whether there was anything. Who has given the lease
        back sees that a turn has begun, too; that is for who has taken it since."""
        if self.released:
            return False
        await self.refresh()
        turn = self.conversation.state.turn
        if turn is not None and self.deadline.seconds_left(turn) <= 0:
            await self.end_late()
            return True
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

    async def end_late(self) -> None:
        """End a run that takes too long, wherever it stands."""
        failure, ids = self.deadline.failure(), fresh_ids(self.all.ids, "message")
        log.warning("run %s: %s", self.run_id, failure.message)
        await self.record(
            lambda talk: talk.abort(failure, message_ids=ids, at=self.all.clock.now())
        )

    async def ask_model(self, step_id: str) -> None:
        """Ask the model for a step and record its answer, or why there is none."""
        design = await self.design_of(self.conversation.state.agent_id)
        if design is None:
            await self.resume()
            return
        question = await self.question_about(design, step_id)
        turn = self.conversation.state.turn
        if question is None or turn is None:
            return
        request = question.request
        failpoints.met("ask_model", lambda: str(request.messages))
        try:
            asking = self.asking.answer(request, turn, step_id, number=self.next_number(turn))
            answer = await self.unless_cancelled(self.deadline.hold(asking, turn))
        except ModelFailed as failed:
            failure = failed.failure
            log.warning("the model failed: %s", failure.message)
            await self.record(lambda talk: talk.fail(step_id, failure, at=self.all.clock.now()))
            return
        if answer is None:
            await self.resume()
            return
        failpoints.reached("after_model_reply")
        reply, spoken = answer
        await self.record(
            lambda talk: talk.model_replied(
                step_id,
                design.config.llm_config.handle or design.config.llm_config.model,
                reply,
                spoken=spoken,
                parallel=request.parallel,
                rebuilt=question.rebuilt,
                at=self.all.clock.now(),
            )
        )

    def next_number(self, turn: Turn) -> int:
        """The number of the first piece of a step: beyond those of an attempt that is lost."""
        if turn.run.id != self.taken_over_run:
            return turn.told + 1
        return max(turn.told, self.fence.epoch * NUMBERS_OF_AN_EPOCH) + 1

    async def unless_cancelled[T](self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of something that takes long; None if the run was cancelled meanwhile."""
        task = asyncio.create_task(work)
        self.working, self.working_on = task, self.run_id
        try:
            return await task
        except asyncio.CancelledError:
            drive = asyncio.current_task()
            if drive is not None and drive.cancelling():
                raise
            return None
        finally:
            self.working, self.working_on = None, ""

    def interrupt(self, run_ids: Container[str]) -> None:
        """Stop waiting for the model or a tool, if it is one of these runs."""
        if self.working is not None and self.working_on in run_ids:
            self.working.cancel()

    @property
    def run_id(self) -> str:
        """The run whose turn it is; empty if there is none."""
        turn = self.conversation.state.turn
        return turn.run.id if turn else ""

    async def question_about(self, design: Design, step_id: str) -> Question | None:
        """What the model is asked for this step: as it was prepared, if that is still it; None if
        there is something else to do by now."""
        early, self.fresh_question = self.fresh_question, None
        if early is not None:
            with contextlib.suppress(StoreUnavailable, VersionConflict):
                prepared = await early
                if prepared.version == self.conversation.version:
                    return prepared
        seen_blocks = self.all.queries.seen_blocks
        blocks = await self.once_answered(lambda: seen_blocks(design.block_ids))
        if self.conversation.next_action() != AskModel(step_id):
            return None
        return question_of(self.conversation, design, blocks, at=self.all.clock.now())

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
        run_id = self.run_id
        design = await self.design_of(self.conversation.state.agent_id)
        if design is None:
            await self.resume()
            return
        if self.run_id != run_id:
            return  # it was cancelled meanwhile
        result = await self.unless_cancelled(
            self.all.tools.run(call, design, run_id, step_id, self.context)
        )
        if result is None:
            await self.resume()
            return
        await self.record(
            lambda talk: talk.tool_returned(
                step_id, call, result, message_id=message_id, at=self.all.clock.now()
            )
        )

    async def record(
        self, decide: Callable[[Conversation], None], letter: DeadLetter | None = None
    ) -> None:
        """Make a fact durable, deciding again as often as somebody else wrote first. With a
        letter, that is parked in the same commit, unless its run has ended otherwise by now."""
        attempt = 0
        while letter is None or letter.message_id == self.run_id:
            work = self.all.repository.work(self.context)
            if letter is not None:
                park(letter, work.rows)
            try:
                async with self.lock():
                    await self.decide(work, decide)
            except VersionConflict:
                await self.resume()
            except StoreUnavailable as problem:
                log.warning("the commit's outcome is unknown: %s", problem)
                self.note_started(work.events)
                await self.pause(attempt)
                attempt += 1
                await self.resume()
            else:
                self.all.committed()
                self.note_started(work.events)
                for event in work.events:
                    await self.teller.recorded(event)
                return

    async def decide(self, work: Work, decide: Callable[[Conversation], None]) -> None:
        """One decision about the conversation, under its lease. If it is refused the conversation
        has to be read again: it has left the cache, changed as it is.

        Where nothing has happened the lease is looked at all the same: what was committed before
        with an unknown outcome may have given it back. But it is not given back then: with no event
        at a version nobody would notice that another process has begun a turn meanwhile, which
        relies on it.
        """
        repository = self.all.repository
        self.conversation = repository.claim(Conversation, self.fence.key) or await self.reloaded()
        before = self.conversation.version
        decide(self.conversation)
        work.adopt(self.conversation)
        idle = self.conversation.state.turn is None and self.conversation.version > before
        await work.commit(fence=self.fence, release_lease=idle)
        repository.keep(self.conversation)
        self.released = idle

    def note_started(self, events: list[Event]) -> None:
        """Remember which calls started under this lease, or may have: only this driver can have
        run them, so they were not interrupted."""
        for event in events:
            if isinstance(event, ToolCallStarted):
                self.started_here.add((event.step_id, event.tool_call_id))
