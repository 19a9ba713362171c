"""Answers as stand-ins for providers give them."""

from __future__ import annotations

from typing import Any

from services.agent.adapters.models.anthropic_provider import AnthropicProvider
from services.agent.adapters.models.http_provider import HttpProvider
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.transport import Refused
from tests.unit.agent.asking import RawWire


def openai(*answers: bytes | Refused, chunk_bytes: int = 2**16) -> HttpProvider:
    provider = OpenAIProvider("k", "http://model/v1")
    provider.wire = RawWire(*answers, chunk_bytes=chunk_bytes)
    return provider


def claude(*answers: bytes | Refused, chunk_bytes: int = 2**16) -> HttpProvider:
    provider = AnthropicProvider("k", "http://model")
    provider.wire = RawWire(*answers, chunk_bytes=chunk_bytes)
    return provider


CLAUDE = {
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4},
}


def claude_events() -> list[Any]:
    """The same answer in events, as Anthropic sends it."""
    thinking, text, call = CLAUDE["content"]  # type: ignore[misc]
    events: list[Any] = [{"type": "message_start", "message": {"usage": {"input_tokens": 3}}}]
    for index, (block, deltas) in enumerate(
        [
            (
                {"type": "thinking", "thinking": ""},
                [
                    {"type": "thinking_delta", "thinking": thinking["thinking"]},
                    {"type": "signature_delta", "signature": thinking["signature"]},
                ],
            ),
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": text["text"]}]),
            (
                {**call, "input": {}},
                [
                    {"type": "input_json_delta", "partial_json": part}
                    for part in ("", '{"a"', ": 1}")
                ],
            ),
        ]
    ):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use"}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 4}})
    return [*events, {"type": "message_stop"}]
