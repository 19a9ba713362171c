"""An event of an agent as clients read it: who caused it, by which run and call, and its gist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json, to_json

from libs.contracts.letta.agent_state import timestamp
from libs.contracts.sealed_text import FORM
from services.api.adapters.agents.agent_event_queries import RecordedEvent

GIST_CHARS_MAX = 200
SEALED_VALUE = re.compile(f'"{FORM}"'.encode(), re.ASCII)
NOT_SHOWN = b'"[sealed]"'

type Payload = dict[str, Any]


def events_document(events: Iterable[RecordedEvent], *, payloads: bool) -> bytes:
    """Events as a JSON array."""
    return b"[%b]" % b",".join(event_document(event, payloads=payloads) for event in events)


def event_document(event: RecordedEvent, *, payloads: bool) -> bytes:
    """An event as JSON; with its payload as it was recorded, but for sealed secrets."""
    payload: Payload = from_json(event.payload)
    cause = payload.get("cause") or {}
    metadata = event.metadata
    head = {
        "id": f"{event.aggregate_id}.{event.version}",
        "topic": event.topic,
        "service": event.service,
        "aggregate_id": event.aggregate_id,
        "version": event.version,
        "occurred_at": timestamp(event.occurred_at),
        "actor_id": metadata.get("actor") or None,
        "run_id": payload.get("run_id") or cause.get("run_id") or None,
        "step_id": payload.get("step_id") or None,
        "tool_call_id": tool_call_of(payload, cause),
        "tool_name": cause.get("tool") or payload.get("tool") or None,
        "request_id": metadata.get("correlation_id") or None,
        "command_id": metadata.get("command_id") or None,
        "import_id": metadata.get("import") or None,
        "erased_at": payload.get("erased_at"),
        "summary": summary_of(event.topic, payload),
    }
    if not payloads:
        return to_json(head)
    shown = SEALED_VALUE.sub(NOT_SHOWN, event.payload.encode())
    return b'%b,"payload":%b}' % (to_json(head)[:-1], shown)


def tool_call_of(payload: Payload, cause: Payload) -> str | None:
    """The call of a tool that an event is about, or that caused it."""
    message = payload.get("message")
    of_message = message.get("tool_call_id") if isinstance(message, dict) else None
    found = payload.get("tool_call_id") or cause.get("tool_call_id") or of_message
    return found if isinstance(found, str) else None


def summary_of(topic: str, payload: Payload) -> str:
    """An event in one line: its topic in words, and its gist where it has one."""
    gist = " ".join(gist_of(payload).split())
    if len(gist) > GIST_CHARS_MAX:
        gist = gist[: GIST_CHARS_MAX - 1] + "…"
    words = topic.replace(".", " ").replace("_", " ")
    return f"{words}: {gist}" if gist else words


def gist_of(payload: Payload) -> str:
    """The gist of a payload."""
    match payload:
        case {"message": {"role": _} as message} | {"messages": [*_, {"role": _} as message]}:
            return message_gist(message)
        case {"block": {"label": label, "value": value}}:
            return f"{label}: {value}"
        case {"changes": dict() as changes}:
            return ", ".join(f"{name}: {text_of(value)}" for name, value in changes.items())
        case {"changed": [*names]}:
            return ", ".join(map(str, names))
        case {"config": {"name": str() as name}} | {"tool": {"name": str() as name}}:
            return name
        case {"folder": {"name": str() as name}}:
            return name
        case {"configuration": {"file": str() as file, "problems": [*problems]}}:
            return configuration_gist(file, problems)
        case {"calls": [*calls]}:
            return ", ".join(str(call.get("tool", "")) for call in calls if isinstance(call, dict))
        case {"tool_calls": [_, *_] as calls}:
            return ", ".join(str(call.get("name", "")) for call in calls if isinstance(call, dict))
    return short_gist(payload)


def configuration_gist(file: str, problems: list[Payload]) -> str:
    """The file of an agent in a line: where it stands, and the first error in it."""
    first = next((problem for problem in problems if problem["severity"] == "error"), None)
    if first is None:
        return file
    line = f":{first['line']}" if first.get("line") else ""
    return f"{first.get('file') or file}{line}: {first['message']}"


# The fields that say most of a payload, the best first.
GIST_FIELDS = (
    "tool", "status", "reason", "text", "name", "block_id", "folder_id", "archive_id",
    "stop_reason", "error_type", "finish_reason", "agent_id", "run_ids", "message_ids",
)  # fmt: skip


def short_gist(payload: Payload) -> str:
    """The field that says most of a payload; empty where it has none."""
    return next((text_of(payload[name]) for name in GIST_FIELDS if payload.get(name)), "")


def message_gist(message: Payload) -> str:
    """A message in a line: who says what, or which tools it calls."""
    role = message["role"]
    said = text_of(message.get("content"))
    calls = ", ".join(str(call.get("name", "")) for call in message.get("tool_calls") or [])
    return f"{role}: {said}" if said or not calls else f"{role} calls {calls}"


def text_of(value: object) -> str:
    """A value of a payload as words; of parts of a message their texts."""
    match value:
        case str():
            return value
        case None:
            return ""
        case [{"type": _}, *_]:
            return " ".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return to_json(value).decode()
