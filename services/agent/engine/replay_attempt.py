"""One process's attempt at a replay: the run's loop on a copy of its conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import timedelta

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.run_replays import (
    AnswerSource,
    ReplayedAnswer,
    ReplayedFact,
)
from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore.event_decoding import event_of
from libs.eventstore.ports import StoredEvent
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork, WorkLease
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.replays.live_tools import names_to_approve, why_not_live
from services.agent.domain.replays.recorded_calls import NOT_RECORDED, RecordedCalls
from services.agent.domain.replays.recorded_run import RecordedRun
from services.agent.domain.replays.run_replay import RunReplay, RunReplayState
from services.agent.domain.replays.step_comparison import compare, transcript
from services.agent.domain.runs.agent_loop import rules_of
from services.agent.domain.runs.agent_loops import loop_of
from services.agent.domain.runs.run_actions import AskModel, Compact, RefuseCall, RunTools
from services.agent.domain.runs.run_progress import go_on, next_action
from services.agent.domain.runs.run_steps import (
    fail,
    model_replied,
    refuse_call,
    tool_interrupted,
    tool_returned,
)
from services.agent.domain.runs.step_results import Failure, Spoken, ToolResult, run_too_slow
from services.agent.engine.model_step import answered_step
from services.agent.engine.ports import EnginePorts
from services.agent.engine.recorded_context import RecordedContext
from services.agent.engine.recorded_history import SERVICE, CannotReplay, RecordedHistory

REPLAY_STEPS_MAX = 200
REPLAY_BYTES_MAX = 16 << 20
PROMPT_KEPT = (
    "step {number}: the recorded run had its system message made anew here; the replay keeps the"
    " one that it had, since its tool calls are others by now"
)


class ReplayGone(Exception):
    """There is nothing left to do for a replay."""


class ReplayAttempt:
    """Takes one replay from its last recorded fact to its end."""

    def __init__(
        self,
        ports: EnginePorts,
        lease: WorkLease[DueWork],
        state: RunReplayState,
        recorded: RecordedRun,
        history: RecordedHistory,
    ) -> None:
        self.ports = ports
        self.lease = lease
        self.wanted = state
        self.recorded = recorded
        self.context = RecordedContext(ports, lease.work.org, recorded, history)
        self.conversation = recorded.conversation
        self.run_id = recorded.run_id
        self.recorded_calls = RecordedCalls(recorded.events, recorded.from_step)
        self.calls = RecordedCalls([], recorded.from_step)
        self.events: list[Event] = []
        self.answers: list[ReplayedAnswer] = [*state.answers]
        self.facts_kept = len(state.facts)
        self.answers_kept = len(state.answers)
        self.bytes = 0
        self.notes = self.context.notes
        self.go_back_to(state.facts)
        active = self.conversation.state.active_run
        # Calls that another attempt began: nobody knows what came of them.
        self.started_before = {call.id for call in active.started_calls} if active else set()

    def go_back_to(self, facts: Sequence[ReplayedFact]) -> None:
        """Stand where the attempt before this one had come to."""
        for fact in facts:
            stored = StoredEvent(
                self.conversation.id,
                self.conversation.version + 1,
                fact.topic,
                fact.schema_version,
                self.lease.work.org,
                "",
                json.dumps(fact.payload),
                {},
                fact.at,
            )
            event = event_of(SERVICE, stored)
            event.mutate(self.conversation)
            self.note(event)
        answered = {(answer.step, answer.tool_call_id) for answer in self.answers}
        for recorded in self.calls.calls:
            if (recorded.number, recorded.call.id) in answered:
                self.recorded_calls.use(recorded.call)

    def note(self, event: Event) -> None:
        """Keep an event of the replay."""
        self.events.append(event)
        self.calls.take(event)
        self.bytes += len(event.payload_json())

    async def take_to_its_end(self) -> None:
        """Replay what is left, and record the comparison. Raises ReplayGone, CannotReplay."""
        while (action := next_action(self.conversation.state)) is not None:
            self.refuse_if_too_much()
            match action:
                case AskModel(step_id):
                    await self.ask_model(step_id)
                case RunTools():
                    await self.answer_calls(action)
                case RefuseCall(call, why):
                    refuse_call(
                        self.conversation,
                        call,
                        why,
                        message_id=self.message_id("refused", str(self.calls.number), call.id),
                        at=self.ports.clock.now(),
                    )
                case Compact():
                    raise AssertionError("a run that compacts is not replayed")
                case _:
                    go_on(self.conversation, at=self.ports.clock.now())
        await self.complete()

    def refuse_if_too_much(self) -> None:
        """Raise CannotReplay for a replay that is larger, or takes longer, than one may."""
        most = self.ports.deadlines.run_seconds_max
        assert self.wanted.requested_at is not None, "a replay that runs was requested"
        if self.ports.clock.now() > self.wanted.requested_at + timedelta(seconds=most):
            raise CannotReplay(run_too_slow("The replay", most))
        steps = self.calls.number - self.recorded.from_step + 1
        for size, size_max, unit in (
            (self.bytes, REPLAY_BYTES_MAX, "bytes"),
            (steps, REPLAY_STEPS_MAX, "steps"),
        ):
            if size > size_max:
                why = f"The replay has more than {size_max} {unit}: use a later `from_step`"
                raise CannotReplay(Failure("internal_error", why))

    # The model

    async def ask_model(self, step_id: str) -> None:
        """Ask the model for a step and keep its answer, or why there is none."""
        number = self.conversation.running().steps + 1
        self.show_as_then(number)
        question = await self.context.question(number, self.wanted.llm_config)
        request = replace(question.request, stream_tokens=False)
        model = request.config.llm_config.handle or request.config.llm_config.model
        since = self.ports.clock.monotonic()
        try:
            async with asyncio.timeout(self.ports.deadlines.step_seconds_max):
                reply = await self.ports.models.reply(request)
        except TimeoutError:
            late = f"{model} took longer than {self.ports.deadlines.step_seconds_max:g} seconds"
            self.end_without_answer(step_id, Failure("llm_timeout", late, model=model))
        except ModelFailed as failed:
            self.end_without_answer(step_id, replace(failed.failure, model=model))
        else:
            active = self.conversation.running()
            reply = loop_of(active.agent_type).interpret(reply, active, question.offered)
            spoken = Spoken(self.message_id("said", step_id), self.ports.clock.now())
            model_ns = round((self.ports.clock.monotonic() - since) * 1e9)
            answered = answered_step(question, step_id, reply, spoken, model_ns=model_ns)
            model_replied(self.conversation, answered, at=self.ports.clock.now())
        await self.keep()

    def end_without_answer(self, step_id: str, failure: Failure) -> None:
        """End the replayed run as a run ends whose model gives no answer."""
        fail(self.conversation, step_id, failure, at=self.ports.clock.now())

    def show_as_then(self, number: int) -> None:
        """Show the model what it was shown anew before this step. Where other tools were called so
        far than then, that says nothing of this transcript."""
        if self.calls_are_same(number):
            self.context.show_as_then(number)

    def kept_prompts(self) -> list[str]:
        """Notes on the steps that were asked without what the recorded run was shown anew. They
        follow from both transcripts, whichever attempt asked."""
        asked_for = range(self.recorded.from_step, self.calls.number + 1)
        return [
            PROMPT_KEPT.format(number=number)
            for number in asked_for
            if (step := self.recorded.steps.get(number)) is not None
            if step.before and not self.calls_are_same(number)
        ]

    def calls_are_same(self, number: int) -> bool:
        """Whether the same tools were called as then, in all steps before this one."""
        return self.calls.before(number) == self.recorded_calls.before(number)

    # The tools

    async def answer_calls(self, action: RunTools) -> None:
        """Give calls their results: those that were recorded, or those that tools give now."""
        if self.wanted.mode == "recorded":
            for call in action.calls:
                self.give(action.step_id, call, *self.recorded_answer(call))
            return
        number = self.conversation.running().steps
        design = await self.context.design_of(number, self.wanted.llm_config)
        agent = await self.lease.unit().load(Agent, self.conversation.state.agent_id)
        if agent.design is None:
            raise ReplayGone(self.lease.work.id)
        to_approve = names_to_approve(agent.design.config)
        await self.keep()
        results = await asyncio.gather(
            *(self.live_answer(action.step_id, call, design, to_approve) for call in action.calls)
        )
        for call, (result, answer) in zip(action.calls, results, strict=True):
            self.give(action.step_id, call, result, answer)
        await self.keep()

    def recorded_answer(self, call: ToolCall, note: str = "") -> tuple[ToolResult, ReplayedAnswer]:
        """The recorded result of a call, or one that says that there is none."""
        found = self.recorded_calls.use(call)
        source: AnswerSource = "recorded" if found else "not_recorded"
        answer = self.answer_from(source, call, note)
        return found or ToolResult("error", NOT_RECORDED), answer

    def answer_from(self, source: AnswerSource, call: ToolCall, note: str = "") -> ReplayedAnswer:
        """Where the answer to a call of this step comes from."""
        number = self.conversation.running().steps
        return ReplayedAnswer(
            step=number, tool_call_id=call.id, tool=call.name, source=source, note=note
        )

    async def live_answer(
        self, step_id: str, call: ToolCall, design: AgentDesign, to_approve: Container[str]
    ) -> tuple[ToolResult | None, ReplayedAnswer]:
        """The result of a tool now, if it changes nothing of the agent; else the recorded one. None
        for a call that another attempt began, and that may not be made twice."""
        not_live = why_not_live(call, design, to_approve)
        if not_live:
            return self.recorded_answer(call, not_live)
        self.recorded_calls.use(call)
        answer = self.answer_from("live", call)
        was_started = call.id in self.started_before
        if was_started and not self.ports.tools.idempotent(call.name, design):
            return None, answer
        # Blocks are no part of it: what code changes of its agent has nowhere to go.
        alone = design.model_copy(update={"block_ids": []})
        named = derived_id("step", self.lease.work.id, step_id)
        rules = rules_of(self.conversation.running())
        result = await self.ports.tools.run(
            call, alone, self.lease.work.id, named, self.lease.context, rules
        )
        return result, answer

    def give(
        self, step_id: str, call: ToolCall, result: ToolResult | None, answer: ReplayedAnswer
    ) -> None:
        """Record the result of a call, and where it came from."""
        at, message_id = self.ports.clock.now(), self.message_id("returned", step_id, call.id)
        self.answers.append(answer)
        if result is None:
            tool_interrupted(self.conversation, step_id, call, message_id=message_id, at=at)
        else:
            tool_returned(self.conversation, step_id, call, result, message_id=message_id, at=at)

    def message_id(self, *parts: str) -> str:
        """The id of a message of the replay: the same however often it is attempted."""
        return derived_id("message", self.lease.work.id, *parts)

    # What becomes durable

    def fresh(self) -> tuple[list[ReplayedFact], list[ReplayedAnswer]]:
        """The facts and rows since the last commit."""
        events = self.conversation.take_new_events()
        for event in events:
            self.note(event)
        return [fact_of(event) for event in events], self.answers[self.answers_kept :]

    async def keep(self) -> None:
        """Commit what has happened. Raises ReplayGone where somebody else has gone further."""
        facts, answers = self.fresh()
        at, known = self.ports.clock.now(), self.facts_kept

        async def decide(unit: UnitOfWork) -> bool:
            replay = await unit.load(RunReplay, self.lease.work.id)
            return replay.advance(known, facts, answers, at=at)

        if not await self.lease.record(decide, release=False, advances=True):
            raise ReplayGone(self.lease.work.id)
        self.facts_kept += len(facts)
        self.answers_kept += len(answers)

    async def complete(self) -> None:
        """Record both transcripts beside each other."""
        self.fresh()
        first = self.recorded.from_step
        before, now = transcript(self.recorded.events, first), transcript(self.events, first)
        steps = compare(before, now, self.answers, self.lease.work.id)
        at, notes = self.ports.clock.now(), [*self.kept_prompts(), *self.notes]

        async def decide(unit: UnitOfWork) -> None:
            replay = await unit.load(RunReplay, self.lease.work.id)
            replay.complete(steps, before.outcome(), now.outcome(), notes, at=at)

        await self.lease.record(decide)


def fact_of(event: Event) -> ReplayedFact:
    """An event of the replayed conversation as it is kept."""
    payload: JsonObject = json.loads(event.payload_json())
    return ReplayedFact(
        topic=event.topic,
        schema_version=event.schema_version,
        at=event.timestamp,
        payload=payload,
    )
