"""The chunks that clients receive of an answer while the model gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.messages import (
    Envelope,
    ToolCall,
    assistant_message,
    reasoning_message,
    tool_call_message,
)
from libs.contracts.letta_message_mapping import part
from libs.contracts.stream_chunks import (
    Chunk,
    call_chunk,
    reasoning_chunk,
    streamed_docs,
    text_chunk,
    thoughts,
)
from services.agent.adapters.models.ports import (
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)


class StepChunks:
    """One step's answer in chunks. `chunks` are those that have been sent so far."""

    def __init__(self, envelope: Envelope, *, parallel: bool) -> None:
        self.envelope = envelope
        self.parallel = parallel
        self.chunks: list[Chunk] = []
        self.blank: dict[str, JsonObject] = {}
        self.calls: list[str] = []
        self.chars = {"reasoning": 0, "text": 0, "arguments": 0}

    def of(self, delta: ModelDelta) -> list[JsonObject]:
        """What clients receive of a delta; nothing of a call that will not be carried out."""
        match delta:
            case ReasoningDelta(text):
                self.count("reasoning", text)
                return [reasoning_chunk(self.reasoning, text)]
            case TextDelta(text):
                self.count("text", text)
                return [text_chunk(self.text, text)]
            case ToolCallDelta(id, name, arguments):
                if self.calls and not self.parallel and id != self.calls[0]:
                    return []
                call: JsonObject = {"tool_call_id": id}
                if id not in self.calls:
                    self.calls.append(id)
                    self.chars["arguments"] = 0
                    self.chunks.append(("name", 0))
                    return [call_chunk(self.called, call, name=name or "")]
                self.count("arguments", arguments)
                return [call_chunk(self.called, call, arguments=arguments)]

    def count(self, kind: str, text: str) -> None:
        """Keep account of a chunk."""
        self.chars[kind] += len(text)
        self.chunks.append((kind, len(text)))  # type: ignore[arg-type]

    def rest(self, docs: Sequence[JsonObject]) -> list[JsonObject]:
        """What has not been sent yet of the whole message, which is served as `docs`."""
        before = len(self.chunks)
        self.chunks += self.remaining("reasoning", "".join(thoughts(docs)))
        for place, doc in enumerate(docs):
            self.chunks += self.unsent(place, doc)
        return streamed_docs(docs, self.chunks)[before:]

    def unsent(self, place: int, doc: JsonObject) -> Iterator[Chunk]:
        """The chunks of one V1 message that are still to be sent."""
        match doc["message_type"]:
            case "reasoning_message":
                if doc["signature"] is not None:
                    yield "signature", place
            case "assistant_message":
                yield from self.remaining("text", str(doc["content"]))
            case "tool_call_message":
                calls = doc["tool_calls"]
                assert isinstance(calls, list), "a whole message lists its calls"
                for number, call in enumerate(calls):
                    assert isinstance(call, dict), "a call is an object"
                    if number >= len(self.calls):
                        yield "name", 0
                        yield "arguments", len(str(call["arguments"]))
                    elif number == len(self.calls) - 1:
                        yield from self.remaining("arguments", str(call["arguments"]))
            case _:
                yield "whole", place

    def remaining(self, kind: str, whole: str) -> Iterator[Chunk]:
        """The end of a text, if it was not sent."""
        if self.chars[kind] < len(whole):
            yield kind, len(whole) - self.chars[kind]  # type: ignore[misc]

    # The V1 messages that the chunks belong to, without what comes in chunks

    @property
    def reasoning(self) -> JsonObject:
        """The message of the thoughts."""
        return self.kept("reasoning") or self.keep(
            "reasoning", reasoning_message(self.next_part(), "")
        )

    @property
    def text(self) -> JsonObject:
        """The message of the words."""
        return self.kept("text") or self.keep("text", assistant_message(self.next_part(), ""))

    @property
    def called(self) -> JsonObject:
        """The message of the calls."""
        nothing = [ToolCall(id="", name="", arguments="")]
        return self.kept("calls") or self.keep(
            "calls", tool_call_message(self.next_part(), nothing)
        )

    def kept(self, kind: str) -> JsonObject | None:
        """A message that was begun."""
        return self.blank.get(kind)

    def keep(self, kind: str, blank: JsonObject) -> JsonObject:
        """Begin a message."""
        self.blank[kind] = blank
        return blank

    def next_part(self) -> Envelope:
        """The envelope of the next message; its otid counts them."""
        return part(self.envelope, len(self.blank))
