"""Rows of the old server's messages as our messages.

One row may become several messages: a row of the role `tool` has the results of all calls of a
step. The first keeps the id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from deploy.letta_migration.source import Row
from libs.contracts.agent.conversations import (
    Message,
    ReasoningPart,
    Role,
    ToolCall,
    ToolStatus,
)
from libs.contracts.bus_messages import Json
from libs.contracts.deterministic_ids import derived_id

# Agents whose models say what they want to say as text; others say it by a tool, and their text is
# what they think.
SPEAKING_TYPES = frozenset({"letta_v1_agent"})
SPEAKING_TOOL, SPEAKING_ARGUMENT = "send_message", "message"
ROLES: Mapping[str, Role] = {
    "system": "system",
    "user": "user",
    "summary": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def messages_of(row: Row, *, speaks: bool) -> list[Message]:
    """The messages of a row; `speaks` says whether the text of its agent is meant for the user, and
    is not what it thinks."""
    role = row["role"]
    if role == "approval":
        asks = bool(row["tool_calls"])
        return [assistant_message(row, speaks=speaks) if asks else approval_message(row)]
    if role == "assistant":
        return [assistant_message(row, speaks=speaks)]
    if role in ("tool", "function"):
        return list(tool_messages(row))
    return [plain_message(row, ROLES.get(role, "user"))]


def plain_message(row: Row, role: Role) -> Message:
    """A message of a user or of the system."""
    content = content_of(row)
    return Message(
        id=row["id"],
        role=role,
        content=unpack_words(content) if role == "user" and isinstance(content, str) else content,
        created_at=utc(row["created_at"]),
        otid=row["otid"],
        name=row["name"],
        sender_id=row.get("sender_id"),
    )


def assistant_message(row: Row, *, speaks: bool) -> Message:
    """A model's answer: its thoughts, its words and its calls; those that wait for the client are
    `gated`."""
    parts = parts_of(row)
    words = "".join(str(part["text"]) for part in parts if part.get("type") == "text")
    thoughts = [thought for part in parts for thought in thoughts_in(part)]
    inner = bool(words) and not speaks
    if inner and thoughts:
        thoughts = [*thoughts, ReasoningPart(text=words)]
    plain = thoughts[0].text if len(thoughts) == 1 and is_plain(thoughts[0]) else None
    gated = row["role"] == "approval"
    return Message(
        id=row["id"],
        role="assistant",
        content=words if words and speaks else None,
        reasoning=words if inner and not thoughts else plain,
        inner_thoughts=inner and not thoughts,
        reasoning_parts=[] if plain is not None else thoughts,
        tool_calls=[call_of(call, gated=gated) for call in row["tool_calls"] or []],
        created_at=utc(row["created_at"]),
        otid=row["otid"],
        name=row["name"],
        sender_id=row.get("sender_id"),
    )


def is_plain(thought: ReasoningPart) -> bool:
    """Whether a thought is words that no provider wants back."""
    return bool(thought.text) and thought.signature is None and thought.redacted is None


def thoughts_in(part: Row) -> Iterator[ReasoningPart]:
    """The thoughts that a part of a message has."""
    match part.get("type"):
        case "reasoning":
            yield ReasoningPart(text=part["reasoning"], signature=part.get("signature"))
        case "redacted_reasoning":
            yield ReasoningPart(redacted=part["data"])
        case "omitted_reasoning":
            yield ReasoningPart(signature=part.get("signature"))
        case "summarized_reasoning":
            text = "\n\n".join(piece["text"] for piece in part.get("summary") or [])
            yield ReasoningPart(text=text, signature=part.get("encrypted_content"))


def call_of(call: Row, *, gated: bool) -> ToolCall:
    """A call as a model made it; what it says to the user by it is told apart."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    spoken = ""
    if name == SPEAKING_TOOL and not gated and SPEAKING_ARGUMENT in parsed_object(arguments):
        spoken = SPEAKING_ARGUMENT
    return ToolCall(
        id=call["id"], name=name, arguments=arguments, spoken_argument=spoken, gated=gated
    )


def tool_messages(row: Row) -> Iterator[Message]:
    """The results in a row, each as a message of its own."""
    returns = row["tool_returns"] or [
        {"tool_call_id": row["tool_call_id"], "func_response": content_of(row)}
    ]
    for number, returned in enumerate(returns):
        text, status = result_of(returned)
        name = row["name"]
        yield Message(
            id=row["id"] if number == 0 else derived_id("message", row["id"], str(number)),
            role="tool",
            content=text,
            name=name,
            tool_call_id=returned.get("tool_call_id") or row["tool_call_id"],
            tool_status=status,
            stdout=returned.get("stdout"),
            stderr=returned.get("stderr"),
            hidden=name == SPEAKING_TOOL and status == "success",
            created_at=utc(row["created_at"]),
            otid=row["otid"],
            sender_id=row.get("sender_id"),
        )


def result_of(returned: Row) -> tuple[Json, ToolStatus]:
    """The result of a tool, out of the JSON around it, and how it ended."""
    response = returned.get("func_response")
    if not isinstance(response, str):
        return response, "error" if returned.get("status") == "error" else "success"
    packed = parsed_object(response)
    failed = packed.get("status", returned.get("status")) in ("Failed", "error")
    text = packed.get("message", response)
    return text if isinstance(text, str) else str(text), "error" if failed else "success"


def approval_message(row: Row) -> Message:
    """A client's answer to calls that waited."""
    answers = row.get("approvals") or [
        {
            "type": "approval",
            "tool_call_id": row["approval_request_id"],
            "approve": row["approve"],
            "reason": row["denial_reason"],
        }
    ]
    return Message(
        id=row["id"],
        role="approval",
        content=[answer_of(answer) for answer in answers],
        created_at=utc(row["created_at"]),
        otid=row["otid"],
        name=row["name"],
        request_id=row["approval_request_id"],
    )


def answer_of(answer: Row) -> Json:
    """One answer in the form of the API: an approval, or what the client's own tool gave back."""
    if "func_response" not in answer:
        return {"type": "approval", **answer}
    text, status = result_of(answer)
    return {
        "type": "tool",
        "tool_call_id": answer.get("tool_call_id"),
        "tool_return": text,
        "status": status,
        "stdout": answer.get("stdout"),
        "stderr": answer.get("stderr"),
    }


def content_of(row: Row) -> Json:
    """The content of a message: text where it is nothing else, else its parts."""
    parts = parts_of(row)
    if len(parts) == 1 and parts[0].get("type") == "text":
        return str(parts[0]["text"])
    return [*parts] or None


def parts_of(row: Row) -> list[Row]:
    """The parts of a message; in the oldest rows there is a text alone."""
    if row["content"]:
        return list(row["content"])
    return [{"type": "text", "text": row["text"]}] if row.get("text") else []


def unpack_words(text: str) -> str:
    """A user's words, out of the JSON that older releases put around it."""
    packed = parsed_object(text)
    message = packed.get("message")
    return message if packed.get("type") == "user_message" and isinstance(message, str) else text


def parsed_object(text: str) -> Row:
    """The JSON object that a text is, or an empty one."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def utc(moment: datetime) -> datetime:
    """A time with its zone: what the old server wrote without one is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def content_bytes(message: Message) -> int:
    """About how much a message takes: its content, its thoughts and the arguments of its calls."""
    thoughts = sum(len(thought.text) for thought in message.thoughts)
    return (
        len(str(message.content))
        + thoughts
        + sum(len(call.arguments) for call in message.tool_calls)
    )


def without_content(message: Message) -> Message:
    """A message with a note in the place of what it said, and its calls without arguments."""
    note = "This message was too large to be taken over from the Letta server."
    calls = [
        call.model_copy(update={"arguments": "{}", "spoken_argument": ""})
        for call in message.tool_calls
    ]
    changes = {"content": note, "reasoning": None, "reasoning_parts": [], "tool_calls": calls}
    return message.model_copy(update=changes)
