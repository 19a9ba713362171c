"""Other messages as what models are shown of a conversation: which of those that are wanted, and
what is recorded of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.contracts.agent.compaction import ContextReplaced
from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import CONFLICT, INVALID, TOO_LARGE, Rejected
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import (
    ConversationState,
    approval_pending,
)

CONTEXT_MESSAGES_MAX = 10_000
CONTEXT_BYTES_MAX = 16 << 20


def cannot_replace(state: ConversationState, message_ids: Sequence[str]) -> Rejected | None:
    """The refusal to replace what models are shown: while a run has not ended, while calls wait for
    the client, or by too many messages."""
    if state.unfinished_runs:
        reason = (
            f"Run {state.unfinished_runs[0]} has not ended: wait for its end, or cancel it, and "
            "replace the context then"
        )
        return Rejected(code=CONFLICT, reason=reason)
    if state.approval is not None:
        return approval_pending(state.approval)
    if len(message_ids) <= CONTEXT_MESSAGES_MAX:
        return None
    reason = (
        f"`message_ids` has {len(message_ids)} items, and a context that is replaced may have "
        f"{CONTEXT_MESSAGES_MAX} at most: name fewer"
    )
    return Rejected(code=TOO_LARGE, reason=reason)


def wanted_messages(
    conversation: Conversation, message_ids: Sequence[str], recorded: Sequence[Message]
) -> list[Message] | Rejected:
    """The messages that models are to be shown, in the order in which they are shown: the system
    message as it is now, a summary, and the others as they were `recorded`. Refused is one that the
    conversation does not have."""
    known = {message.id for message in recorded}
    unknown = next((name for name in message_ids if name not in known), None)
    if unknown is not None:
        reason = (
            f"`message_ids`: {unknown} is not in the history of conversation {conversation.id}: "
            "name messages that it has"
        )
        return Rejected(code=INVALID, reason=reason)
    system = conversation.state.window[0]
    others = [message for message in recorded if message.id != system.id]
    others.sort(key=lambda message: message.summary is None)
    return [system, *whole_calls(others)]


def replace_context(
    conversation: Conversation, wanted: Sequence[Message], *, restored_from: str, at: datetime
) -> Rejected | None:
    """Record that models are shown these messages from now on; nothing where they are shown just
    these already."""
    window = conversation.state.window
    before = [message.id for message in window]
    shown = set(before)
    after = [message.id for message in wanted]
    left = set(after)
    if before == after:
        return None
    returned = [message for message in wanted if message.id not in shown]
    if refused := too_much(returned):
        return refused
    conversation.record(
        ContextReplaced,
        at=at,
        agent_id=conversation.state.agent_id,
        message_ids=after,
        evicted=[name for name in before if name not in left],
        returned=returned,
        restored_from=restored_from,
    )
    return None


def show_left_out(conversation: Conversation, *, at: datetime) -> None:
    """Record that models are shown all messages of the window again; nothing where they are."""
    state = conversation.state
    if state.omitted or state.trial.is_running or state.refusals:
        ids = [message.id for message in state.window]
        conversation.record(ContextReplaced, at=at, agent_id=state.agent_id, message_ids=ids)


def whole_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages without calls of tools whose results are not all behind them, and without
    results whose calls are not before them."""
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if message.role in ("system", "approval"):
            continue
        if message.role == "tool":
            before = last_spoken(kept)
            if before is None or message.tool_call_id not in calls_of(before):
                continue
        elif not calls_of(message) <= results_behind(messages, place):
            continue
        kept.append(message)
    return kept


def last_spoken(messages: Sequence[Message]) -> Message | None:
    """The last message that is no result of a call."""
    return next((message for message in reversed(messages) if message.role != "tool"), None)


def calls_of(message: Message) -> set[str]:
    """The ids of the calls that a message asks for."""
    return {call.id for call in message.tool_calls}


def results_behind(messages: Sequence[Message], place: int) -> set[str | None]:
    """The calls whose results come right behind a place, before anything else is said."""
    found: set[str | None] = set()
    for behind in range(place + 1, len(messages)):
        if messages[behind].role != "tool":
            break
        found.add(messages[behind].tool_call_id)
    return found


def too_much(returned: Sequence[Message]) -> Rejected | None:
    """The refusal of messages that would be too large for one commit."""
    size = sum(len(message.model_dump_json()) for message in returned)
    if size <= CONTEXT_BYTES_MAX:
        return None
    reason = (
        f"The messages that models would be shown again have {size} bytes, and one commit takes "
        f"{CONTEXT_BYTES_MAX} at most: name fewer"
    )
    return Rejected(code=TOO_LARGE, reason=reason)
