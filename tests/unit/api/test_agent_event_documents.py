"""An event of an agent as clients read it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.bus_messages import Event
from services.api.adapters.agents.agent_event_queries import RecordedEvent
from services.api.v1.agent_event_documents import GIST_CHARS_MAX, event_document, summary_of
from tests.contract.examples import EVENTS

META = {"actor": "user-1", "correlation_id": "request-1", "command_id": "cmd-1"}


def shown(payload: str, topic: str = "block.changed", *, payloads: bool = False) -> dict[str, Any]:
    event = RecordedEvent(
        "memory", "block-1", 7, topic, "block-1", datetime(2026, 1, 1, tzinfo=UTC), META, payload
    )
    document: dict[str, Any] = json.loads(event_document(event, payloads=payloads))
    return document


def test_an_event_says_who_caused_it_by_which_run_and_call() -> None:
    cause = {"agent_id": "agent-1", "run_id": "run-1", "tool_call_id": "call-1", "tool": "edit"}

    event = shown(json.dumps({"changes": {"value": "tea"}, "cause": cause}))

    assert event["id"] == "block-1.7"
    assert (event["actor_id"], event["request_id"], event["command_id"]) == tuple(META.values())
    assert (event["run_id"], event["tool_call_id"], event["tool_name"]) == (
        *("run-1", "call-1", "edit"),
    )
    assert event["summary"] == "block changed: value: tea"
    assert "payload" not in event


def test_an_erased_event_keeps_what_it_was() -> None:
    event = shown('{"erased_at": "2026-02-01T00:00:00+00:00"}', payloads=True)

    assert event["erased_at"] == "2026-02-01T00:00:00+00:00"
    assert event["summary"] == "block changed"


def test_sealed_values_are_left_out_wherever_they_stand() -> None:
    event = shown('{"a": "sealed:abc_-=", "b": ["sealed:x", "unsealed:y"]}', payloads=True)

    assert event["payload"] == {"a": "[sealed]", "b": ["[sealed]", "unsealed:y"]}


@pytest.mark.parametrize("example", EVENTS, ids=lambda example: type(example).__name__)
def test_every_event_has_a_short_summary(example: Event) -> None:
    summary = summary_of(example.topic, json.loads(example.payload_json()))

    assert summary.startswith(example.topic.replace(".", " ").replace("_", " "))
    assert len(summary) <= len(example.topic) + 2 + GIST_CHARS_MAX
    assert "\n" not in summary
