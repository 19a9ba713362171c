"""One process's attempt at a run: ask the model, have tools called, record each fact."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Container, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from libs.bus.dead_letter_records import DIED, FailedMessage, Problem, problem_of
from libs.bus.json_logs import correlation
from libs.bus.ports import fresh_ids
from libs.bus.unknown_version_delays import log_once
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.stream_chunks import NUMBERS_OF_AN_EPOCH
from libs.contracts.bus_messages import Context, NewerVersion
from libs.eventstore import failpoints
from libs.eventstore.failed_messages.ports import Attempt
from libs.eventstore.ports import Fence, StaleLease, StoreRefused, StoreUnavailable, VersionConflict
from libs.work.attempt_counts import ATTEMPTS_MAX, UNQUARANTINED_ATTEMPTS_MAX, AttemptCount
from services.agent.adapters.all_queries import seen_memory
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.telemetry import RunSpans
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import SystemPrompt
from services.agent.domain.conversations.provider_rejected_messages import TOO_LONG
from services.agent.domain.runs.run_actions import (
    AskClient,
    AskModel,
    Compact,
    EndRun,
    RefuseCall,
    RunTools,
    ShowAnswer,
    ShowFollowUps,
    StartTools,
)
from services.agent.domain.runs.run_progress import go_on, next_action
from services.agent.domain.runs.run_steps import (
    abort,
    end_trial,
    fail,
    model_replied,
    refuse_call,
    refuses_trial,
)
from services.agent.domain.runs.step_results import Failure
from services.agent.engine.attempt_limits import (
    FAILURES_MAX,
    RunDeadline,
    attempt_point,
    dead_letter_of_run,
    gave_up,
)
from services.agent.engine.compaction import Compactor
from services.agent.engine.leased_conversation import LeasedConversation
from services.agent.engine.model_step import ModelStep, StepRequest, answered_step, step_request
from services.agent.engine.ports import EnginePorts, Scheduler
from services.agent.engine.run_stream import RunStreamPublisher
from services.agent.engine.tool_execution import ToolExecution

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """The agent's context and request for the first step, read and prepared while the start of its
    run is being committed."""

    design: AgentDesign
    question: asyncio.Future[StepRequest]


class RunAttempt:
    """An attempt at the runs of one conversation, for as long as one of them is active. Follows
    the loop of their agent's type."""

    def __init__(
        self,
        ports: EnginePorts,
        scheduler: Scheduler,
        fence: Fence,
        context: Context,
        fresh: PreparedStep | None,
    ) -> None:
        self.ports = ports
        self.scheduler = scheduler
        self.fence = fence
        self.context = context
        self.working: asyncio.Task[Any] | None = None
        self.working_on = ""
        publisher = RunStreamPublisher(ports.bus, context.org)
        self.leased = LeasedConversation(ports, fence, context, publisher)
        self.model_step = ModelStep(ports.models, publisher, ports.clock, ports.ids)
        self.tools = ToolExecution(ports, self.leased)
        self.deadline = RunDeadline(ports.clock, ports.deadlines)
        self.compactor = Compactor(ports, self.leased, self.run_within_deadline, self.next_number)
        self.taken_over_run = ""
        self.run_of_context = context.message_id
        self.now = ports.clock.now
        self.acting_run_id = ""
        self.attempts = AttemptCount(ports)
        self.fresh_design = fresh.design if fresh else None
        self.fresh_question = fresh.question if fresh else None

    async def run(self) -> None:
        """Until no run is active. A process edge: a bug is logged and the run left to the
        sweeper. The lease is given back in any case: this process would renew it for ever, and
        nobody else could answer."""
        correlation.set(self.context.correlation_id)
        try:
            fresh = self.just_committed()
            await self.leased.resume(fresh)
            if fresh is None:
                await self.count_attempt()
                self.taken_over_run = self.leased.run_id
            with RunSpans(self.context, self.ports.queries) as spans:
                await self.show(spans)
                while await self.act():
                    await self.show(spans)
            if not self.leased.released and await self.leased.let_go():
                epoch = await self.ports.repository.store.take_lease(self.fence.key)
                self.scheduler.begin(self.fence.key, epoch, self.context)
        except StaleLease:
            log.info("the run of %s was taken over elsewhere", self.fence.key)
        except asyncio.CancelledError:
            await self.attempts.end()
            await self.leased.give_back()
            raise
        except NewerVersion as unknown:
            log_once(unknown)
            await self.attempts.end()
            self.scheduler.leave(self.fence.key)
            await self.leased.give_back()
        except Exception as bug:
            log.exception("the attempt at %s failed", self.fence.key)
            await self.give_up_or_back(bug)
        finally:
            await self.tools.stop_and_wait()
            self.attempts.leave_quarantine()

    async def count_attempt(self) -> None:
        """Count an attempt that takes a run over from where it stands: the process of the attempt
        before may have died of it. A run that ends its processes again and again is given up."""
        leased = self.leased
        while point := attempt_point(leased.conversation):
            begun = await leased.once_answered(partial(self.attempts.begin, point))
            if 0 < begun.number <= UNQUARANTINED_ATTEMPTS_MAX:
                return
            if not begun.number:
                await self.attempts.wait_before_retry(begun)
            await leased.resume()  # it had to wait, and may have been cancelled meanwhile
            if begun.number and attempt_point(leased.conversation) == point:
                if begun.number > ATTEMPTS_MAX:
                    await self.give_up(DIED, replace(begun, number=ATTEMPTS_MAX))
                return

    async def show(self, spans: RunSpans) -> None:
        """Let traces see which run is active."""
        await spans.follow(self.fence.key, self.leased.run_id, self.fresh_design)

    def just_committed(self) -> Conversation | None:
        """The conversation as the commit that took the lease left it, if it is still cached. Only
        then is a cached one good enough: an attempt that takes a run over must see what the
        attempt before it recorded."""
        if self.fresh_design is None:
            return None
        known = self.leased.find_cached()
        return known if known and known.state.active_run else None

    async def give_up_or_back(self, bug: Exception) -> None:
        """A bug may be a passing one: let the run be retried, but not for ever."""
        try:
            await self.leased.resume()
            # Another one follows where the run was cancelled meanwhile: that one is not at fault.
            if self.acting_run_id in ("", self.leased.run_id):
                await self.count_failure(bug)
        except StaleLease:
            log.info("the run of %s was taken over elsewhere", self.fence.key)
            return
        except NewerVersion as unknown:
            log_once(unknown)
            self.scheduler.leave(self.fence.key)
        except Exception:
            log.exception("giving up %s failed", self.fence.key)
        if not self.leased.released:
            await self.leased.give_back()

    async def count_failure(self, bug: Exception) -> None:
        """Remember that the run failed; give it up if it will again, or has too often. It may be
        cancelled meanwhile, and another one follow."""
        leased, run_id = self.leased, self.leased.run_id
        if not run_id:
            return
        point = attempt_point(leased.conversation)
        failure = await leased.once_answered(partial(self.attempts.record_failure, point))
        hopeless = isinstance(bug, StoreRefused)
        if leased.run_id != run_id:
            return
        if hopeless or failure.number >= FAILURES_MAX:
            await self.give_up(problem_of(bug), failure)

    async def give_up(self, problem: Problem, failure: Attempt) -> None:
        """End the run, and keep what is known of it as a dead letter, in one commit."""
        if not self.leased.run_id:
            return
        now = self.now()
        failed = FailedMessage("agent", problem, failure.number, failure.first_at, now)
        letter = dead_letter_of_run(self.leased.conversation, self.context, failed)
        log.warning("run %s is given up as %s", letter.message_id, letter.id)
        message_ids = fresh_ids(self.ports.ids, "message")
        await self.leased.record(
            lambda conversation: abort(
                conversation, gave_up(letter), message_ids=message_ids, at=self.now()
            ),
            letter,
        )

    async def act(self) -> bool:
        """Do what has to be done next; returns whether there was anything. Who has given the lease
        back, or lost it while this process stood still, sees that a run has started, too; that is
        for who has taken it since. Raises StaleLease if that is another attempt of this process."""
        if self.leased.released:
            return False
        if self.scheduler.has_begun_another(self.fence):
            raise StaleLease(self.fence.key)
        await self.leased.refresh()
        await self.follow_origin()
        run, self.acting_run_id = self.leased.active, self.leased.run_id
        if self.tools.running and (run is None or run.run.id != self.tools.run_id):
            await self.tools.stop_and_wait()
        if run is not None and self.deadline.seconds_left(run) <= 0:
            await self.end_late()
            return True
        match next_action(self.leased.conversation.state):
            case AskModel(step_id):
                await self.ask_model(step_id)
            case Compact(step_id):
                await self.compact(step_id)
            case StartTools() | EndRun() | AskClient() | ShowAnswer() | ShowFollowUps():
                await self.leased.record(lambda conversation: go_on(conversation, at=self.now()))
            case RefuseCall(call, why):
                await self.refuse_call(call, why)
            case RunTools() as action:
                left = self.deadline.seconds_left(self.leased.conversation.running())
                await self.tools.advance(action, self.design_of, seconds_left=left)
            case None:
                return False
        return True

    async def follow_origin(self) -> None:
        """Record what is done for a run under the request that it belongs to. A run that waited in
        line, or is taken over, is another than the one that this attempt was begun for."""
        leased, run_id = self.leased, self.leased.run_id
        if run_id not in ("", self.run_of_context):
            own = await leased.once_answered(lambda: leased.origin_of(run_id))
            self.context, leased.context, self.run_of_context = own, own, run_id
            correlation.set(own.correlation_id)

    async def refuse_call(self, call: ToolCall, why: str) -> None:
        """Record that the rules of the run do not allow a call."""
        message_id = self.ports.ids.new("message")
        log.info("run %s: %s", self.leased.run_id, why)
        await self.leased.record(
            lambda conversation: refuse_call(
                conversation, call, why, message_id=message_id, at=self.now()
            )
        )

    async def end_late(self) -> None:
        """End a run that takes too long, wherever it stands."""
        failure, ids = self.deadline.failure(), fresh_ids(self.ports.ids, "message")
        log.warning("run %s: %s", self.leased.run_id, failure.message)
        await self.leased.record(
            lambda conversation: abort(conversation, failure, message_ids=ids, at=self.now())
        )

    async def ask_model(self, step_id: str) -> None:
        """Ask the model for a step and record its answer, or why there is none."""
        design = await self.design_of(self.leased.conversation.state.agent_id)
        if design is None:
            await self.leased.resume()
            return
        question = await self.question_about(design, AskModel(step_id))
        run = self.leased.active
        if question is None or run is None:
            return
        request = question.request
        model = design.config.llm_config.handle or design.config.llm_config.model
        failpoints.reach_with("ask_model", lambda: str(request.messages))
        since = self.ports.clock.monotonic()
        try:
            if await self.compactor.before_step(design, question, step_id):
                return
            answer = await self.run_within_deadline(
                self.model_step.answer(question, run, step_id, number=self.next_number(run))
            )
        except ModelFailed as failed:
            failure = replace(failed.failure, model=model)
            await self.make_room_or_fail(failure, design, question, step_id)
            return
        if answer is None:
            await self.leased.publisher.drop_chunks()
            await self.leased.resume()
            return
        failpoints.reach("after_model_reply")
        model_ns = round((self.ports.clock.monotonic() - since) * 1e9)
        reply, spoken = answer
        answered = answered_step(question, step_id, reply, spoken, model_ns=model_ns)
        await self.leased.record(
            lambda conversation: model_replied(conversation, answered, at=self.now())
        )

    async def make_room_or_fail(
        self, failure: Failure, design: AgentDesign, question: StepRequest, step_id: str
    ) -> None:
        """Ask again without what was shown again to see whether it is still refused, unless some
        of an answer was told already; compact the conversation if the model said that it is too
        long; else, or if that does not help any more, record why there is no answer."""
        is_published = bool(self.leased.publisher.kept_of)
        if refuses_trial(self.leased.conversation, failure) and not is_published:
            await self.leased.record(
                lambda conversation: end_trial(conversation, step_id, failure, at=self.now())
            )
            return
        if failure.error_type == TOO_LONG:
            design = self.leased.within_window(design)  # the error may have named it
            try:
                if await self.compactor.after_overflow(design, question, step_id):
                    return
            except ModelFailed as late:
                failure = late.failure
        await self.fail(step_id, failure, question.rebuilt)

    async def compact(self, step_id: str) -> None:
        """Compact the conversation, which is all that the run is about."""
        design = await self.design_of(self.leased.conversation.state.agent_id)
        if design is None:
            await self.leased.resume()
            return
        question = await self.question_about(design, Compact(step_id))
        if question is None:
            return
        try:
            await self.compactor.on_demand(design, question, step_id)
        except ModelFailed as failed:
            await self.fail(step_id, failed.failure, None)

    async def fail(self, step_id: str, failure: Failure, rebuilt: SystemPrompt | None) -> None:
        """Record that there is no answer to a step, and why; and the system message that was shown,
        if that was a new one."""
        log.warning("the model failed: %s", failure.message)
        await self.leased.record(
            lambda conversation: fail(
                conversation, step_id, failure, rebuilt=rebuilt, at=self.now()
            )
        )

    async def run_within_deadline[T](self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of long work, or None if the run was cancelled meanwhile. Raises ModelFailed
        when the run's time is up."""
        return await self.unless_cancelled(
            self.deadline.hold(work, self.leased.conversation.running())
        )

    def next_number(self, run: ActiveRun) -> int:
        """The number of the first chunk of a step: beyond those of an attempt that is lost."""
        if run.run.id != self.taken_over_run:
            return run.last_number + 1
        return max(run.last_number, self.fence.epoch * NUMBERS_OF_AN_EPOCH) + 1

    async def unless_cancelled[T](self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of something that takes long; None if the run was cancelled meanwhile."""
        task = asyncio.create_task(work)
        self.working, self.working_on = task, self.leased.run_id
        try:
            return await task
        except asyncio.CancelledError:
            attempt = asyncio.current_task()
            if attempt is not None and attempt.cancelling():
                raise
            return None
        finally:
            self.working, self.working_on = None, ""

    @property
    def waits_for(self) -> str:
        """The run whose model or tools are waited for; empty if none are."""
        return self.working_on or (self.tools.run_id if self.tools.running else "")

    def interrupt(self, run_ids: Container[str]) -> None:
        """Stop waiting for the model or for tools, if it is one of these runs."""
        if self.working is not None and self.working_on in run_ids:
            self.working.cancel()
        if self.tools.run_id in run_ids:
            self.tools.stop()

    async def question_about(
        self, design: AgentDesign, action: AskModel | Compact
    ) -> StepRequest | None:
        """The model's request for this step: the prepared one where it still holds; None if there
        is something else to do by now."""
        early, self.fresh_question = self.fresh_question, None
        if early is not None:
            with contextlib.suppress(StoreUnavailable, VersionConflict):
                prepared = await early
                if prepared.version == self.leased.conversation.version:
                    return prepared
        org, queries = self.context.org, self.ports.queries
        memory = await self.leased.once_answered(lambda: seen_memory(queries, org, design))
        if next_action(self.leased.conversation.state) != action:
            return None
        return step_request(self.leased.conversation, design, memory, at=self.now())

    async def design_of(self, agent_id: str) -> AgentDesign | None:
        """The agent as it is now in this conversation; None if it is gone."""
        known, self.fresh_design = self.fresh_design, None
        return await self.leased.design_of(agent_id, known)
