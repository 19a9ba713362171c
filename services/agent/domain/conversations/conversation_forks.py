"""What a fork takes over: the messages that its source has in its context, in whole steps."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import INVALID, TOO_LARGE, Rejected
from libs.contracts.deterministic_ids import derived_id
from services.agent.domain.conversations.conversation_state import ConversationState

FORKED_MESSAGES_MAX = 10_000
FORKED_BYTES_MAX = 16 << 20


def forked_messages(
    state: ConversationState, fork_id: str, until: str | None
) -> list[Message] | Rejected:
    """The messages that a fork begins with, under ids of its own: those of the source's context but
    for the system message, up to the one that is named. A step with a call that has no result yet
    stays behind."""
    window = state.window[1:]
    if until is not None:
        end = next((n for n, one in enumerate(window, 1) if one.id == until), 0)
        if not end:
            reason = (
                f"`message_id`: {until} is not in the context of this conversation, or is its "
                "system message: name another message, or none for all"
            )
            return Rejected(code=INVALID, reason=reason)
        window = window[: end_of_step(window, end)]
    window = whole_steps(window)
    return too_much(window) or [copied(one, fork_id) for one in window]


def end_of_step(window: Sequence[Message], end: int) -> int:
    """The same place, or behind the results of the calls before it."""
    while end < len(window) and window[end].role == "tool":
        end += 1
    return end


def whole_steps(window: list[Message]) -> list[Message]:
    """The messages without the last step, if that waits for the result of a call."""
    for place in reversed(range(len(window))):
        owed = {call.id for call in window[place].tool_calls}
        if owed:
            given = {one.tool_call_id for one in window[place + 1 :]}
            return window if owed <= given else window[:place]
    return window


def too_much(window: Sequence[Message]) -> Rejected | None:
    """The refusal of a fork that would be too large for one commit."""
    size = sum(len(one.model_dump_json()) for one in window)
    if len(window) <= FORKED_MESSAGES_MAX and size <= FORKED_BYTES_MAX:
        return None
    reason = (
        f"The context of this conversation has {len(window)} messages of {size} bytes, and a fork "
        f"takes {FORKED_MESSAGES_MAX} messages of {FORKED_BYTES_MAX} bytes at most: name an "
        "earlier `message_id`, or compact the conversation first"
    )
    return Rejected(code=TOO_LARGE, reason=reason)


def copied(message: Message, fork_id: str) -> Message:
    """A message as another one of a fork."""
    return message.model_copy(update={"id": derived_id("message", fork_id, message.id)})
