"""An answer in pieces: told live and told again from the history, it is the same to the byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.agent.conversations import Message, ReasoningPart, ToolCall
from libs.contracts.agent.stored_to_letta_messages import assistant_parts
from libs.contracts.agent.stream_chunks import streamed_messages
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.messages import Envelope
from services.agent.adapters.models.ports import (
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.engine.stream_chunk_building import StepChunks
from tests.unit.given import NOW

ENVELOPE = Envelope(
    id="message-11111111-1111-4111-8111-111111111180", date=NOW, run_id="run-1", step_id="step-1"
)
texts = st.text(max_size=30)
calls = st.lists(
    st.builds(ToolCall, id=st.uuids().map(str), name=texts, arguments=texts), max_size=3
)


def cut(data: st.DataObject, text: str) -> list[str]:
    """A text in some pieces, none of them empty."""
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


def deltas(data: st.DataObject, message: Message) -> list[ModelDelta]:
    """The message as a provider gives it, piece by piece."""
    thoughts = "".join(model_thought.text for model_thought in message.thoughts)
    pieces: list[ModelDelta] = [ReasoningDelta(text) for text in cut(data, thoughts)]
    pieces += [TextDelta(text) for text in cut(data, str(message.content or ""))]
    for call in message.tool_calls:
        pieces.append(ToolCallDelta(call.id, call.name))
        pieces += [ToolCallDelta(call.id, None, text) for text in cut(data, call.arguments)]
    return pieces


def said(**fields: Any) -> Message:
    return Message(id=ENVELOPE.id, role="assistant", created_at=NOW, **fields)


thought = st.one_of(
    st.builds(ReasoningPart, text=texts.filter(bool), signature=texts.filter(bool)),
    st.builds(ReasoningPart, redacted=texts.filter(bool)),
)
messages = st.builds(
    said,
    reasoning_parts=st.lists(thought, max_size=3),
    content=texts.map(lambda text: text or None),
    tool_calls=calls,
)


@given(data=st.data(), message=messages, heard=st.integers(0, 20))
def test_what_was_told_live_is_what_the_history_tells(
    data: st.DataObject, message: Message, heard: int
) -> None:
    messages = assistant_parts(message, ENVELOPE)
    step = StepChunks(ENVELOPE, parallel=True)
    live: list[JsonObject] = []
    for delta in deltas(data, message)[:heard]:
        live += step.of(delta)
    live += step.rest(messages)
    assert live == streamed_messages(messages, step.chunks)
    assert len(live) == len(step.chunks)
    assert joined(live, "reasoning") == "".join(
        model_thought.text for model_thought in message.thoughts
    )
    signatures = [chunk["signature"] for chunk in live if chunk.get("signature")]
    assert signatures == [
        model_thought.signature for model_thought in message.thoughts if model_thought.signature
    ]
    hidden = [chunk for chunk in live if chunk["message_type"] == "hidden_reasoning_message"]
    assert hidden == [
        message for message in messages if message["message_type"] == "hidden_reasoning_message"
    ]
    assert joined(live, "content") == (message.content or "")
    for call in message.tool_calls:
        mine = [chunk["tool_calls"] for chunk in live if called(chunk) == call.id]
        assert mine[0] == {"name": call.name, "tool_call_id": call.id}
        assert "".join(call["arguments"] for call in mine[1:]) == call.arguments


def test_a_call_that_is_not_carried_out_is_not_told() -> None:
    step = StepChunks(ENVELOPE, parallel=False)
    assert step.of(ToolCallDelta("call_1", "look"))
    assert step.of(ToolCallDelta("call_1", None, "{}"))
    assert step.of(ToolCallDelta("call_2", "look")) == []
    assert step.of(ToolCallDelta("call_2", None, "{}")) == []
    assert step.chunks == [("name", 0), ("arguments", 2)]


def test_the_parts_of_a_message_have_the_otids_of_its_history() -> None:
    message = said(
        reasoning="Hm", content="Hi", tool_calls=[ToolCall(id="c", name="look", arguments="{}")]
    )
    step = StepChunks(ENVELOPE, parallel=True)
    live = [
        *step.of(ReasoningDelta("Hm")),
        *step.of(TextDelta("Hi")),
        *step.of(ToolCallDelta("c", "look")),
    ]
    history = assistant_parts(message, ENVELOPE)
    assert [chunk["otid"] for chunk in live] == [chunk["otid"] for chunk in history]


def joined(messages: list[JsonObject], key: str) -> str:
    return "".join(str(message[key]) for message in messages if key in message)


def called(message: JsonObject) -> Any:
    calls = message.get("tool_calls")
    return calls["tool_call_id"] if isinstance(calls, dict) else None
