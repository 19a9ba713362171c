"""Messages as rows."""

from __future__ import annotations

from libs.contracts.agent.compaction import ConversationCompacted
from libs.contracts.agent.conversations import Message, MessageAppended, SystemPromptRebuilt
from libs.contracts.agent.stored_to_letta_messages import served_messages, text_of, words_in_calls
from libs.contracts.bus_messages import JsonObject

# Whose words a summary is: nobody's, so no search among them finds it.
SUMMARY_ROLE = "summary"


def message_row(event: MessageAppended, org: str) -> JsonObject:
    """A message with the V1 messages that it is served as."""
    message = event.message
    v1_messages = served_messages(message, run_id=event.run_id, step_id=event.step_id)
    return {
        "id": message.id,
        "org": org,
        "agent_id": event.agent_id,
        "conversation_id": event.originator_id,
        "position": event.originator_version,
        "run_id": event.run_id,
        "step_id": event.step_id,
        "role": message.role,
        "created_at": message.created_at.isoformat(),
        "recorded_at": (event.listed_at or event.timestamp).isoformat(),
        "sent": event.sent,
        "in_context": event.in_context and message.role != "approval",
        "text": searched_text(message).replace("\x00", ""),
        "v1_messages": [*v1_messages],
        "number": event.number,
        "chunks": None if event.chunks is None else [[*chunk] for chunk in event.chunks],
    }


def summary_row(event: ConversationCompacted, org: str) -> JsonObject:
    """A summary with the V1 messages that it is served as, and as those that lists show who do not
    want summaries told apart."""
    message = event.message
    assert message.summary is not None, "a summary says what it is"
    named = {"run_id": event.run_id, "step_id": event.step_id}
    v1_messages = served_messages(message, run_id=event.run_id, step_id=event.step_id)
    plain = message.model_copy(
        update={"summary": message.summary.model_copy(update={"structured": False})}
    )
    plain_v1_messages = served_messages(plain, run_id=event.run_id, step_id=event.step_id)
    return {
        "id": message.id,
        "org": org,
        "agent_id": event.agent_id,
        "conversation_id": event.originator_id,
        "position": event.originator_version,
        **named,
        "role": SUMMARY_ROLE,
        "created_at": message.created_at.isoformat(),
        "recorded_at": (event.listed_at or event.timestamp).isoformat(),
        "sent": False,
        "in_context": True,
        "text": message.summary.text.replace("\x00", ""),
        "v1_messages": [*v1_messages],
        "number": event.number,
        "chunks": None,
        "plain_v1_messages": [*plain_v1_messages] if message.summary.structured else None,
    }


def searched_text(message: Message) -> str:
    """The searchable text of a message: its words, also those that were said by calling a tool."""
    spoken = words_in_calls(message)
    return "\n".join([text_of(message), *spoken]).lstrip("\n") if spoken else text_of(message)


def rebuilt_row(event: SystemPromptRebuilt) -> JsonObject:
    """The system message with its new content."""
    v1_messages = served_messages(event.message, run_id=None, step_id=None)
    return {"id": event.message.id, "text": text_of(event.message), "v1_messages": [*v1_messages]}
