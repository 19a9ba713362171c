"""The chunks of a run stream, and the numbers that clients receive them under.

Number 1 is the ping that opens every stream. After it each V1 message of the run's answer has a
number of its own, or, where tokens stream, each chunk of one. The kinds and lengths of the chunks
are kept with the message, so that the history alone gives the same stream again, to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from libs.contracts.bus_messages import JsonObject

OPENING_NUMBER = 1
# Where a step is taken over by another process, its numbers begin beyond all that the first may
# have used for chunks of an answer that is lost: at the epoch of the lease, times this.
NUMBERS_OF_AN_EPOCH = 1_000_000
NUMBER_MAX = 2**53 - 1  # what a JavaScript client can count to

ChunkKind = Literal[
    "reasoning", "signature", "text", "name", "arguments", "gated_name", "gated_arguments", "whole"
]

# A kind and how many characters: of the reasoning, the text, or the arguments of the call whose
# name came last. A `name` comes in one. The calls that wait for the client are counted by
# themselves. Of a `signature`, and of a message that is sent `whole`, the number is the place of
# the V1 message.
Chunk = tuple[ChunkKind, int]


# The V1 messages that chunks of calls belong to.
CALLS: Mapping[str, str] = {
    "name": "tool_call_message",
    "arguments": "tool_call_message",
    "gated_name": "approval_request_message",
    "gated_arguments": "approval_request_message",
}


def reasoning_chunk(message: JsonObject, text: str, *, signature: str | None = None) -> JsonObject:
    """A chunk of a `reasoning_message`."""
    return {**message, "reasoning": text, "signature": signature}


def text_chunk(message: JsonObject, text: str) -> JsonObject:
    """A chunk of an `assistant_message`."""
    return {**message, "content": text}


def call_chunk(message: JsonObject, call: JsonObject, **part: object) -> JsonObject:
    """A chunk of a call: what this chunk lacks is left out, and `tool_calls` is no list."""
    delta: JsonObject = {**part, "tool_call_id": call["tool_call_id"]}  # type: ignore[dict-item]
    return {**message, "tool_call": delta, "tool_calls": delta}
