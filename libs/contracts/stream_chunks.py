"""The chunks of a run stream, and the numbers that clients receive them under.

Number 1 is the ping that opens every stream. After it each V1 message of the run's answer has a
number of its own, or, where tokens stream, each chunk of one. The kinds and lengths of the chunks
are kept with the message, so that the history alone gives the same stream again, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.messages import otid_of

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


def streamed_docs(docs: Sequence[JsonObject], chunks: Sequence[Chunk] | None) -> list[JsonObject]:
    """What clients receive of a stored message that is served as `docs`: these, or the chunks
    that they were streamed in."""
    return [*docs] if chunks is None else [*StreamedMessages(docs).cut_into(chunks)]


class StreamedMessages:
    """The V1 messages of one stored message, cut into the chunks that they came in.

    Thoughts that come in several stretches are sent as one message, since a model does not say
    where one ends; the otids of the chunks count the messages that are sent.
    """

    def __init__(self, docs: Sequence[JsonObject]) -> None:
        self.docs = docs
        self.begun: dict[str, JsonObject] = {}
        self.thoughts = "".join(thoughts(docs))
        self.position = {"reasoning": 0, "text": 0, "arguments": 0, "gated_arguments": 0}
        self.call = {"tool_call_message": -1, "approval_request_message": -1}

    def cut_into(self, chunks: Sequence[Chunk]) -> Iterator[JsonObject]:
        """One document for each chunk."""
        for kind, length in chunks:
            match kind:
                case "reasoning":
                    doc = self.message("reasoning_message")
                    yield reasoning_chunk(doc, self.cut(kind, self.thoughts, length))
                case "signature":
                    doc = self.docs[length]
                    yield reasoning_chunk(doc, "", signature=str(doc["signature"]))
                case "text":
                    doc = self.message("assistant_message")
                    yield text_chunk(doc, self.cut(kind, doc["content"], length))
                case "name" | "gated_name":
                    self.call[CALLS[kind]] += 1
                    self.position[kind.replace("name", "arguments")] = 0
                    doc, call = self.called(CALLS[kind])
                    yield call_chunk(doc, call, name=call["name"])
                case "arguments" | "gated_arguments":
                    doc, call = self.called(CALLS[kind])
                    yield call_chunk(doc, call, arguments=self.cut(kind, call["arguments"], length))
                case "whole":
                    yield self.docs[length]

    def message(self, message_type: str) -> JsonObject:
        """The message that a chunk belongs to."""
        if message_type not in self.begun:
            doc = next(doc for doc in self.docs if doc["message_type"] == message_type)
            otid = otid_of(str(doc["id"]), len(self.begun))
            self.begun[message_type] = {**doc, "otid": otid}
        return self.begun[message_type]

    def cut(self, kind: str, whole: object, length: int) -> str:
        """The next characters of a text."""
        start = self.position[kind]
        self.position[kind] = start + length
        return str(whole)[start : start + length]

    def called(self, message_type: str) -> tuple[JsonObject, JsonObject]:
        """A message about tool calls, and the call that chunks are about now."""
        doc = self.message(message_type)
        calls = doc["tool_calls"]
        assert isinstance(calls, list), "a whole message lists its calls"
        call = calls[self.call[message_type]]
        assert isinstance(call, dict), "a call is an object"
        return doc, call


def thoughts(docs: Sequence[JsonObject]) -> Iterator[str]:
    """What of a model's reasoning one may read; it may come in several stretches."""
    for doc in docs:
        if doc["message_type"] == "reasoning_message":
            yield str(doc["reasoning"])


def reasoning_chunk(doc: JsonObject, text: str, *, signature: str | None = None) -> JsonObject:
    """A chunk of a `reasoning_message`."""
    return {**doc, "reasoning": text, "signature": signature}


def text_chunk(doc: JsonObject, text: str) -> JsonObject:
    """A chunk of an `assistant_message`."""
    return {**doc, "content": text}


def call_chunk(doc: JsonObject, call: JsonObject, **part: object) -> JsonObject:
    """A chunk of a call: what this chunk lacks is left out, and `tool_calls` is no list."""
    delta: JsonObject = {**part, "tool_call_id": call["tool_call_id"]}  # type: ignore[dict-item]
    return {**doc, "tool_call": delta, "tool_calls": delta}
