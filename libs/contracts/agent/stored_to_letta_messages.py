"""Stored messages as the V1 messages that clients are served: one may become several."""

from __future__ import annotations

from pydantic_core import from_json

from libs.contracts.agent.conversations import Message, ReasoningPart, Summary
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.messages import (
    Envelope,
    ToolCall,
    ToolReturned,
    approval_request_message,
    approval_response_message,
    assistant_message,
    event_message,
    hidden_reasoning_message,
    otid_of,
    reasoning_message,
    summary_message,
    system_message,
    tool_call_message,
    tool_return_message,
    user_message,
)


def served_messages(
    message: Message, *, run_id: str | None, step_id: str | None
) -> list[JsonObject]:
    """The V1 messages of a stored one, in the order in which clients see them."""
    envelope = Envelope(
        id=message.id,
        date=message.created_at,
        otid=message.otid,
        run_id=run_id,
        step_id=step_id,
        sender_id=message.sender_id,
        name=message.name,
        group_id=message.group_id,
    )
    if message.hidden:
        return []
    if message.summary is not None:
        return summary_parts(message, message.summary, envelope)
    match message.role:
        case "system":
            return [system_message(envelope, text_of(message))]
        case "user":
            return [user_message(envelope, message.content)]
        case "tool":
            content = message.content if isinstance(message.content, list) else text_of(message)
            returned = ToolReturned(
                tool_call_id=message.tool_call_id or "",
                content=content,
                status=message.tool_status or "success",
                stdout=message.stdout,
                stderr=message.stderr,
            )
            return [tool_return_message(part(envelope, 0), [returned])]
        case "approval":
            return [approval_response(envelope, message)]
        case "assistant":
            return assistant_parts(message, envelope)


def summary_parts(message: Message, summary: Summary, envelope: Envelope) -> list[JsonObject]:
    """A summary as clients see it: as words of the user, or told apart and announced."""
    if not summary.structured:
        return [plain_summary(message, envelope)]
    stats = summary.stats
    announced: JsonObject = {
        "trigger": stats["trigger"],
        "context_token_estimate": stats["context_tokens_before"],
        "context_window": stats["context_window"],
    }
    return [
        event_message(envelope, announced),
        summary_message(part(envelope, 0), summary.text, stats),
    ]


def plain_summary(message: Message, envelope: Envelope) -> JsonObject:
    """A summary as clients see it that do not want summaries told apart."""
    return user_message(part(envelope, 0), str(from_json(str(message.content))["message"]))


def assistant_parts(message: Message, envelope: Envelope) -> list[JsonObject]:
    """The model's thoughts, words and calls."""
    parts: list[JsonObject] = []
    for thought in message.thoughts:
        one = part(envelope, len(parts))
        parts.append(served_thought(one, thought, native=not message.inner_thoughts))
    for words in words_in_calls(message, said_first=True):
        parts.append(assistant_message(part(envelope, len(parts)), words))
    if message.content is not None:
        parts.append(assistant_message(part(envelope, len(parts)), message.content))
    for words in words_in_calls(message, said_first=False):
        parts.append(assistant_message(part(envelope, len(parts)), words))
    if calls := shown_calls(message, gated=False):
        parts.append(tool_call_message(part(envelope, len(parts)), calls))
    if calls := shown_calls(message, gated=True):
        parts.append(approval_request_message(part(envelope, len(parts)), calls))
    return parts


def shown_calls(message: Message, *, gated: bool) -> list[ToolCall]:
    """The calls that clients are shown as calls: those that wait for them, or those that do not."""
    return [
        ToolCall(id=call.id, name=call.name, arguments=call.arguments)
        for call in message.tool_calls
        if call.gated == gated and not call.spoken_argument
    ]


def approval_response(envelope: Envelope, message: Message) -> JsonObject:
    """The client's answer; its first approval or denial stands in the deprecated fields, too, where
    `approval_request_id` is the id of the call."""
    answers = message.content if isinstance(message.content, list) else []
    approvals = [answer for answer in answers if isinstance(answer, dict)]
    first = next(
        (approval for approval in approvals if isinstance(approval.get("approve"), bool)), {}
    )
    approve, call, reason = (first.get(name) for name in ("approve", "tool_call_id", "reason"))
    return approval_response_message(
        envelope,
        approvals,
        approve=approve if isinstance(approve, bool) else None,
        approval_request_id=str(call) if call is not None else None,
        reason=str(reason) if reason is not None else None,
    )


def words_in_calls(message: Message, *, said_first: bool | None = None) -> list[str]:
    """The assistant's words to the user in calls of tools; if asked so, only those before its text,
    or after it."""
    spoken = [
        call
        for call in message.tool_calls
        if call.spoken_argument and said_first in (None, call.said_first)
    ]
    return [str(from_json(call.arguments)[call.spoken_argument]) for call in spoken]


def served_thought(envelope: Envelope, thought: ReasoningPart, *, native: bool) -> JsonObject:
    """A stretch of reasoning, as far as one may see it."""
    if thought.redacted is not None:
        return hidden_reasoning_message(envelope, "redacted", thought.redacted)
    if not thought.text:
        return hidden_reasoning_message(envelope, "omitted")
    return reasoning_message(envelope, thought.text, native=native, signature=thought.signature)


def part(envelope: Envelope, index: int) -> Envelope:
    """The envelope of one part of a message; its otid tells the parts apart."""
    return Envelope(
        id=envelope.id,
        date=envelope.date,
        otid=otid_of(envelope.id, index),
        run_id=envelope.run_id,
        step_id=envelope.step_id,
        sender_id=envelope.sender_id,
        name=envelope.name,
        group_id=envelope.group_id,
    )


def text_of(message: Message) -> str:
    """The words of a message."""
    content = message.content
    if isinstance(content, list):
        texts = [str(part["text"]) for part in content if isinstance(part, dict) and "text" in part]
        return "\n".join(texts)
    return "" if content is None else str(content)
