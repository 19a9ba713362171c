"""Messages as agent files have them: the form in which the retired server stores them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.messages import otid_of

# What an assistant's call that says something to the user gives back.
SAID = "The message was sent."


def with_said_results(messages: Sequence[Message]) -> list[Message]:
    """Messages with the results of the calls by which an assistant spoke: nobody is shown them
    here, and they are in no list; the retired server wants one for each call."""
    known = {message.tool_call_id for message in messages}
    found: list[Message] = []
    for message in messages:
        said = [call for call in message.tool_calls if call.spoken_argument]
        results = [said_result(message, call) for call in said if call.id not in known]
        found += [message, *results]
    return found


def said_result(message: Message, call: ToolCall) -> Message:
    """The result of a call by which an assistant spoke."""
    return Message(
        id=derived_id("message", message.id, "said", call.id),
        role="tool",
        content=SAID,
        name=call.name,
        tool_call_id=call.id,
        tool_status="success",
        hidden=True,
        created_at=message.created_at,
    )


def exported_message(
    message: Message, *, file_id: str, agent_file_id: str, model: str | None
) -> JsonObject:
    """A message of an agent with the ids that it and its agent have in the file. `model` is the one
    that the agent asks."""
    gated = any(call.gated for call in message.tool_calls)
    role = "summary" if message.summary is not None else "approval" if gated else message.role
    answers = message.content if message.role == "approval" else None
    returned = [tool_return(message)] if message.role == "tool" else []
    first_call = message.tool_calls[0].id if gated else None
    return {
        "type": "message",
        "otid": message.otid or otid_of(message.id, 0),
        "group_id": message.group_id,
        "role": role,
        "content": [*content_of(message)],
        "name": message.name,
        "sender_id": None,
        "batch_item_id": None,
        "id": file_id,
        "model": model if message.role in ("assistant", "system") else None,
        "agent_id": agent_file_id,
        "tool_calls": [tool_call(call.id, call.name, call.arguments) for call in message.tool_calls]
        or None,
        "tool_call_id": message.tool_call_id or first_call,
        "tool_returns": [*returned],
        "created_at": written_time(message.created_at),
        **approval_fields(answers),
    }


def approval_fields(answers: Json) -> JsonObject:
    """The client's answers to calls; its first answer stands in the deprecated fields, too."""
    given = (
        [answer for answer in answers or [] if isinstance(answer, dict)]
        if isinstance(answers, list)
        else []
    )
    first = next((answer for answer in given if "approve" in answer), {})
    return {
        "approve": first.get("approve"),
        "approval_request_id": first.get("tool_call_id"),
        "denial_reason": first.get("reason"),
        "approvals": [*given],
    }


def content_of(message: Message) -> list[JsonObject]:
    """The content parts of a message, with what its model thought first."""
    if message.role == "approval":
        return []
    if message.role == "tool":
        content = message.content
        return (
            parts_of(content) if isinstance(content, list) else [text_part(tool_envelope(message))]
        )
    return [*thoughts_of(message), *parts_of(message.content)]


def thoughts_of(message: Message) -> list[JsonObject]:
    """The reasoning of a message as content parts."""
    parts: list[JsonObject] = []
    for thought in message.thoughts:
        if thought.redacted is not None:
            parts.append({"type": "redacted_reasoning", "data": thought.redacted})
        elif thought.text:
            parts.append(
                {
                    "type": "reasoning",
                    "is_native": not message.inner_thoughts,
                    "reasoning": thought.text,
                    "signature": thought.signature,
                }
            )
        else:
            parts.append({"type": "omitted_reasoning", "signature": thought.signature})
    return parts


def parts_of(content: Json) -> list[JsonObject]:
    """A content as a list of parts."""
    if isinstance(content, list):
        return [
            {**part, "signature": part.get("signature")} if part.get("type") == "text" else part
            for part in content
            if isinstance(part, dict)
        ]
    return [text_part(str(content))] if content else []


def text_part(text: str) -> JsonObject:
    """Text as a content part."""
    return {"type": "text", "text": text, "signature": None}


def tool_call(call_id: str, name: str, arguments: str) -> Json:
    """A call of a tool as models write it."""
    return {
        "id": call_id,
        "function": {"arguments": arguments, "name": name},
        "type": "function",
    }


def tool_return(message: Message) -> JsonObject:
    """The result of a tool."""
    content = message.content
    return {
        "tool_call_id": message.tool_call_id,
        "status": message.tool_status or "success",
        "stdout": [*message.stdout] if message.stdout is not None else None,
        "stderr": [*message.stderr] if message.stderr is not None else None,
        "func_response": [*parts_of(content)]
        if isinstance(content, list)
        else tool_envelope(message),
    }


def tool_envelope(message: Message) -> str:
    """The result of a tool, in the wrapping that the retired server reads it from."""
    succeeded = (message.tool_status or "success") == "success"
    wrapped = {
        "status": "OK" if succeeded else "Failed",
        "message": "" if message.content is None else message.content,
        "time": f"{message.created_at.astimezone(UTC):%Y-%m-%d %I:%M:%S %p %Z%z}",
    }
    return json.dumps(wrapped, indent=2, ensure_ascii=False)


def written_time(moment: datetime) -> str:
    """A time as agent files write it: UTC with an offset and microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
