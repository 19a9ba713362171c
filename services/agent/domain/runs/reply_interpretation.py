"""Interpretation of a model's reply, whole or as it comes: thoughts, words, and calls."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.runs import RunConfig
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.runs.streaming_argument_parser import (
    Added,
    ArgumentNames,
    StreamingArgumentParser,
    json_text,
    nothing_added,
)
from services.agent.domain.tools.call_arguments import arguments_of, marked_as_spoken

# The tool that does nothing but say something to the user.
SPEAKING_TOOL = "send_message"

ReaderOf = Callable[[str], StreamingArgumentParser | None]


@dataclass(slots=True)
class CallReaders:
    """The readers of a reply to a run that was offered these tools. `reader_of` is the reader for a
    tool's calls, None where they are recorded as they are written; `plain` says that this holds for
    all. `native` says that the model's own reasoning was shown, `words_first` which call was shown
    as words before any text was."""

    run: RunConfig
    offered: Container[str]
    reader_of: ReaderOf
    plain: bool = False
    readers: dict[str, StreamingArgumentParser] = field(default_factory=dict)
    native: bool | None = None
    words_first: str = ""

    def reader(self, call_id: str, name: str) -> StreamingArgumentParser | None:
        """The reader of a call, from its beginning on."""
        if call_id not in self.readers:
            reader = self.reader_of(name)
            if reader is None:
                return None
            self.readers[call_id] = reader
        return self.readers[call_id]

    def read_call(self, call: ToolCall) -> ToolCall:
        """The call as it is recorded, after the rest of its arguments was read."""
        reader = self.reader(call.id, call.name)
        if reader is None:
            return marked_as_spoken(call, self.run, self.offered)
        read = reader.finish(call.arguments)
        rest = call.model_copy(update={"arguments": read.rest})
        if not reader.said:
            return marked_as_spoken(rest, self.run, self.offered)
        # What was shown was said, also where the model broke off in the middle of it.
        kwarg = self.run.assistant_message_tool_kwarg
        arguments: JsonObject = {kwarg: read.words, **(arguments_of(rest) or {})}
        return call.model_copy(update={"arguments": json_text(arguments), "spoken_argument": kwarg})

    def thoughts_in(self, call: ToolCall) -> str:
        """The thoughts that stood among the arguments of a call."""
        reader = self.readers.get(call.id)
        return reader.whole.thoughts if reader else ""


def speaking_names(
    run: ActiveRun,
    name: str,
    offered: Container[str],
    left_out: Mapping[str, Json],
    *,
    thoughts: str = "",
    added: Added = nothing_added,
) -> ArgumentNames:
    """The arguments of a call that clients may be shown as words. Only what `send_message` says is
    shown as it comes: a model that breaks off in the middle has said what it has said; any other
    tool must not be carried out with half of it. Where the client has to approve of the call,
    nothing is said yet."""
    config, kwarg = run.run, run.run.assistant_message_tool_kwarg
    gated = run.gate is not None and name in run.gate.tools
    speaks = config.use_assistant_message and name == config.assistant_message_tool_name
    held = speaks and name in offered and not gated
    streams = held and name == SPEAKING_TOOL and kwarg not in left_out
    return ArgumentNames(thoughts, kwarg if streams else "", left_out, added, held=held)


# What the user is shown of an answer that is thoughts and nothing else.
ONLY_THOUGHTS = "[The model thought about an answer, but gave none: ask again.]"
NO_ROOM = "[The model used up its tokens while it thought, and gave no answer: raise `max_tokens`.]"


def with_words(reply: ModelReply) -> ModelReply:
    """A reply with words for the user also where the model did no more than think."""
    thinks, is_cut = reply.reasoning or reply.reasoning_parts, reply.finish_reason == "length"
    if reply.text.strip() or reply.tool_calls or not (thinks or is_cut):
        return reply
    return replace(reply, text=NO_ROOM if is_cut else ONLY_THOUGHTS)


def with_thoughts_of(reply: ModelReply, inner: str, *, native: bool | None) -> ModelReply:
    """A reply whose calls stand for all that it says: its thoughts are the model's own reasoning,
    if one may read that; else what stood among the arguments, or beside the call."""
    if native is None:
        parts = any(part.text for part in reply.reasoning_parts)
        native = bool(reply.reasoning) or parts
    if native:
        return replace(reply, text="")
    thoughts = inner or reply.text
    if not thoughts:
        return replace(reply, text="")
    return replace(
        reply,
        text="",
        reasoning=thoughts,
        reasoning_field=None,
        reasoning_parts=[],
        inner_thoughts=True,
    )
