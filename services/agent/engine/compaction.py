"""Compact a conversation: cut its window, summarise the older part, record the summary.

The summary is a model call outside any transaction. If the process dies meanwhile, nothing has
changed, and the next attempt at the run begins the compaction again. A model that cannot summarise
is no obstacle: the ways to compact are tried one after the other, and the last needs no model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from libs.bus.ports import Clock
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.model_configs import CompactionSettings, LLMConfig
from libs.contracts.token_estimates import BYTES_PER_TOKEN
from libs.eventstore import failpoints
from services.agent.adapters.models.ports import ModelFailed, Models
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.model_config_resolution import summariser_config
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import ConversationState
from services.agent.domain.conversations.provider_rejected_messages import TOO_LONG
from services.agent.domain.prompts.compaction_plan import (
    ACKNOWLEDGEMENT,
    COMPACTIONS_MAX,
    MECHANICAL,
    WAYS,
    Budget,
    Plan,
    Trigger,
    Way,
    budget_of,
    clip,
    is_full,
    mechanical_summary,
    overflowing,
    plan_of,
    prompt_of,
    settings_of,
    transcript,
)
from services.agent.domain.prompts.model_context import (
    ModelRequest,
    recompiled_prompt,
    shown_messages,
)
from services.agent.domain.runs.compaction import (
    Compaction,
    WrittenSummary,
    asks_models,
    compact,
    nothing_gained,
    too_long_prompt,
)
from services.agent.domain.runs.run_progress import go_on
from services.agent.domain.runs.step_results import Failure
from services.agent.engine.leased_conversation import LeasedConversation
from services.agent.engine.model_step import StepRequest
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)

# How long a compaction waits for models, all tries together; then it goes on without one.
SUMMARY_SECONDS_MAX = 90.0
# How often a summariser is asked again with half as much, when it says that it was too much.
HALVINGS_MAX = 2
# What a summariser may be shown of its window: the rest is for the prompt and its answer.
TRANSCRIPT_SHARE = 0.6
FAILURE_CHARS_MAX = 300
# The finish reason of a model that refuses: what it says then is no summary.
REFUSED = "content_filter"

type Summary = tuple[Plan | None, WrittenSummary]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The input of a compaction: the window as it stands, and the cut to be made."""

    state: ConversationState
    design: AgentDesign
    question: StepRequest
    settings: CompactionSettings
    budget: Budget
    trigger: Trigger

    @property
    def config(self) -> AgentConfig:
        return self.design.config


def prepare_compaction(
    state: ConversationState, design: AgentDesign, question: StepRequest, trigger: Trigger
) -> Prepared:
    """The input of this conversation's compaction: its window, settings and token budget."""
    requested = state.active_run.compaction if state.active_run else None
    settings = settings_of(design.config, requested)
    share = settings.sliding_window_percentage
    budget = budget_of(state, design.config, question.size, share)
    if trigger == "context_window_exceeded":
        budget = overflowing(budget)
    return Prepared(state, design, question, settings, budget, trigger)


def ways_of(made_of: Prepared, *, models: bool) -> tuple[Way, ...]:
    """The ways that are tried, in this order. What was not enough is not tried again in the same
    run before the model has answered."""
    run = made_of.state.active_run
    ways = WAYS[made_of.settings.mode]
    tried = min(run.compactions if run else 0, len(ways) - 1)
    return ways[tried:] if models else ways[-1:]


class Compactor:
    """Compacts the conversation of one attempt. `run_within_deadline` returns the result of long
    work, None if the run is cancelled meanwhile, or raises ModelFailed when the run's time is up;
    `number` returns the number of the next chunk that clients receive."""

    def __init__(
        self,
        ports: EnginePorts,
        leased: LeasedConversation,
        run_within_deadline: Callable[[Coroutine[Any, Any, Summary]], Awaitable[Summary | None]],
        number: Callable[[ActiveRun], int],
    ) -> None:
        self.leased = leased
        self.run_within_deadline = run_within_deadline
        self.number = number
        self.ids = ports.ids
        self.now = ports.clock.now
        self.summariser = Summariser(ports.models, ports.clock)

    async def before_step(self, design: AgentDesign, question: StepRequest, step_id: str) -> bool:
        """Make room before the model is asked, if there is need; returns whether anything was
        recorded, or happened meanwhile. Raises ModelFailed where no room can be made at all."""
        state, run = self.leased.conversation.state, self.leased.conversation.running()
        budget = budget_of(state, design.config, question.size)
        if question.size.system >= budget.window:
            tokens = budget.tokens(question.size.system)
            raise ModelFailed(too_long_prompt(design.config.llm_config.context_window, tokens))
        if run.compactions >= COMPACTIONS_MAX or not is_full(state, budget):
            return False
        trigger: Trigger = "post_step_context_check" if run.steps else "pre_step_context_check"
        return await self.compact(design, question, step_id, trigger)

    async def after_overflow(
        self, design: AgentDesign, question: StepRequest, step_id: str
    ) -> bool:
        """Make room after the provider said that the whole is too long; returns whether anything
        was recorded, or happened meanwhile."""
        run = self.leased.active
        if run is None or run.next_step_id != step_id or run.compactions >= COMPACTIONS_MAX:
            return run is None or run.next_step_id != step_id
        return await self.compact(design, question, step_id, "context_window_exceeded")

    async def on_demand(self, design: AgentDesign, question: StepRequest, step_id: str) -> None:
        """Compact the conversation because a client asked for that, and end the run. Raises
        ModelFailed where nothing would be gained."""
        if not await self.compact(design, question, step_id, "manual"):
            raise ModelFailed(nothing_gained(self.leased.conversation.state))

    async def compact(
        self, design: AgentDesign, question: StepRequest, step_id: str, trigger: Trigger
    ) -> bool:
        """Have a summary written and record it; returns whether that was done, or anything else
        happened meanwhile."""
        state, run_id = self.leased.conversation.state, self.leased.run_id
        window = list(state.window)
        made_of = prepare_compaction(state, design, question, trigger)
        summarised = await self.run_within_deadline(self.summariser.summarise(made_of))
        if summarised is None or self.leased.run_id != run_id:
            await self.leased.resume()
            return True
        plan, summary = summarised
        if plan is None:
            return False
        at, config = self.now(), design.config
        done = Compaction(
            step_id=step_id,
            trigger=trigger,
            plan=plan,
            budget=made_of.budget,
            evicted=[message.id for message in window[1 : plan.kept_from]],
            summary=summary,
            rebuilt=recompiled_prompt(state, config, question.memory, at=at),
            timezone=config.timezone,
            context_window=config.llm_config.context_window,
        )
        failpoints.reach("before_compaction")
        message_id = self.ids.new("message")
        await self.leased.record(
            lambda conversation: self.record_compaction(conversation, done, message_id)
        )
        return True

    def record_compaction(
        self, conversation: Conversation, done: Compaction, message_id: str
    ) -> None:
        """Record the compaction and the new system prompt, then continue the run. Does nothing
        where `compact` refuses."""
        active = conversation.state.active_run
        number = self.number(active) if active else 0
        if compact(conversation, done, message_id=message_id, number=number, at=self.now()):
            conversation.rebuild(done.rebuilt, at=self.now())
            go_on(conversation, at=self.now())


class Summariser:
    """Writes the summaries of conversations."""

    def __init__(self, models: Models, clock: Clock) -> None:
        self.models = models
        self.clock = clock

    async def summarise(self, made_of: Prepared) -> Summary:
        """Where to cut the window, and the summary of the messages that leave it. The plan is None
        if a compaction would free nothing."""
        deadline = self.clock.monotonic() + SUMMARY_SECONDS_MAX
        failures: list[str] = []
        models = asks_models(made_of.state, self.clock.now())
        for way in ways_of(made_of, models=models):
            plan = plan_of(made_of.state, way, made_of.settings, made_of.budget)
            if plan is None:
                continue
            evicted = made_of.state.window[1 : plan.kept_from]
            if way == MECHANICAL:
                text = mechanical_summary(evicted, made_of.budget.summary_max)
                return plan, WrittenSummary(text, failures=failures)
            try:
                async with asyncio.timeout(max(0.0, deadline - self.clock.monotonic())):
                    written = await self.ask_models(made_of, plan, evicted)
                return plan, replace(written, failures=failures)
            except TimeoutError:
                failures.append(f"{way}: no summary after {SUMMARY_SECONDS_MAX:g} seconds")
            except ModelFailed as failed:
                failures.append(f"{way}: {failed.failure.message}"[:FAILURE_CHARS_MAX])
            log.warning("no summary of %s: %s", made_of.config.id, failures[-1])
        return None, WrittenSummary("", failures=failures)

    async def ask_models(
        self, made_of: Prepared, plan: Plan, evicted: list[Message]
    ) -> WrittenSummary:
        """A summary written by a model. If the model says that the transcript is too long, it is
        asked again with half of it. Raises ModelFailed."""
        if plan.way in ("self_compact_all", "self_compact_sliding_window"):
            return await self.ask(self.own_request(made_of, plan), made_of)
        llm = await self.model_of(made_of)
        share = TRANSCRIPT_SHARE
        for _ in range(HALVINGS_MAX):
            try:
                return await self.ask(request_of(made_of, plan, evicted, llm, share), made_of)
            except ModelFailed as failed:
                if failed.failure.error_type != TOO_LONG:
                    raise
                share /= 2
        return await self.ask(request_of(made_of, plan, evicted, llm, share), made_of)

    async def ask(self, request: ModelRequest, made_of: Prepared) -> WrittenSummary:
        """The model's answer to this request as a summary, cut to its limit. Raises ModelFailed."""
        reply = await self.models.reply(request)
        llm = request.config.llm_config
        text = clip(reply.text, made_of.settings.clip_chars, made_of.budget.summary_max)
        has_refused = reply.finish_reason == REFUSED
        if has_refused or not text:
            why = "called a tool instead of writing" if reply.tool_calls else "wrote no summary"
            why = f"refused to write a summary: {text}" if has_refused else why
            name = llm.handle or llm.model
            raise ModelFailed(Failure("llm_empty_response", f"{name} {why}"))
        return WrittenSummary(text, llm.handle or llm.model, reply.usage)

    async def model_of(self, made_of: Prepared) -> LLMConfig:
        """The model that the settings name, or the agent's own where that is not to be had."""
        own, handle = made_of.config.llm_config, made_of.settings.model
        if not handle or handle == own.handle:
            return summariser_config(own, made_of.settings)
        named = await self.models.llm(handle)
        if isinstance(named, Rejected):
            log.info("the summariser %s is not there: %s", handle, named.reason)
            return summariser_config(own, made_of.settings)
        return summariser_config(named, made_of.settings)

    def own_request(self, made_of: Prepared, plan: Plan) -> ModelRequest:
        """The agent's own model, asked to summarise what it is shown: it has most of that in its
        cache. Raises ModelFailed where that is too long already."""
        state, asked = made_of.state, made_of.question
        tokens = made_of.config.llm_config.context_window
        messages = shown_messages(state, asked.rebuilt, window_tokens=tokens)
        if plan.way == "self_compact_sliding_window":
            part = state.model_copy(update={"window": state.window[: plan.kept_from]})
            messages = shown_messages(part, asked.rebuilt, window_tokens=tokens)
        assert plan.way != MECHANICAL, "such a summary asks no model"
        prompt = prompt_of(made_of.settings, plan.way)
        at = self.clock.now()
        messages.append(Message(id="", role="user", content=prompt, created_at=at))
        if made_of.budget.whole > made_of.budget.window and plan.way == "self_compact_all":
            raise ModelFailed(Failure(TOO_LONG, "the conversation is longer than the window"))
        config = made_of.config
        llm = config.llm_config.model_copy(update={"response_format": None})
        config = config.model_copy(update={"llm_config": llm})
        return ModelRequest(config, messages, asked.request.tools, asked.request.parallel)


def request_of(
    made_of: Prepared, plan: Plan, evicted: list[Message], llm: LLMConfig, share: float
) -> ModelRequest:
    """A summariser, shown what is evicted as far as that fits into this share of its window."""
    assert plan.way != MECHANICAL, "such a summary asks no model"
    prompt = prompt_of(made_of.settings, plan.way)
    at = evicted[-1].created_at
    room = max(1_000, int(llm.context_window * share * BYTES_PER_TOKEN) - len(prompt.encode()))
    messages = [Message(id="", role="system", content=prompt, created_at=at)]
    if made_of.settings.prompt_acknowledgement:
        messages.append(Message(id="", role="assistant", content=ACKNOWLEDGEMENT, created_at=at))
    shown = transcript(evicted, room)
    messages.append(Message(id="", role="user", content=shown, created_at=at))
    config = made_of.config.model_copy(update={"llm_config": llm})
    return ModelRequest(config, messages, tools=[], parallel=False)
