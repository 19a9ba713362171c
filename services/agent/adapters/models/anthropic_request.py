"""Requests to Anthropic's messages API, and the messages in them, in that wire's words."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from libs.contracts.agent.conversations import Message, ReasoningPart, ToolCall
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.model_configs import JsonSchemaResponseFormat, LLMConfig
from services.agent.adapters.models.tool_schemas import anthropic_arguments
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.tools.call_arguments import sendable_arguments

# Anthropic's own servers, which take no thoughts without a signature.
ANTHROPIC_HOST = "api.anthropic.com"
# What stands for those thoughts, among the parameters that a server may refuse.
UNSIGNED_THOUGHTS = "signature"

OUTPUT_TOKENS_DEFAULT = 4_096
THINKING_TOKENS_MIN = 1_024
TEMPERATURE_MAX = 1.0

# From this version on, a model decides by itself how long to think, and whether to.
ADAPTIVE_SINCE = (4, 6)
# The last version that may be told a temperature.
TEMPERATURE_UNTIL = (4, 6)
VERSION = re.compile(r"claude-[a-z]+-(\d+)(?:-(\d{1,2}))?(?!\d)")

CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CACHED: JsonObject = {"type": "ephemeral"}

TOOLS_MAX = 128

# The API takes no conversation that starts or ends with the assistant, and no empty message.
BEFORE_THE_FIRST = "(The conversation starts here.)"
AFTER_THE_LAST = "(Go on.)"


def body_around_tools(request: ModelRequest, *, takes_unsigned: bool = False) -> JsonObject:
    """The request in the provider's words; the tools that it offers have an empty list for a
    place. Servers that stand in for the provider may write thoughts without a signature, and want
    them back with the calls."""
    config = request.config.llm_config
    system = request.messages[0] if request.messages[0].role == "system" else None
    rest = request.messages[1:] if system else request.messages
    # A model that has to call a tool may not think first, in this API.
    thoughts = Thoughts(takes_unsigned)
    thinking = None if request.must_call else thinking_of(config, rest, thoughts)
    body: JsonObject = {
        "model": config.model,
        "max_tokens": output_tokens(config, thinking),
        "messages": conversation(rest, replace(thoughts, takes_signed=thinking is not None)),
    }
    if system and text_of(system).strip():
        body["system"] = [{"type": "text", "text": text_of(system), "cache_control": CACHED}]
    if thinking is not None:
        body["thinking"] = thinking
    elif config.temperature != TEMPERATURE_MAX and version_of(config.model) <= TEMPERATURE_UNTIL:
        body["temperature"] = min(config.temperature, TEMPERATURE_MAX)
    if output := output_config(config):
        body["output_config"] = output
    if request.tools:
        body["tools"] = []
        kind = "any" if request.must_call else "auto"
        body["tool_choice"] = {"type": kind, "disable_parallel_tool_use": not request.parallel}
    elif called := called_tools(rest):
        # It takes no history with calls from somebody who defines no tools.
        body["tools"] = [anthropic_tool({"name": name}) for name in called[:TOOLS_MAX]]
        body["tool_choice"] = {"type": "none"}
    if request.stream_tokens:
        body["stream"] = True
    return body


@dataclass(frozen=True, slots=True)
class Thoughts:
    """Which thoughts go back to a server: those that it signed, and those without a signature."""

    takes_unsigned: bool
    takes_signed: bool = True

    def of(self, message: Message) -> list[ReasoningPart]:
        """The thoughts of a message that go back; without a signature only those behind which there
        are calls."""
        return [part for part in message.reasoning_parts if self.takes(part, message)]

    def takes(self, part: ReasoningPart, message: Message) -> bool:
        """Whether one of the thoughts of a message goes back."""
        if part.signature is not None or part.redacted is not None:
            return self.takes_signed
        return self.takes_unsigned and bool(part.text and message.tool_calls)


def thinking_of(
    config: LLMConfig, messages: list[Message], thoughts: Thoughts
) -> JsonObject | None:
    """The thinking settings of a request, if the model shall think."""
    if not config.enable_reasoner:
        return None
    if version_of(config.model) >= ADAPTIVE_SINCE:
        return {"type": "adaptive", "display": "summarized"}
    if not config.max_reasoning_tokens or not may_think(messages, thoughts):
        return None
    return {
        "type": "enabled",
        "budget_tokens": max(config.max_reasoning_tokens, THINKING_TOKENS_MIN),
    }


def may_think(messages: list[Message], thoughts: Thoughts) -> bool:
    """With a fixed budget, a turn that was begun without thinking, or with another provider's, has
    to be ended without."""
    turn: list[Message] = []
    for message in reversed(messages):
        if message.role in ("user", "system"):
            break
        if message.role == "assistant":
            turn.append(message)
    return not turn or bool(thoughts.of(turn[-1]))


def version_of(model: str) -> tuple[int, int]:
    """The version in a model's name; (0, 0) if it has none, or one of the old scheme."""
    found = VERSION.match(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def output_tokens(config: LLMConfig, thinking: JsonObject | None) -> int:
    """The limit of an answer, which thinking counts against."""
    limit = config.max_tokens or OUTPUT_TOKENS_DEFAULT
    budget = thinking.get("budget_tokens") if thinking else None
    return limit + budget if isinstance(budget, int) and limit <= budget else limit


def output_config(config: LLMConfig) -> JsonObject:
    """The effort to make, and the form of the answer."""
    output: JsonObject = {}
    if config.effort:
        output["effort"] = config.effort
    if isinstance(config.response_format, JsonSchemaResponseFormat):
        schema: Any = config.response_format.json_schema
        output["format"] = {"type": "json_schema", "schema": schema.get("schema", schema)}
    return output


def anthropic_tool(tool: JsonObject) -> JsonObject:
    """A function schema as a tool."""
    parameters = tool.get("parameters")
    return {
        "name": tool["name"],
        "description": tool.get("description") or "",
        "input_schema": anthropic_arguments(parameters if isinstance(parameters, dict) else {}),
    }


def called_tools(messages: list[Message]) -> list[str]:
    """The names of the tools that were called, each once."""
    return list(dict.fromkeys(call.name for message in messages for call in message.tool_calls))


def conversation(messages: list[Message], thoughts: Thoughts) -> list[Json]:
    """The messages such that user and assistant alternate, and the user has the first word and
    the last. Whatever stands between two words of the assistant is one message of the user: the
    results of all its calls, and what was said after them."""
    blocks = Blocks(thoughts)
    turns: list[tuple[str, list[Json]]] = [("user", [])]
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        content = blocks.of(message)
        if not content:
            continue
        if turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(content)
    if not turns[0][1]:
        turns[0][1].append(text_block(BEFORE_THE_FIRST))
    if turns[-1][0] == "assistant":
        turns.append(("user", [text_block(AFTER_THE_LAST)]))
    newest = turns[-1][1][-1]
    assert isinstance(newest, dict), "a block is an object"
    newest["cache_control"] = CACHED  # all up to here is the beginning of the next request
    return [{"role": role, "content": content} for role, content in turns]


class Blocks:
    """Turns messages into content blocks, and remembers as which ids calls were sent."""

    def __init__(self, thoughts: Thoughts) -> None:
        self.thoughts = thoughts
        self.sent: set[str] = set()
        self.ids: dict[str, str] = {}

    def of(self, message: Message) -> list[Json]:
        """The blocks of one message; none if there is nothing to say."""
        match message.role:
            case "tool":
                return [self.result(message)]
            case "assistant":
                thoughts = map(thinking_block, self.thoughts.of(message))
                return [*thoughts, *words(message), *self.calls(message)]
            case "user" | "system" | "approval":
                return words(message)

    def calls(self, message: Message) -> list[Json]:
        """The calls of an assistant message."""
        self.ids = {}
        return [
            {
                "type": "tool_use",
                "id": self.good_id(message, call),
                "name": call.name,
                "input": sendable_arguments(call),
            }
            for call in message.tool_calls
        ]

    def good_id(self, message: Message, call: ToolCall) -> str:
        """Ids of other providers may have other characters, or come twice in a conversation."""
        call_id = call.id
        if call_id in self.sent or not CALL_ID.fullmatch(call_id):
            call_id = f"call_{sha256(f'{message.id}{call.id}'.encode()).hexdigest()[:24]}"
        self.sent.add(call_id)
        self.ids[call.id] = call_id
        return call_id

    def result(self, message: Message) -> Json:
        """The result of a tool, in the envelope that every provider is shown."""
        failed = message.tool_status == "error"
        envelope = {"status": "Failed" if failed else "OK", "message": text_of(message)}
        block: JsonObject = {
            "type": "tool_result",
            "tool_use_id": self.ids[message.tool_call_id or ""],
            "content": with_images(json.dumps(envelope, ensure_ascii=False), message),
        }
        return {**block, "is_error": True} if failed else block


def with_images(envelope: str, message: Message) -> Json:
    """The content of a result: its envelope, and behind it the images that the tool gave back."""
    parts = message.content if isinstance(message.content, list) else []
    images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    return [text_block(envelope), *map(anthropic_part, images)] if images else envelope


def words(message: Message) -> list[Json]:
    """The text and the images of a message; empty text is not allowed."""
    content = message.content
    if not isinstance(content, list):
        return [text_block(text_of(message))] if text_of(message).strip() else []
    blocks = [anthropic_part(part) for part in content if isinstance(part, dict)]
    return [block for block in blocks if block is not None]


def anthropic_part(part: JsonObject) -> Json:
    """One content part; images by address or inline."""
    if part.get("type") != "image":
        text = str(part.get("text", ""))
        return text_block(text) if text.strip() else None
    source: Any = part.get("source") or {}
    if source.get("type") == "url":
        return {"type": "image", "source": {"type": "url", "url": source.get("url")}}
    inline = {"media_type": source.get("media_type"), "data": source.get("data")}
    return {"type": "image", "source": {"type": "base64", **inline}}


def text_block(text: str) -> JsonObject:
    """Text as a content block."""
    return {"type": "text", "text": text}


def thinking_block(part: ReasoningPart) -> JsonObject:
    """A stretch of reasoning as it came."""
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    block: JsonObject = {"type": "thinking", "thinking": part.text}
    return block if part.signature is None else {**block, "signature": part.signature}
