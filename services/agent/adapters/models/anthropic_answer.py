"""What Anthropic's messages API answers, whole or in server-sent events, in our words."""

from __future__ import annotations

import json
from typing import Any

from libs.contracts.conversation import ReasoningPart, Usage
from services.agent.adapters.models.answer_assembly import Assembly, tokens
from services.agent.adapters.models.model_errors import ERROR_TYPES, refused
from services.agent.adapters.models.ports import ModelDelta, ModelFailed
from services.agent.domain.step_results import Failure, ModelReply

# Why an answer ended, in the words that every provider's answers are told in.
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}

# The type of an error that comes after the status 200, and the status that it stands for.
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
UNKNOWN_STATUS = 500

# What a refused request says whose reason has no type of its own.
TOO_LONG = ("prompt is too long", "exceed context limit", "context window")
UNPAID = ("credit balance is too low",)


def reply_of(body: Any, seed: str = "") -> ModelReply:
    """A whole answer."""
    answer = AnthropicAnswer(seed)
    for block in body["content"]:
        answer.start_block(block)
        if block["type"] == "tool_use":
            answer.assembly.argue(json.dumps(block["input"], ensure_ascii=False))
        answer.stop_block()
    answer.finish_reason = finish_reason(body.get("stop_reason") or "end_turn")
    answer.count(body.get("usage") or {})
    return answer.end()[1]


class AnthropicAnswer:
    """An answer whose events come one after the other: content blocks, each from start to stop."""

    def __init__(self, seed: str) -> None:
        self.assembly = Assembly(seed)
        self.counted: dict[str, Any] = {}
        self.finish_reason = "stop"
        self.whole = False
        self.thought: list[str] = []
        self.signature: list[str] = []
        self.block = ""

    def read(self, data: bytes | str) -> list[ModelDelta]:
        """The pieces of one event."""
        event = json.loads(data)
        match event["type"]:
            case "message_start":
                self.count(event["message"].get("usage") or {})
            case "content_block_start":
                return self.start_block(event["content_block"])
            case "content_block_delta":
                return self.go_on(event["delta"])
            case "content_block_stop":
                return self.stop_block()
            case "message_delta":
                self.finish_reason = finish_reason(event["delta"].get("stop_reason") or "end_turn")
                self.count(event.get("usage") or {})
            case "message_stop":
                self.whole = True
            case "error":
                raise ModelFailed(failure_in_stream(event.get("error")))
        return []

    def start_block(self, block: Any) -> list[ModelDelta]:
        """A content block starts, perhaps with its first words."""
        self.block = block["type"]
        match self.block:
            case "text":
                return self.assembly.say(block.get("text") or "")
            case "thinking":
                self.signature = [block.get("signature") or ""]
                return self.think(block.get("thinking") or "")
            case "redacted_thinking":
                self.assembly.keep(ReasoningPart(redacted=block["data"]))
            case "tool_use":
                return self.assembly.open_call(block["id"], block["name"])
        return []

    def go_on(self, delta: Any) -> list[ModelDelta]:
        """A piece of the content block that started last."""
        match delta["type"]:
            case "text_delta":
                return self.assembly.say(delta["text"])
            case "thinking_delta":
                return self.think(delta["thinking"])
            case "signature_delta":
                self.signature.append(delta["signature"])
            case "input_json_delta":
                return self.assembly.argue(delta["partial_json"])
        return []

    def stop_block(self) -> list[ModelDelta]:
        """The content block that started last is whole."""
        block, self.block = self.block, ""
        if block == "tool_use":
            return self.assembly.close_call()
        if block != "thinking":
            return []
        pieces = self.assembly.think_no_more()
        self.thought += [piece.text for piece in pieces]
        thought, signature = "".join(self.thought), "".join(self.signature)
        if thought or signature:
            self.assembly.keep(ReasoningPart(text=thought, signature=signature or None))
        self.thought, self.signature = [], []
        return [*pieces]

    def think(self, piece: str) -> list[ModelDelta]:
        """A piece of the thoughts."""
        pieces = self.assembly.think(piece)
        self.thought += [piece.text for piece in pieces]
        return [*pieces]

    def count(self, usage: dict[str, Any]) -> None:
        """Take note of the tokens used; later counts include earlier ones."""
        self.counted |= {name: value for name, value in usage.items() if value is not None}

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last pieces, and the whole."""
        pieces = self.assembly.close()
        return pieces, self.assembly.reply(self.finish_reason, usage_of(self.counted))


def finish_reason(stop_reason: str) -> str:
    """Why the answer ended, in our words."""
    return FINISH_REASONS.get(stop_reason, stop_reason)


def usage_of(usage: dict[str, Any]) -> Usage:
    """The tokens that the provider counted; it counts those from the cache apart."""
    read = tokens(usage.get("cache_read_input_tokens"))
    written = tokens(usage.get("cache_creation_input_tokens"))
    details = usage.get("output_tokens_details") or {}
    return Usage(
        prompt_tokens=tokens(usage.get("input_tokens")) + read + written,
        completion_tokens=tokens(usage.get("output_tokens")),
        cached_input_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=tokens(details.get("thinking_tokens")),
    )


def failure_of(status: int, body: object, text: str) -> Failure:
    """An HTTP error of the provider as the reason why a run failed."""
    inner = body.get("error") if isinstance(body, dict) else None
    error = inner if isinstance(inner, dict) else {}
    message = str(error.get("message") or text)
    kind = ERROR_TYPES.get(status, "llm_error")
    if status == 400 and any(words in message.lower() for words in TOO_LONG):
        kind = "context_window_exceeded"
    if any(words in message.lower() for words in UNPAID):
        kind = "llm_insufficient_credits"
    return refused(kind, status, message, str(error.get("type") or ""))


def failure_in_stream(error: object) -> Failure:
    """An error that came after the status 200."""
    kind = error.get("type") if isinstance(error, dict) else None
    return failure_of(STATUSES.get(str(kind), UNKNOWN_STATUS), {"error": error}, str(error))
