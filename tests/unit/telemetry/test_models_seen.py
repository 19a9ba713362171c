"""What traces and counters see of a model, and what they only see if asked to."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from libs.contracts.agent.conversations import ToolCall, Usage
from libs.telemetry.metrics import REGISTRY
from libs.telemetry.settings import trace_service
from services.agent.adapters.models.model_telemetry import ObservedProvider
from services.agent.adapters.models.ports import Finished, ModelEvent, ModelFailed, TextDelta
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.clock_and_ids import ManualClock
from tests.collector import Collector
from tests.contract.examples import CONFIG, message

CALL = ToolCall(id="call-1", name="memory_insert", arguments='{"label": "human"}')
USAGE = Usage(prompt_tokens=7, completion_tokens=3)
REPLY = ModelReply("Noted", [CALL], "tool_calls", USAGE)
REQUEST = ModelRequest(
    config=CONFIG, messages=[message(2, role="user", content="Hi")], tools=[], parallel=False
)
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}


class Scripted:
    """A provider that gives these events, or fails."""

    def __init__(self, *events: ModelEvent | ModelFailed) -> None:
        self.name = "scripted"
        self.events = events

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for event in self.events:
            if isinstance(event, ModelFailed):
                raise event
            yield event


def calls(outcome: str) -> float:
    labels = {"provider": "scripted", "model": CONFIG.llm_config.model, "outcome": outcome}
    return REGISTRY.get_sample_value("heeler_model_calls_total", labels) or 0.0


async def asked(
    scripted: Scripted, environment: dict[str, str]
) -> tuple[list[ModelEvent], dict[str, Any]]:
    """What comes of asking, and the attributes of the span."""
    with Collector() as collector:
        with trace_service(
            "agent", {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, **environment}
        ):
            provider = ObservedProvider(scripted, ManualClock())
            try:
                events = [event async for event in provider.stream(REQUEST)]
            except ModelFailed:
                events = []
        [span] = collector.spans
    assert span.name == f"chat {CONFIG.llm_config.model}"
    return events, span.attributes


async def test_an_answer_passes_through_and_is_counted() -> None:
    before = calls("answered")
    events = [TextDelta("Noted"), Finished(REPLY)]
    passed, seen = await asked(Scripted(*events), {})
    assert passed == events
    assert calls("answered") == before + 1
    assert (seen["gen_ai.usage.input_tokens"], seen["gen_ai.usage.output_tokens"]) == (7, 3)
    assert "gen_ai.input.messages" not in seen
    assert "gen_ai.output.messages" not in seen


async def test_what_is_said_is_shown_to_whoever_asks_for_it() -> None:
    _, seen = await asked(Scripted(Finished(REPLY)), CONTENT)
    [question] = json.loads(seen["gen_ai.input.messages"])
    assert question["role"] == "user"
    assert question["parts"][0]["type"] == "text"
    assert json.loads(seen["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Noted"},
                {
                    "type": "tool_call",
                    "id": "call-1",
                    "name": "memory_insert",
                    "arguments": '{"label": "human"}',
                },
            ],
            "finish_reason": "tool_calls",
        }
    ]


@pytest.mark.parametrize("kind", ["llm_timeout", "llm_rate_limit"])
async def test_a_failure_is_counted_by_its_kind(kind: str) -> None:
    before = calls(kind)
    _, seen = await asked(Scripted(ModelFailed(Failure(kind, "late"))), {})
    assert calls(kind) == before + 1
    assert seen["error.type"] == kind


async def test_whoever_stops_reading_abandons_the_call() -> None:
    before = calls("abandoned")
    provider = ObservedProvider(Scripted(TextDelta("No"), Finished(REPLY)), ManualClock())
    stream = provider.stream(REQUEST)
    assert await anext(stream) == TextDelta("No")
    await stream.aclose()
    assert calls("abandoned") == before + 1
