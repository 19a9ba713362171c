"""An answer put together from the chunks in which it comes, the same for every provider."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256

from libs.contracts.agent.conversations import ReasoningPart, ToolCall, Usage
from libs.contracts.bus_messages import JsonObject
from services.agent.adapters.models.answer_sanitization import (
    ArgumentChunks,
    TextChunks,
    number,
    storable,
)
from services.agent.adapters.models.ports import (
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.adapters.models.transport import TooLong
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.tools.custom_tools import TOOL_ARGUMENTS_CHARS_MAX

CALL_ID_CHARS_MAX = 40
TOOL_NAME_CHARS_MAX = 64
# What some models write around a tool's name, as in `functions.look<|channel|>commentary`.
NAMESPACE = re.compile(r"\A(?:functions|default_api|tools)[.:/]")
FORMAT_TOKEN = "<|"
FINISH_REASON_CHARS_MAX = 64

# No model says as much in one step. What is said is stored whole, in one event.
ANSWER_CHARS_MAX = 1_000_000
CALLS_MAX = 128
TOKENS_MAX = 2**40


@dataclass(slots=True)
class OpenCall:
    """A tool call whose arguments are still coming."""

    id: str
    name: str
    chars: int = 0
    chunks: ArgumentChunks = field(default_factory=ArgumentChunks)
    shown: list[str] = field(default_factory=list)


class Assembly:
    """Takes raw chunks and gives the ones to show; the reply is made of exactly those.

    Servers that stand in for a provider are not strict about ids and names of calls, but strict
    when they read them again, so both are made such that they can be sent back; `seed` keeps made
    up ids of different answers apart.
    """

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.text = TextChunks()
        self.reasoning = TextChunks()
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []
        self.open: OpenCall | None = None
        self.parts: list[ReasoningPart] = []
        self.chars = 0

    def say(self, chunk: str) -> list[ModelDelta]:
        """Add a chunk of text; returns what can be shown now."""
        return self.show_text(self.text.add(chunk))

    def think(self, chunk: str) -> list[ReasoningDelta]:
        """Add a chunk of reasoning; returns what can be shown now."""
        return self.show_reasoning(self.reasoning.add(chunk))

    def think_no_more(self) -> list[ReasoningDelta]:
        """A stretch of reasoning is whole."""
        return self.show_reasoning(self.reasoning.rest())

    def keep(self, part: ReasoningPart) -> None:
        """A part of the reasoning, which the provider wants back as it is."""
        self.count(len(part.text) + len(part.signature or "") + len(part.redacted or ""))
        self.parts.append(part)

    def open_call(self, call_id: str, name: str) -> list[ModelDelta]:
        """A call starts; the one before it is whole."""
        closing = self.close_call()
        if len(self.calls) >= CALLS_MAX:
            raise TooLong(f"more than {CALLS_MAX} tool calls")
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", bare_name(name))[:TOOL_NAME_CHARS_MAX] or "unnamed"
        self.open = OpenCall(self.good_id(call_id, name), name)
        return [*closing, ToolCallDelta(self.open.id, name)]

    def argue(self, chunk: str) -> list[ModelDelta]:
        """A chunk of the arguments of the call that started last."""
        if self.open is None:
            raise ValueError("arguments came before their call")
        call = self.open
        left = TOOL_ARGUMENTS_CHARS_MAX - call.chars
        call.chars += len(chunk)
        # The tool says that they were cut; the run goes on.
        return self.show_arguments(call, call.chunks.add(chunk[: max(left, 0)]))

    def close_call(self, extra: JsonObject | None = None) -> list[ModelDelta]:
        """The call that started last is whole; its provider wants `extra` back with it."""
        call, self.open = self.open, None
        if call is None:
            return []
        last = self.show_arguments(call, call.chunks.rest())
        self.count(len(json.dumps(extra)) if extra else 0)
        arguments = "".join(call.shown)
        self.calls.append(ToolCall(id=call.id, name=call.name, arguments=arguments, extra=extra))
        return last

    def close(self) -> list[ModelDelta]:
        """End everything that is open; returns the rest that is to be shown."""
        return [
            *self.think_no_more(),
            *self.show_text(self.text.rest()),
            *self.close_call(),
        ]

    def reply(self, finish_reason: str, usage: Usage) -> ModelReply:
        """The sum of all chunks, after `close`."""
        return ModelReply(
            text="".join(self.texts),
            tool_calls=self.calls,
            finish_reason=storable(str(finish_reason)[:FINISH_REASON_CHARS_MAX]),
            usage=usage,
            reasoning="".join(self.thoughts) or None,
            reasoning_parts=self.parts,
        )

    def show_text(self, text: str) -> list[ModelDelta]:
        """Keep this text and show it, unless it is empty. Raises TooLong."""
        if not text:
            return []
        self.count(len(text))
        self.texts.append(text)
        return [TextDelta(text)]

    def show_reasoning(self, text: str) -> list[ReasoningDelta]:
        """Keep this reasoning and show it, unless it is empty. Raises TooLong."""
        if not text:
            return []
        self.count(len(text))
        self.thoughts.append(text)
        return [ReasoningDelta(text)]

    def show_arguments(self, call: OpenCall, text: str) -> list[ModelDelta]:
        """Keep these arguments of the call and show them, unless they are empty. Raises TooLong."""
        if not text:
            return []
        self.count(len(text))
        call.shown.append(text)
        return [ToolCallDelta(call.id, arguments=text)]

    def count(self, chars: int) -> None:
        """Keep account of what is kept. Raises TooLong."""
        self.chars += chars
        if self.chars > ANSWER_CHARS_MAX:
            raise TooLong(f"more than {ANSWER_CHARS_MAX} characters")

    def good_id(self, call_id: str, name: str) -> str:
        """The id, if it can be sent back and is the only one of its kind, or another."""
        call_id = storable(call_id)
        taken = any(call.id == call_id for call in self.calls)
        if 0 < len(call_id) <= CALL_ID_CHARS_MAX and not taken:
            return call_id
        seed = f"{self.seed}{call_id}{len(self.calls)}{name}".encode()
        return f"call_{sha256(seed).hexdigest()[:24]}"


def bare_name(name: str) -> str:
    """A tool's name without what some models write around it: white space, a namespace, and what
    their format has behind it."""
    return NAMESPACE.sub("", name.partition(FORMAT_TOKEN)[0].strip())


def tokens(counted: object) -> int:
    """A number of tokens; none where it can be no such number: the answer counts all the same."""
    count = number(counted)
    return count if count is not None and 0 <= count <= TOKENS_MAX else 0
