"""The shared state of a group: how a write changes it, how large it may be, how members read it."""

from __future__ import annotations

import json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.groups.groups import SHARED_STATE_BYTES_MAX
from libs.contracts.state_size_limits import size

STATE_DEPTH_MAX = 32


def merge_patch(document: JsonObject, patch: JsonObject) -> JsonObject:
    """The document after a merge patch (RFC 7396): objects are merged key by key, null removes a
    key, any other value replaces what was there."""
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = merge_patch(before if isinstance(before, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def problem_of(state: JsonObject) -> str | None:
    """Why a document cannot be the shared state of a group, if so."""
    total = size(state)
    if total > SHARED_STATE_BYTES_MAX:
        return (
            f"The shared state may have at most {SHARED_STATE_BYTES_MAX} bytes as JSON, and this"
            f" would have {total}: remove keys (null removes one), or shorten their values"
        )
    if depth(state) > STATE_DEPTH_MAX:
        return f"The shared state may have at most {STATE_DEPTH_MAX} levels: nest less deeply"
    return None


def depth(value: Json) -> int:
    """How many levels a JSON value has; it is no deeper than a body may be."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((depth(part) for part in below), default=0)


def render(state: JsonObject) -> str:
    """The shared state as a member's prompt shows it; empty where there is nothing in it. No text
    in it can end the section early."""
    if not state:
        return ""
    text = json.dumps(state, ensure_ascii=False, indent=1, sort_keys=True).replace("<", "\\u003c")
    return f"<shared_state>\n{text}\n</shared_state>"
