"""Stored messages, cut again into the chunks that they were streamed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libs.contracts.agent.stream_chunks import CALLS, Chunk, call_chunk, reasoning_chunk, text_chunk
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.messages import otid_of


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
