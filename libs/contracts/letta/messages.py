"""Builders of the messages that clients are served, in full and as token deltas.

Keys and their order are the recorded ones. Ids, times and otids come from the caller.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import MessageType

OTID_PART_BITS = 7

type ReturnStatus = Literal["success", "error"]


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """The fields of every message, whatever its type."""

    id: str
    date: datetime
    otid: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    seq_id: int | None = None
    sender_id: str | None = None
    name: str | None = None
    is_err: bool | None = None
    group_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call of a tool; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class ToolReturned:
    """The result of one call of a tool."""

    tool_call_id: str
    content: str | list[JsonValue]
    status: ReturnStatus = "success"
    stdout: Sequence[str] | None = None
    stderr: Sequence[str] | None = None


def message_date(moment: datetime) -> str:
    """A message's time as the API writes it: UTC, whole seconds, offset `+00:00`."""
    assert moment.tzinfo is not None, "a message's date needs a time zone"
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def otid_of(message_id: str, part_index: int) -> str:
    """The otid of one part of a stored message: its uuid, the low 7 bits the part's index."""
    assert 0 <= part_index < 1 << OTID_PART_BITS, f"part {part_index} does not fit an otid"
    uuid = message_id.removeprefix("message-")
    low = int(uuid[-2:], 16) & (1 << OTID_PART_BITS) | part_index
    return f"{uuid[:-2]}{low:02x}"


def system_message(envelope: Envelope, content: str) -> JsonObject:
    return {**_common(envelope, "system_message"), "content": content}


def user_message(envelope: Envelope, content: JsonValue) -> JsonObject:
    """`content` is text or a list of content parts."""
    return {**_common(envelope, "user_message"), "content": content}


def assistant_message(envelope: Envelope, content: JsonValue) -> JsonObject:
    """`content` is text (a delta while streaming tokens) or a list of text parts."""
    return {**_common(envelope, "assistant_message"), "content": content}


def reasoning_message(
    envelope: Envelope,
    reasoning: str,
    *,
    native: bool = True,
    signature: str | None = None,
) -> JsonObject:
    """`native` says whether a reasoning model wrote it, rather than a tool argument."""
    return {
        **_common(envelope, "reasoning_message"),
        "source": "reasoner_model" if native else "non_reasoner_model",
        "reasoning": reasoning,
        "signature": signature,
    }


def hidden_reasoning_message(
    envelope: Envelope, state: Literal["redacted", "omitted"], hidden: str | None = None
) -> JsonObject:
    common = _common(envelope, "hidden_reasoning_message")
    return {**common, "state": state, "hidden_reasoning": hidden}


def tool_call_message(envelope: Envelope, calls: Sequence[ToolCall]) -> JsonObject:
    """The deprecated `tool_call` repeats the first of `tool_calls`."""
    return {**_common(envelope, "tool_call_message"), **_calls(calls)}


def tool_return_message(envelope: Envelope, returns: Sequence[ToolReturned]) -> JsonObject:
    """The deprecated top-level fields repeat the first of `tool_returns`, its words alone."""
    listed = [_returned(each_return) for each_return in returns]
    deprecated = {key: value for key, value in listed[0].items() if key != "type"}
    deprecated["tool_return"] = _words(returns[0].content)
    common = _common(envelope, "tool_return_message")
    return {**common, **deprecated, "tool_returns": [*listed]}


def approval_request_message(envelope: Envelope, calls: Sequence[ToolCall]) -> JsonObject:
    return {**_common(envelope, "approval_request_message"), **_calls(calls)}


def approval_response_message(
    envelope: Envelope,
    approvals: Sequence[Mapping[str, JsonValue]],
    *,
    approve: bool | None = None,
    approval_request_id: str | None = None,
    reason: str | None = None,
) -> JsonObject:
    """`approvals` are the answers in the form of the request; the rest is deprecated."""
    return {
        **_common(envelope, "approval_response_message"),
        "approvals": [dict(approval) for approval in approvals],
        "approve": approve,
        "approval_request_id": approval_request_id,
        "reason": reason,
    }


def summary_message(
    envelope: Envelope, summary: str, stats: Mapping[str, JsonValue] | None = None
) -> JsonObject:
    compaction_stats = None if stats is None else dict(stats)
    common = _common(envelope, "summary_message")
    return {**common, "summary": summary, "compaction_stats": compaction_stats}


def event_message(envelope: Envelope, event_data: Mapping[str, JsonValue]) -> JsonObject:
    common = _common(envelope, "event_message")
    return {**common, "event_type": "compaction", "event_data": dict(event_data)}


def only_types(
    messages: Iterable[JsonObject], types: Sequence[MessageType] | None
) -> list[JsonObject]:
    """The messages that `include_return_message_types` asks for: None asks for all."""
    if types is None:
        return list(messages)
    return [message for message in messages if message["message_type"] in types]


def _common(envelope: Envelope, message_type: str) -> JsonObject:
    of_group: JsonObject = {"group_id": envelope.group_id} if envelope.group_id else {}
    return {
        "id": envelope.id,
        "date": message_date(envelope.date),
        "name": envelope.name,
        "message_type": message_type,
        "otid": envelope.otid,
        "sender_id": envelope.sender_id,
        "step_id": envelope.step_id,
        "is_err": envelope.is_err,
        "seq_id": envelope.seq_id,
        "run_id": envelope.run_id,
        **of_group,
    }


def _calls(calls: Sequence[ToolCall]) -> JsonObject:
    assert calls, "a message about tool calls has at least one"
    listed: list[JsonObject] = [
        {"name": call.name, "arguments": call.arguments, "tool_call_id": call.id} for call in calls
    ]
    return {"tool_call": dict(listed[0]), "tool_calls": [*listed]}


def _words(content: str | list[JsonValue]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part["text"]) for part in content if isinstance(part, dict) and "text" in part
    )


def _returned(returned: ToolReturned) -> JsonObject:
    return {
        "type": "tool",
        "tool_return": returned.content,
        "status": returned.status,
        "tool_call_id": returned.tool_call_id,
        "stdout": None if returned.stdout is None else [*returned.stdout],
        "stderr": None if returned.stderr is None else [*returned.stderr],
    }
