"""Replies whose calls are read while they come: what clients received is what is recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.agent.conversations import ReasoningPart, ToolCall, Usage
from libs.contracts.agent.stored_to_letta_messages import assistant_parts
from libs.contracts.agent.stream_chunks import streamed_messages
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.messages import Envelope
from services.agent.adapters.models.ports import (
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.approval_state import Gate, gates
from services.agent.domain.runs.agent_loop import AgentLoop, OfferedTools
from services.agent.domain.runs.agent_loops import HEARTBEAT_LOOP, LETTA_V1_LOOP
from services.agent.domain.runs.reply_interpretation import NO_ROOM, ONLY_THOUGHTS
from services.agent.domain.runs.step_results import ModelReply, Spoken, kept_calls, spoken_message
from services.agent.engine.model_step import ReplyStream
from services.agent.engine.stream_chunk_building import StepChunks
from tests.contract.examples import RUN_CONFIG
from tests.unit.given import NOW

ENVELOPE = Envelope(id="message-11111111-1111-4111-8111-111111111180", date=NOW)
TOOLS = ("send_message", "keep", "look")
SCHEMAS: list[JsonObject] = [{"name": name} for name in TOOLS]
PREFILLED: dict[str, JsonObject] = {"keep": {"content": "tea"}}

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=9)
values = texts | st.integers(0, 9) | st.booleans() | st.none()
arguments = st.dictionaries(
    st.sampled_from(["message", "content", "thinking", "request_heartbeat"]), values, max_size=4
)
written = st.builds(json.dumps, arguments, ensure_ascii=st.booleans())
broken = st.tuples(written, st.integers(0, 40)).map(lambda cut: cut[0][: cut[1]])
reasoning = st.sampled_from([(), ("Hm",), ("Hm", "so")])


@st.composite
def replies(draw: st.DrawFn) -> tuple[ModelReply, list[ModelDelta]]:
    """A reply, and how it came: thoughts, words and calls in some order, a call in one go."""
    names = draw(st.lists(st.sampled_from([*TOOLS, "unknown"]), max_size=3))
    calls = [
        ToolCall(id=f"call_{n}", name=name, arguments=draw(st.one_of(written, broken)))
        for n, name in enumerate(names)
    ]
    thoughts, said = "".join(draw(reasoning)), draw(texts)
    spans: list[list[ModelDelta]] = [
        [ToolCallDelta(call.id, call.name), *map_pieces(draw, call)] for call in calls
    ]
    for delta in [ReasoningDelta(thoughts)] * bool(thoughts) + [TextDelta(said)] * bool(said):
        spans.insert(draw(st.integers(0, len(spans))), [delta])
    parts = [ReasoningPart(redacted="x")] if draw(st.booleans()) else []
    if thoughts and parts:
        parts.append(ReasoningPart(text=thoughts, signature="s"))
    reply = ModelReply(
        said, calls, "stop", Usage(), reasoning=thoughts or None, reasoning_parts=parts
    )
    return reply, [delta for span in spans for delta in span]


def map_pieces(draw: st.DrawFn, call: ToolCall) -> list[ModelDelta]:
    size = draw(st.integers(1, 12))
    text = call.arguments
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    return [ToolCallDelta(call.id, arguments=text) for text in cut]


def run_of(agent_type: AgentType, gated: str, **fields: Any) -> ActiveRun:
    config = RUN_CONFIG.model_copy(update=fields)
    gate = Gate(approvals=[gated]) if gated else None
    return ActiveRun(run=config, max_steps=9, agent_type=agent_type, started_at=NOW, gate=gate)


def ways(loop: AgentLoop, parallel: bool, prefills: bool) -> OfferedTools:
    heartbeats = loop is HEARTBEAT_LOOP
    return OfferedTools(
        SCHEMAS, parallel and not heartbeats,
        prefilled=PREFILLED if prefills else {}, holds_text=heartbeats,
    )  # fmt: skip


@given(
    asked=replies(),
    older=st.booleans(),
    parallel=st.booleans(),
    prefills=st.booleans(),
    gated=st.sampled_from(["", "", "send_message", "keep"]),
    speaker=st.sampled_from([("send_message", "message"), ("keep", "content"), ("no", "message")]),
    shows_words=st.booleans(),
    heard=st.integers(0, 99),
)
def test_what_was_sent_is_what_the_history_sends_again(
    asked: tuple[ModelReply, list[ModelDelta]],
    older: bool,
    parallel: bool,
    prefills: bool,
    gated: str,
    speaker: tuple[str, str],
    shows_words: bool,
    heard: int,
) -> None:
    reply, deltas = asked
    loop = HEARTBEAT_LOOP if older else LETTA_V1_LOOP
    kind = AgentType.memgpt_v2_agent if older else AgentType.letta_v1_agent
    name, kwarg = speaker
    run = run_of(
        kind, gated, use_assistant_message=shows_words, assistant_message_tool_name=name,
        assistant_message_tool_kwarg=kwarg,
    )  # fmt: skip
    offered = ways(loop, parallel, prefills)
    held = gates(run.gate, [], "step-1", None)
    step = StepChunks(ENVELOPE, parallel=offered.parallel, gates=held)
    readers = loop.call_readers(run, offered)
    stream = None
    if not readers.plain:
        stream = ReplyStream(readers, parallel=offered.parallel, holds_text=offered.holds_text)
    live: list[JsonObject] = []
    for delta in deltas[:heard]:
        for part in [delta] if stream is None else stream.of(delta):
            live += step.of(part)
    recorded = loop.interpret(reply, run, offered, readers)
    calls = [
        held.mark_gated(kept_call) for kept_call in kept_calls(recorded, parallel=offered.parallel)
    ]
    message = spoken_message(Spoken(ENVELOPE.id, NOW), recorded, calls)
    messages = assistant_parts(message, ENVELOPE)
    live += step.rest(messages)

    assert live == streamed_messages(messages, step.chunks)
    words = [
        message["content"] for message in messages if message["message_type"] == "assistant_message"
    ]
    sent = [chunk["content"] for chunk in live if chunk["message_type"] == "assistant_message"]
    assert "".join(map(str, sent)) == "".join(map(str, words))
    for message in messages:
        if message["message_type"] in ("tool_call_message", "approval_request_message"):
            for call in message["tool_calls"]:  # type: ignore[union-attr]
                mine = [chunk["tool_calls"] for chunk in live if is_about(chunk, call)]
                assert "".join(call.get("arguments", "") for call in mine) == call["arguments"]  # type: ignore[index,call-overload,union-attr,misc]
    if not readers.native or heard >= len(deltas):
        whole = loop.interpret(reply, run, offered)
        assert [tool_call.arguments for tool_call in whole.tool_calls] == [
            tool_call.arguments for tool_call in recorded.tool_calls
        ]


def is_about(message: JsonObject, call: Any) -> bool:
    """Whether a chunk is of this call."""
    calls = message.get("tool_calls")
    return isinstance(calls, dict) and calls["tool_call_id"] == call["tool_call_id"]


def test_text_behind_words_that_were_sent_stands_behind_them_in_the_history() -> None:
    run, offered = run_of(AgentType.letta_v1_agent, ""), ways(LETTA_V1_LOOP, True, False)
    readers = LETTA_V1_LOOP.call_readers(run, offered)
    stream = ReplyStream(readers, parallel=True, holds_text=False)
    call = ToolCall(id="call_1", name="send_message", arguments='{"message": "First"}')
    deltas = [
        ToolCallDelta(call.id, call.name),
        ToolCallDelta(call.id, arguments=call.arguments),
        TextDelta("then"),
    ]
    assert [text_delta for delta in deltas for text_delta in stream.of(delta)] == [
        TextDelta("First")
    ]
    reply = ModelReply("then", [call], "stop", Usage())
    recorded = LETTA_V1_LOOP.interpret(reply, run, offered, readers)
    message = spoken_message(Spoken(ENVELOPE.id, NOW), recorded, recorded.tool_calls)
    messages = assistant_parts(message, ENVELOPE)
    assert [message["content"] for message in messages] == ["First", "then"]
    untouched = replace(reply, tool_calls=[call])
    assert LETTA_V1_LOOP.interpret(untouched, run, offered).tool_calls[0].said_first is False


@pytest.mark.parametrize("loop", [LETTA_V1_LOOP, HEARTBEAT_LOOP])
@pytest.mark.parametrize(
    ("thoughts", "ended", "words"),
    [
        ({"reasoning": "Hm."}, "stop", ONLY_THOUGHTS),
        ({"reasoning_parts": [ReasoningPart(redacted="x")]}, "stop", ONLY_THOUGHTS),
        ({"reasoning": "Hm."}, "length", NO_ROOM),
        ({}, "stop", ""),
    ],
)
def test_an_answer_that_is_only_thoughts_has_a_line_for_the_user(
    loop: AgentLoop, thoughts: Any, ended: str, words: str
) -> None:
    run, offered = run_of(AgentType.letta_v1_agent, ""), ways(loop, True, False)
    reply = ModelReply("", [], ended, Usage(), **thoughts)
    assert loop.interpret(reply, run, offered).text == words
