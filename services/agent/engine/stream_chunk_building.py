"""The chunks that clients receive of an answer while the model gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from libs.contracts.agent.stored_to_letta_messages import part
from libs.contracts.agent.stream_chunks import (
    Chunk,
    ChunkKind,
    call_chunk,
    reasoning_chunk,
    streamed_messages,
    text_chunk,
    thoughts,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.messages import (
    Envelope,
    ToolCall,
    approval_request_message,
    assistant_message,
    reasoning_message,
    tool_call_message,
)
from services.agent.adapters.models.ports import (
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.domain.conversations.approval_state import NO_GATES, CallGates


@dataclass(frozen=True, slots=True)
class ToolCallKind:
    """The form of a call's chunks: waiting for the client or not, and the id."""

    prefix: str
    call: JsonObject

    @property
    def name(self) -> ChunkKind:
        """The kind of the chunk with its name."""
        return "gated_name" if self.prefix else "name"

    @property
    def arguments(self) -> ChunkKind:
        """The kind of the chunks with its arguments."""
        return "gated_arguments" if self.prefix else "arguments"


class StepChunks:
    """One step's answer in chunks. `chunks` are those that have been sent so far; the `gates` say
    which calls are sent as what waits for the client."""

    def __init__(self, envelope: Envelope, *, parallel: bool, gates: CallGates = NO_GATES) -> None:
        self.envelope = envelope
        self.parallel = parallel
        self.gates = gates
        self.chunks: list[Chunk] = []
        self.blank: dict[str, JsonObject] = {}
        self.calls: dict[str, ToolCallKind] = {}
        self.chars = {"reasoning": 0, "text": 0, "arguments": 0, "gated_arguments": 0}

    def of(self, delta: ModelDelta) -> list[JsonObject]:
        """Clients' chunks of a delta; none of a call that will not be carried out."""
        match delta:
            case ReasoningDelta(text, inner):
                self.count("reasoning", text)
                return [reasoning_chunk(self.reasoning(native=not inner), text)]
            case TextDelta(text):
                self.count("text", text)
                return [text_chunk(self.text, text)]
            case ToolCallDelta(id, name, arguments):
                if self.calls and not self.parallel and id not in self.calls:
                    return []
                if id not in self.calls:
                    return [self.begun_call(id, name or "")]
                kind = self.calls[id]
                self.count(kind.arguments, arguments)
                return [call_chunk(self.calls_message(kind), kind.call, arguments=arguments)]

    def begun_call(self, id: str, name: str) -> JsonObject:
        """The chunk with which a call begins."""
        gated = name in self.gates.gated
        shown_id = self.gates.id_of(id) if gated else id
        kind = self.calls[id] = ToolCallKind("gated_" * gated, {"tool_call_id": shown_id})
        self.chars[kind.arguments] = 0
        self.chunks.append((kind.name, 0))
        return call_chunk(self.calls_message(kind), kind.call, name=name)

    def count(self, kind: ChunkKind, text: str) -> None:
        """Keep account of a chunk."""
        self.chars[kind] += len(text)
        self.chunks.append((kind, len(text)))

    def rest(self, messages: Sequence[JsonObject]) -> list[JsonObject]:
        """The unsent chunks of the whole message, which is served as `messages`."""
        before = len(self.chunks)
        self.chunks += self.remaining("reasoning", "".join(thoughts(messages)))
        said = False
        for place, message in enumerate(messages):
            if message["message_type"] == "assistant_message" and said:
                self.chunks.append(("whole", place))  # one text of a step comes in chunks
            else:
                self.chunks += self.unsent_chunks(place, message)
            said = said or message["message_type"] == "assistant_message"
        return streamed_messages(messages, self.chunks)[before:]

    def unsent_chunks(self, place: int, message: JsonObject) -> Iterator[Chunk]:
        """The chunks of one V1 message that are still to be sent."""
        match message["message_type"]:
            case "reasoning_message":
                if message["signature"] is not None:
                    yield "signature", place
            case "assistant_message":
                yield from self.remaining("text", str(message["content"]))
            case "tool_call_message":
                yield from self.unsent_calls("", message["tool_calls"])
            case "approval_request_message":
                yield from self.unsent_calls("gated_", message["tool_calls"])
            case _:
                yield "whole", place

    def unsent_calls(self, prefix: str, calls: object) -> Iterator[Chunk]:
        """The chunks of calls of one kind that are still to be sent."""
        assert isinstance(calls, list), "a whole message lists its calls"
        kind = ToolCallKind(prefix, {})
        sent = sum(kind_sent.prefix == prefix for kind_sent in self.calls.values())
        for number, call in enumerate(calls):
            assert isinstance(call, dict), "a call is an object"
            if number >= sent:
                yield kind.name, 0
                yield kind.arguments, len(str(call["arguments"]))
            elif number == sent - 1:
                yield from self.remaining(kind.arguments, str(call["arguments"]))

    def remaining(self, kind: ChunkKind, whole: str) -> Iterator[Chunk]:
        """The end of a text, if it was not sent."""
        if self.chars[kind] < len(whole):
            yield kind, len(whole) - self.chars[kind]

    # The V1 messages that the chunks belong to, without what comes in chunks

    def reasoning(self, *, native: bool) -> JsonObject:
        """The message of the thoughts."""
        return self.blank.get("reasoning") or self.begin(
            "reasoning", reasoning_message(self.next_part(), "", native=native)
        )

    @property
    def text(self) -> JsonObject:
        """The message of the words."""
        return self.blank.get("text") or self.begin("text", assistant_message(self.next_part(), ""))

    def calls_message(self, kind: ToolCallKind) -> JsonObject:
        """The message that holds the calls of this kind."""
        nothing = [ToolCall(id="", name="", arguments="")]
        blank = approval_request_message if kind.prefix else tool_call_message
        name = f"{kind.prefix}calls"
        return self.blank.get(name) or self.begin(name, blank(self.next_part(), nothing))

    def begin(self, kind: str, blank: JsonObject) -> JsonObject:
        """Keep this message, empty as it is, as the one that chunks of this kind belong to."""
        self.blank[kind] = blank
        return blank

    def next_part(self) -> Envelope:
        """The envelope of the next message; its otid counts them."""
        return part(self.envelope, len(self.blank))
