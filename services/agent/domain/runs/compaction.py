"""Records of a compaction: the summary, the messages it stands for, and its cause."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from libs.contracts.agent.compaction import (
    ContextCleared,
    ConversationCompacted,
)
from libs.contracts.agent.conversations import Message, Summary, Usage
from libs.contracts.bus_messages import CONFLICT, INVALID, JsonObject, Rejected
from libs.contracts.token_estimates import message_bytes
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import (
    ConversationState,
    SystemPrompt,
)
from services.agent.domain.prompts.compaction_plan import Budget, Plan, Trigger, unfinished_from
from services.agent.domain.runs.run_actions import Compact, EndRun, NextAction
from services.agent.domain.runs.step_results import Failure

# After so many compactions in a row for which no model wrote a summary, none is asked for a while.
SUMMARY_FAILURES_MAX = 3
SUMMARY_REST = timedelta(minutes=10)
# How runs end because of this.
NOTHING_TO_COMPACT = "nothing_to_compact"
SYSTEM_PROMPT_TOO_LONG = "context_window_overflow_in_system_prompt"
WHY_NOTHING = (
    "Nothing was compacted: the model is shown {messages} messages besides the system message, and "
    "a summary would not be shorter. Send more messages first."
)


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary, who wrote it if a model did, and why others did not."""

    text: str
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A compaction that is ready to be recorded. `evicted` are the messages that it is about, which
    stood behind the system message; `rebuilt` is the system message that is shown from now on."""

    step_id: str
    trigger: Trigger
    plan: Plan
    budget: Budget
    evicted: list[str]
    summary: WrittenSummary
    rebuilt: SystemPrompt
    timezone: str
    context_window: int


def nothing_to_compact(state: ConversationState) -> Rejected | None:
    """The refusal of a compaction that would make nothing shorter."""
    messages = len(state.window) - 1
    if messages > 1:
        return None
    return Rejected(code=INVALID, reason=WHY_NOTHING.format(messages=max(0, messages)))


def summary_if_idle(state: ConversationState) -> str | None:
    """The summary, where models are shown nothing else of a conversation in which nothing runs."""
    idle = state.active_run is None and not state.queue
    if not idle or len(state.window) != 2 or state.window[1].summary is None:
        return None
    return state.window[1].summary.text


def compaction_action(active: ActiveRun) -> NextAction:
    """The next action in a run that is nothing but a compaction."""
    return EndRun("end_turn") if active.compactions else Compact(active.next_step_id)


def asks_models(state: ConversationState, at: datetime) -> bool:
    """Whether a model is asked for a summary: not for a while after several failures in a row."""
    if state.summary_failures < SUMMARY_FAILURES_MAX or state.summary_failed_at is None:
        return True
    return at - state.summary_failed_at >= SUMMARY_REST


def nothing_gained(state: ConversationState) -> Failure:
    """The failure of a run that would have compacted a conversation, and could not."""
    why = WHY_NOTHING.format(messages=len(state.window) - 1)
    return Failure(NOTHING_TO_COMPACT, why, stop_reason="error")


def too_long_prompt(context_window: int, tokens: int) -> Failure:
    """The failure of a run whose system message leaves no room for anything else."""
    why = (
        f"The system prompt takes about {tokens} tokens, and the context window of the model is "
        f"{context_window}: shorten the agent's `system` text or its blocks, or raise "
        "`context_window_limit`"
    )
    return Failure(SYSTEM_PROMPT_TOO_LONG, why, stop_reason=SYSTEM_PROMPT_TOO_LONG)


def compact(
    conversation: Conversation,
    done: Compaction,
    *,
    message_id: str,
    number: int,
    at: datetime,
) -> bool:
    """Show models a summary in the place of the messages that it was made of; False, and nothing,
    if these are not there any more, or the run has gone on."""
    state, active = conversation.state, conversation.state.active_run
    there = [message.id for message in state.window[1 : 1 + len(done.evicted)]]
    if active is None or active.next_step_id != done.step_id or there != done.evicted:
        return False
    if active.open_call is not None:
        return False
    conversation.record(
        ConversationCompacted,
        at=at,
        run_id=active.run.id,
        agent_id=state.agent_id,
        step_id=done.step_id,
        message=summary_message(state, active, done, message_id=message_id, at=at),
        evicted=done.evicted,
        mode=done.plan.way,
        model=done.summary.model,
        failures=done.summary.failures,
        usage=done.summary.usage,
        number=max(number, active.last_number + 1),
    )
    return True


def clear(conversation: Conversation, *, at: datetime) -> None:
    """Show models nothing of what was said so far, but for a call that waits for its result."""
    window = conversation.state.window
    evicted = [message.id for message in window[1 : unfinished_from(window)]]
    if evicted:
        conversation.record(ContextCleared, at=at, evicted=evicted)


def cannot_clear(state: ConversationState) -> Rejected | None:
    """The refusal to clear a conversation while a run is active."""
    if state.active_run is None:
        return None
    reason = (
        f"Run {state.active_run.run.id} is active: wait for its end, or cancel it, and reset then"
    )
    return Rejected(code=CONFLICT, reason=reason)


def summary_message(
    state: ConversationState, active: ActiveRun, done: Compaction, *, message_id: str, at: datetime
) -> Message:
    """The summary, packed as a message of the user, which is what models are shown."""
    stats = stats_of(state, done)
    packed: JsonObject = {
        "type": "system_alert",
        "message": note(done),
        "time": f"{at.astimezone(ZoneInfo(done.timezone)):%Y-%m-%d %I:%M:%S %p %Z%z}",
        "compaction_stats": stats,
    }
    return Message(
        id=message_id,
        role="user",
        content=json.dumps(packed, ensure_ascii=False),
        created_at=at,
        summary=Summary(
            text=done.summary.text, stats=stats, structured=active.structured_summaries
        ),
    )


def stats_of(state: ConversationState, done: Compaction) -> JsonObject:
    """The statistics of a compaction, in V1's fields."""
    evicted = sum(map(message_bytes, state.window[1 : 1 + len(done.evicted)]))
    budget, length = done.budget, len(state.window)
    return {
        "trigger": done.trigger,
        "context_tokens_before": budget.tokens(budget.whole),
        "context_tokens_after": budget.tokens(budget.whole - evicted + len(done.summary.text)),
        "context_window": done.context_window,
        "messages_count_before": length,
        "messages_count_after": length - len(done.evicted) + 1,
    }


def note(done: Compaction) -> str:
    """The note to the model in the place of the messages it is no longer shown."""
    count = len(done.evicted)
    return (
        f"[{count} older messages are not shown any more, to make room. They can still be found by "
        f"searching the conversation.] Summary of them:\n{done.summary.text}"
    )
