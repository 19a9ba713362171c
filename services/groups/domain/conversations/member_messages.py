"""What a member is shown when it is asked: the group, what was said since, and the question."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import Json
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import GroupMessage
from services.groups.domain.conversations.group_conversation_state import (
    GroupConversationState,
    MemberRun,
    TranscriptMessage,
)
from services.groups.domain.managers.decisions import Participant

DIGEST_CHARS = 16
ITS_TURN = "It is your turn to speak. Nothing was said since you spoke last."
DESCRIPTION_CHARS_MAX = 200
# What a member that was not asked for long is shown of the time before this run: the newest.
EARLIER_MESSAGES_MAX, EARLIER_BYTES_MAX = 100, 64 << 10
LEFT_OUT = "Earlier messages of the group are left out here."


def briefing_of(
    name: str | None, description: str, people: list[Participant], shared_state: str
) -> str:
    """What each member is told of the group."""
    title = f"the group “{name}”" if name else "a group of agents"
    lines = [f"You take part in {title}. {description}".strip()]
    lines.append("Who is in it:")
    lines += [f"- {line_of(person)}" for person in people]
    lines.append("What others say begins with their name in brackets; others hear what you say.")
    if shared_state:
        lines.append(shared_state)
    return "\n".join(lines)


def line_of(person: Participant) -> str:
    """A participant in one line."""
    what = f": {person.description[:DESCRIPTION_CHARS_MAX]}" if person.description else ""
    can = f" (can: {', '.join(person.capabilities)})" if person.capabilities else ""
    return f"{person.name}{what}{can}"


def digest(briefing: str) -> str:
    """What tells one briefing from another."""
    return sha256(briefing.encode()).hexdigest()[:DIGEST_CHARS]


def messages_for(
    state: GroupConversationState, hop: MemberRun, briefing: str, *, at: datetime
) -> list[Message]:
    """The messages with which a member is asked."""
    messages = [system(hop, "briefing", briefing_for(hop, briefing), at)] if hop.briefed else []
    if not hop.answers_say_all:
        said = said_since(state, hop)
        shown = without_oldest(state, said)
        if len(shown) < len(said):
            messages.append(system(hop, "left_out", LEFT_OUT, at))
        heard = [message_for(hop, entry.message, state.group_id) for entry in shown]
        messages += heard
        if not heard and not hop.question and not hop.answers:
            messages.append(system(hop, "turn", ITS_TURN, at))
    if hop.question:
        messages.append(system(hop, "question", hop.question, at))
    return [message.model_copy(update={"group_id": state.group_id}) for message in messages]


def briefing_for(hop: MemberRun, briefing: str) -> str:
    """A briefing that says who the member is."""
    return f"{briefing}\nYou are {hop.name}."


def said_since(state: GroupConversationState, hop: MemberRun) -> list[TranscriptMessage]:
    """What others have said since a member was asked last, as far as it is for its ears."""
    return [
        entry
        for entry in state.transcript
        if hop.since < entry.number <= hop.up_to
        and entry.message.sender_id != hop.agent_id
        and is_for(entry.message, hop.agent_id)
    ]


def without_oldest(
    state: GroupConversationState, said: list[TranscriptMessage]
) -> list[TranscriptMessage]:
    """All that was said in the run that is under way, and of what was said before the newest that
    is not too much at a time."""
    run = state.active
    began = run.first - len(run.messages) if run else state.number
    earlier = [entry for entry in said if entry.number <= began][-EARLIER_MESSAGES_MAX:]
    total = sum(entry.bytes for entry in earlier)
    while earlier and total > EARLIER_BYTES_MAX:
        total -= earlier.pop(0).bytes
    return [*earlier, *(entry for entry in said if entry.number > began)]


def is_for(message: GroupMessage, agent_id: str) -> bool:
    """Whether a member may know of a message."""
    return not message.recipients or agent_id in message.recipients


def message_for(hop: MemberRun, message: GroupMessage, group_id: str) -> Message:
    """A message of the transcript as a member is shown it: with the name of the speaker."""
    return Message(
        id=derived_id("message", hop.run_id, message.id),
        role="system" if message.role == "system" else "user",
        content=with_name(message.content, message.name),
        created_at=message.created_at,
        name=message.name,
        sender_id=message.sender_id,
        otid=message.otid,
        group_id=group_id,
    )


def with_name(content: Json, name: str | None) -> Json:
    """What was said, behind the name of the speaker."""
    if not name:
        return content
    if isinstance(content, list):
        return [{"type": "text", "text": f"[{name}]:"}, *content]
    return f"[{name}]: {content}"


def system(hop: MemberRun, what: str, text: str, at: datetime) -> Message:
    """Something that the group says to a member, and no participant does."""
    return Message(
        id=derived_id("message", hop.run_id, what), role="system", content=text, created_at=at
    )
