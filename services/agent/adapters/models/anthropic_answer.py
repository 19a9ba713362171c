"""Answers of Anthropic's messages API, whole or in server-sent events, in our words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from libs.contracts.agent.conversations import ReasoningPart, Usage
from services.agent.adapters.models.answer_assembly import Assembly, tokens
from services.agent.adapters.models.answer_sanitization import entries, event_of, fields, words
from services.agent.adapters.models.call_assembly import CallAssembly
from services.agent.adapters.models.ports import ModelDelta, OddAnswer
from services.agent.adapters.models.provider_error_words import refusal_note, refused_in
from services.agent.domain.runs.step_results import ModelReply

REFUSAL = "refusal"
# Why an answer ended, in the words that every provider's answers are told in.
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    REFUSAL: "content_filter",
}
# What an event is that does not say so, by what it has.
EVENTS = {
    "content_block": "content_block_start",
    "delta": "content_block_delta",
    "message": "message_start",
    "content": "message",
}
# What a chunk is that does not say so, by what it has.
DELTAS = {
    "text": "text_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
    "partial_json": "input_json_delta",
}


@dataclass(slots=True)
class Thought:
    """A block of thoughts that is still coming, with what the provider signs it by."""

    texts: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)


class AnthropicAnswer:
    """An answer whose events come one after the other: content blocks, each from start to stop. A
    whole answer is one event."""

    def __init__(self, seed: str) -> None:
        self.assembly = Assembly(seed)
        self.calls = CallAssembly(self.assembly)
        self.counted: dict[str, Any] = {}
        self.finish_reason: str | None = None
        self.refusal = ""
        self.has_begun = self.has_stopped = False
        self.unread: list[object] = []  # the indices of blocks of kinds that are not known
        self.thought: Thought | None = None

    @property
    def whole(self) -> bool:
        return self.has_stopped or self.finish_reason is not None

    def read(self, data: bytes | str) -> list[ModelDelta]:
        event = event_of(data)
        if refused := refused_in(event):
            raise refused
        kind = event.get("type") or next((EVENTS[name] for name in EVENTS if name in event), "")
        if kind == "content_block_delta" and "stop_reason" in fields(event.get("delta")):
            kind = "message_delta"
        match kind:
            case "message":
                return self.read_whole(event)
            case "message_start":
                self.has_begun = True
                self.count(fields(event.get("message")).get("usage"))
            case "content_block_start":
                return self.start_block(fields(event.get("content_block")), event.get("index"))
            case "content_block_delta":
                return self.go_on(fields(event.get("delta")), event.get("index"))
            case "content_block_stop":
                return [*self.stop_thought(), *self.calls.end_call(event.get("index"))]
            case "message_delta":
                self.stop(fields(event.get("delta")))
                self.count(event.get("usage"))
            case "message_stop":
                self.has_stopped = True
        return []

    def read_whole(self, message: dict[str, Any]) -> list[ModelDelta]:
        """An answer that came whole."""
        content, chunks = message.get("content"), list[ModelDelta]()
        if isinstance(content, str):
            content = [content]
        self.has_begun = self.has_stopped = isinstance(content, list)
        if isinstance(content, list):
            content = [{"text": part} if isinstance(part, str) else part for part in content]
        for index, block in enumerate(entries(content)):
            chunks += self.start_block(block, index)
            chunks += [*self.stop_thought(), *self.calls.end_call(index)]
        self.stop(message)
        self.count(message.get("usage"))
        return chunks

    def start_block(self, block: dict[str, Any], index: object) -> list[ModelDelta]:
        """A content block starts, perhaps with its first words; the thoughts before it are over."""
        self.has_begun = True
        chunks = self.stop_thought()
        match block.get("type") or block_type(block):
            case "text":
                chunks += self.assembly.say(words(block.get("text")))
            case "thinking":
                self.thought = Thought(signature=[words(block.get("signature"))])
                chunks += self.think(words(block.get("thinking")))
            case "redacted_thinking" if words(block.get("data")):
                self.assembly.keep(ReasoningPart(redacted=words(block["data"])))
            case "tool_use":
                chunks += self.calls.add(
                    index=index,
                    call_id=words(block.get("id")),
                    name=words(block.get("name")),
                    arguments=block.get("input"),
                    apart=True,
                )
            case _:
                self.unread.append(index)
        return chunks

    def go_on(self, delta: dict[str, Any], index: object) -> list[ModelDelta]:
        """A chunk of a content block."""
        self.has_begun = True
        kind = delta.get("type") or next((DELTAS[name] for name in DELTAS if name in delta), "")
        match kind:
            case "text_delta":
                return self.assembly.say(words(delta.get("text")))
            case "thinking_delta":
                return self.think(words(delta.get("thinking")))
            case "signature_delta":
                self.thought = self.thought or Thought()
                self.thought.signature.append(words(delta.get("signature")))
            case "input_json_delta" if index is None or index not in self.unread:
                arguments = delta.get("partial_json")
                return self.calls.add(index=index, call_id="", name="", arguments=arguments)
        return []

    def think(self, chunk: str) -> list[ModelDelta]:
        """A chunk of the thoughts."""
        self.thought = self.thought or Thought()
        chunks = self.assembly.think(chunk)
        self.thought.texts += [chunk.text for chunk in chunks]
        return [*chunks]

    def stop_thought(self) -> list[ModelDelta]:
        """The thoughts that were still coming, if any, are over."""
        if self.thought is None:
            return []
        chunks = self.assembly.think_no_more()
        text = "".join([*self.thought.texts, *(chunk.text for chunk in chunks)])
        signature = "".join(self.thought.signature)
        if text or signature:
            self.assembly.keep(ReasoningPart(text=text, signature=signature or None))
        self.thought = None
        return [*chunks]

    def stop(self, delta: dict[str, Any]) -> None:
        """Why the answer ended, if that is told."""
        if reason := delta.get("stop_reason"):
            said = str(reason).lower()
            self.finish_reason = FINISH_REASONS.get(said, said)
            # What was refused may have no content at all.
            self.has_begun = self.has_begun or said == REFUSAL
        details = fields(delta.get("stop_details"))
        why = (words(details.get(name)) for name in ("explanation", "category", "reason"))
        self.refusal = self.refusal or next(filter(None, why), "")

    def count(self, usage: object) -> None:
        """Take note of the tokens used; later counts include earlier ones."""
        self.counted |= {name: count for name, count in fields(usage).items() if count is not None}

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last chunks, and the whole. Raises OddAnswer where there was no answer."""
        if not self.has_begun:
            raise OddAnswer("it has no `content`")
        chunks = [*self.stop_thought(), *self.calls.close()]
        if self.finish_reason == FINISH_REASONS[REFUSAL]:
            chunks += self.assembly.say(refusal_note(self.refusal, self.assembly.texts))
        chunks += self.assembly.close()
        return chunks, self.assembly.reply(self.finish_reason or "stop", usage_of(self.counted))


def block_type(block: dict[str, Any]) -> str:
    """The type of a content block that does not state one."""
    if "name" in block or "input" in block:
        return "tool_use"
    return "thinking" if "thinking" in block else "text"


def usage_of(usage: dict[str, Any]) -> Usage:
    """The tokens that the provider counted; it counts those from the cache apart."""
    read = tokens(usage.get("cache_read_input_tokens"))
    written = tokens(usage.get("cache_creation_input_tokens"))
    details = fields(usage.get("output_tokens_details"))
    return Usage(
        prompt_tokens=tokens(usage.get("input_tokens")) + read + written,
        completion_tokens=tokens(usage.get("output_tokens")),
        cached_input_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=tokens(details.get("thinking_tokens")),
    )
