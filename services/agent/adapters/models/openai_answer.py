"""What OpenAI's chat completions answer, whole or in server-sent events, in our words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from libs.contracts.conversation import Usage
from services.agent.adapters.models.answer_assembly import Assembly, tokens
from services.agent.adapters.models.model_errors import failure_of
from services.agent.adapters.models.ports import ModelDelta, ModelFailed
from services.agent.adapters.models.token_logprobs import TokenLogprobs
from services.agent.domain.step_results import Failure, ModelReply

UNKNOWN_STATUS = 500


def reply_of(body: Any, seed: str = "") -> ModelReply:
    """A whole answer."""
    choice = body["choices"][0]
    message = choice["message"]
    assembly = Assembly(seed)
    assembly.think(message.get("reasoning_content") or "")
    assembly.say(message.get("content") or "")
    for call in message.get("tool_calls") or []:
        assembly.open_call(call.get("id") or "", call["function"]["name"])
        assembly.argue(call["function"]["arguments"] or "")
    assembly.close()
    details = TokenLogprobs()
    details.add(choice)
    reply = assembly.reply(choice.get("finish_reason") or "stop", usage_of(body.get("usage") or {}))
    return replace(reply, logprobs=details.logprobs, token_ids=details.token_ids)


def usage_of(usage: Any) -> Usage:
    """The tokens that the provider counted."""
    shown = usage.get("prompt_tokens_details") or {}
    said = usage.get("completion_tokens_details") or {}
    return Usage(
        prompt_tokens=tokens(usage.get("prompt_tokens")),
        completion_tokens=tokens(usage.get("completion_tokens")),
        cached_input_tokens=tokens(shown.get("cached_tokens")),
        reasoning_tokens=tokens(said.get("reasoning_tokens")),
    )


class OpenAIAnswer:
    """An answer whose events come one after the other."""

    def __init__(self, seed: str) -> None:
        self.assembly = Assembly(seed)
        self.usage = Usage()
        self.details = TokenLogprobs()
        self.finish_reason: str | None = None
        self.index: object = None
        self.call_id = ""

    @property
    def whole(self) -> bool:
        """Whether the answer has come to its end."""
        return self.finish_reason is not None

    def read(self, data: bytes | str) -> list[ModelDelta]:
        """The pieces of one event."""
        event = json.loads(data)
        if event.get("error"):
            raise ModelFailed(failure_in_stream(event["error"]))
        if event.get("usage"):
            self.usage = usage_of(event["usage"])
        if not event.get("choices"):
            return []
        choice = event["choices"][0]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.details.add(choice)
        return self.pieces(choice.get("delta") or {})

    def pieces(self, delta: Any) -> list[ModelDelta]:
        """What one event adds."""
        thought = self.assembly.think(delta.get("reasoning_content") or "")
        pieces = [*thought, *self.assembly.say(delta.get("content") or "")]
        for call in delta.get("tool_calls") or []:
            pieces += self.call_pieces(call)
        return pieces

    def call_pieces(self, call: Any) -> list[ModelDelta]:
        """What one event adds to a call. A call is told from the one before by its index, or,
        where a stand-in gives all the same one, by its id; pieces after the first have none."""
        call_id, function = call.get("id") or "", call.get("function") or {}
        pieces: list[ModelDelta] = []
        other_index = self.assembly.open is None or call.get("index") != self.index
        if other_index or (call_id and call_id != self.call_id):
            self.index, self.call_id = call.get("index"), call_id
            pieces += self.assembly.open_call(call_id, function["name"])
        return pieces + self.assembly.argue(function.get("arguments") or "")

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last pieces, and the whole."""
        pieces = self.assembly.close()
        reply = self.assembly.reply(self.finish_reason or "stop", self.usage)
        details = self.details
        return pieces, replace(reply, logprobs=details.logprobs, token_ids=details.token_ids)


def failure_in_stream(error: object) -> Failure:
    """An error that came after the status 200."""
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) else UNKNOWN_STATUS
    return failure_of(status, error, str(error))
