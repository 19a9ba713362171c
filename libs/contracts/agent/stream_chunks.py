"""The chunks of a message as its run publishes them, and as they are stored with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from libs.contracts.bus_messages import Json, JsonObject
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


def reasoning_chunk(message: JsonObject, text: str, *, signature: str | None = None) -> JsonObject:
    """A chunk of a `reasoning_message`."""
    return {**message, "reasoning": text, "signature": signature}


def text_chunk(message: JsonObject, text: str) -> JsonObject:
    """A chunk of an `assistant_message`."""
    return {**message, "content": text}


def call_chunk(message: JsonObject, call: JsonObject, **part: Json) -> JsonObject:
    """A chunk of a call: what this chunk lacks is left out, and `tool_calls` is no list."""
    delta: JsonObject = {**part, "tool_call_id": call["tool_call_id"]}
    return {**message, "tool_call": delta, "tool_calls": delta}


def streamed_messages(
    messages: Sequence[JsonObject], chunks: Sequence[Chunk] | None
) -> list[JsonObject]:
    """The messages that clients receive for a stored one, served as `messages`: these, or the
    chunks that they were streamed in."""
    return [*messages] if chunks is None else [*StreamedMessages(messages).cut_into(chunks)]


class StreamedMessages:
    """The V1 messages of one stored message, cut into the chunks that they came in.

    Thoughts that come in several stretches are sent as one message, since a model does not say
    where one ends; the otids of the chunks count the messages that are sent.
    """

    def __init__(self, messages: Sequence[JsonObject]) -> None:
        self.messages = messages
        self.begun: dict[str, JsonObject] = {}
        self.thoughts = "".join(thoughts(messages))
        self.position = {"reasoning": 0, "text": 0, "arguments": 0, "gated_arguments": 0}
        self.call = {"tool_call_message": -1, "approval_request_message": -1}

    def cut_into(self, chunks: Sequence[Chunk]) -> Iterator[JsonObject]:
        """One document for each chunk."""
        for kind, length in chunks:
            match kind:
                case "reasoning":
                    message = self.message("reasoning_message")
                    yield reasoning_chunk(message, self.cut(kind, self.thoughts, length))
                case "signature":
                    message = self.messages[length]
                    yield reasoning_chunk(message, "", signature=str(message["signature"]))
                case "text":
                    message = self.message("assistant_message")
                    yield text_chunk(message, self.cut(kind, message["content"], length))
                case "name" | "gated_name":
                    self.call[CALLS[kind]] += 1
                    self.position[kind.replace("name", "arguments")] = 0
                    message, call = self.current_call(CALLS[kind])
                    yield call_chunk(message, call, name=call["name"])
                case "arguments" | "gated_arguments":
                    message, call = self.current_call(CALLS[kind])
                    yield call_chunk(
                        message, call, arguments=self.cut(kind, call["arguments"], length)
                    )
                case "whole":
                    yield self.messages[length]

    def message(self, message_type: str) -> JsonObject:
        """The message that a chunk belongs to."""
        if message_type not in self.begun:
            message = next(
                message for message in self.messages if message["message_type"] == message_type
            )
            otid = otid_of(str(message["id"]), len(self.begun))
            self.begun[message_type] = {**message, "otid": otid}
        return self.begun[message_type]

    def cut(self, kind: str, whole: object, length: int) -> str:
        """The next characters of a text."""
        start = self.position[kind]
        self.position[kind] = start + length
        return str(whole)[start : start + length]

    def current_call(self, message_type: str) -> tuple[JsonObject, JsonObject]:
        """A message about tool calls, and the call that chunks are about now."""
        message = self.message(message_type)
        calls = message["tool_calls"]
        assert isinstance(calls, list), "a whole message lists its calls"
        call = calls[self.call[message_type]]
        assert isinstance(call, dict), "a call is an object"
        return message, call


def thoughts(messages: Sequence[JsonObject]) -> Iterator[str]:
    """The readable parts of a model's reasoning; there may be several."""
    for message in messages:
        if message["message_type"] == "reasoning_message":
            yield str(message["reasoning"])
