"""Events that are large: what is large in them stays in the log, and a reference is published.

A field that is a reference is `{"$ref": {"log": "agent.event_log", "position": 123, "field":
"config", "bytes": 734003}}`: whoever wants it reads that row of the log. A header names the fields,
so that nobody has to look for them. Our own consumers read the log anyway.
"""

from __future__ import annotations

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.eventstore.ports import StoredEvent

EVENT_BYTES_MAX = 512 * 1024
WHOLE = "*"  # stands for the whole payload where fields are named


def published_payload(
    service: str, event: StoredEvent, bytes_max: int = EVENT_BYTES_MAX
) -> tuple[bytes, list[str]]:
    """The payload of an event as it is published, and the names of its fields that are references;
    `*` is the whole payload, if what is left of it is still too large."""
    whole = event.payload_json.encode()
    if len(whole) <= bytes_max:
        return whole, []
    fields = {name: to_json(value) for name, value in event.payload.items()}
    referred: list[str] = []
    total = len(whole)
    for name in sorted(fields, key=lambda field: len(fields[field]), reverse=True):
        if total <= bytes_max:
            break
        there = to_json(reference(service, event, len(fields[name]), name))
        total += len(there) - len(fields[name])
        fields[name] = there
        referred.append(name)
    if total > bytes_max:
        return to_json(reference(service, event, len(whole))), [WHOLE]
    return b"{" + b",".join(to_json(name) + b":" + fields[name] for name in fields) + b"}", referred


def reference(
    service: str, event: StoredEvent, bytes_there: int, field: str | None = None
) -> JsonObject:
    """Where something of an event stands, and how large it is as JSON."""
    at: dict[str, Json] = {"log": f"{service}.event_log", "position": event.position}
    if field is not None:
        at["field"] = field
    return {"$ref": {**at, "bytes": bytes_there}}
