"""Conversations beside an agent's own: how they come, change, are forked and go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    ConversationUpdated,
    Message,
    main_conversation,
)
from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, TOO_LARGE, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import JsonObject
from libs.contracts.letta.conversations import ConversationConfig, UpdateConversation
from libs.contracts.letta.model_configs import AnyModelSettings, LLMConfig
from services.agent.domain.agents.agent import missing as missing_agent
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import ConversationState


def create(conversation: Conversation, config: ConversationConfig) -> Rejected | None:
    """Begin to exist, without messages yet."""
    if conversation.exists:
        reason = f"Conversation {conversation.id} exists already, or did before"
        return Rejected(code=CONFLICT, reason=reason)
    conversation.record(ConversationCreated, at=config.created_at, config=config)
    return None


def abandon(conversation: Conversation, *, at: datetime) -> None:
    """Never come to exist, though blocks were made for it."""
    assert not conversation.exists, "what exists is deleted"
    conversation.record(ConversationDeleted, at=at)


def update(
    conversation: Conversation,
    request: UpdateConversation,
    llm: LLMConfig | None,
    *,
    actor: str,
    at: datetime,
) -> Rejected | None:
    """Change the fields that are given; null is none. `llm` is what the catalogue says of a model
    that is named."""
    own = conversation.state.own
    if own is None:
        return missing(conversation.id)
    changes: JsonObject = request.model_dump(exclude_none=True, exclude={"archived"})
    if request.model_settings is not None:
        changes["model_settings"] = stored_settings(request.model_settings)
    update: dict[str, object] = {**changes}
    if request.last_message_at is not None:
        update["last_message_at"] = in_utc(request.last_message_at)
    if request.archived is not None and request.archived != (own.archived_at is not None):
        update["archived_at"] = at if request.archived else None
    if llm is not None:
        update["llm_config"] = llm
    changed = [name for name, value in update.items() if getattr(own, name) != value]
    if not changed:
        return None
    stamp = {"updated_at": at, "last_updated_by_id": actor}
    config = own.model_copy(update={**update, **stamp})
    conversation.record(ConversationUpdated, at=at, changed=changed, config=config)
    return None


def in_utc(moment: datetime) -> datetime:
    """A time as it is kept; without a zone it is one of UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def stored_settings(settings: AnyModelSettings) -> JsonObject:
    """Model settings as they are kept; the default of a limit is not a wish for it."""
    kept: JsonObject = settings.model_dump(mode="json")
    if "max_output_tokens" not in settings.model_fields_set:
        kept.pop("max_output_tokens", None)
    return kept


def missing(conversation_id: str) -> Rejected:
    """The refusal for a conversation that is not there."""
    reason = f"Conversation with ID {conversation_id} not found"
    return Rejected(code=NOT_FOUND, reason=reason)


def missing_in(agent_id: str, conversation_id: str) -> Rejected:
    """The refusal for a conversation that the agent does not have; its own goes with the agent."""
    if conversation_id == main_conversation(agent_id):
        return missing_agent(agent_id)
    return missing(conversation_id)


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
        end = next((n for n, message in enumerate(window, 1) if message.id == until), 0)
        if not end:
            reason = (
                f"`message_id`: {until} is not in the context of this conversation, or is its "
                "system message: name another message, or none for all"
            )
            return Rejected(code=INVALID, reason=reason)
        window = window[: end_of_step(window, end)]
    window = whole_steps(window)
    return too_much(window) or [copy_message(message, fork_id) for message in window]


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
            given = {later.tool_call_id for later in window[place + 1 :]}
            return window if owed <= given else window[:place]
    return window


def too_much(window: Sequence[Message]) -> Rejected | None:
    """The refusal of a fork that would be too large for one commit."""
    size = sum(len(message.model_dump_json()) for message in window)
    if len(window) <= FORKED_MESSAGES_MAX and size <= FORKED_BYTES_MAX:
        return None
    reason = (
        f"The context of this conversation has {len(window)} messages of {size} bytes, and a fork "
        f"takes {FORKED_MESSAGES_MAX} messages of {FORKED_BYTES_MAX} bytes at most: name an "
        "earlier `message_id`, or compact the conversation first"
    )
    return Rejected(code=TOO_LARGE, reason=reason)


def copy_message(message: Message, fork_id: str) -> Message:
    """The message with the id that it has in the fork."""
    return message.model_copy(update={"id": derived_id("message", fork_id, message.id)})
