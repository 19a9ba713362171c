"""Answers of OpenAI's chat completions, whole or in server-sent events, in our words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from libs.contracts.agent.conversations import ReasoningField, Usage
from libs.contracts.bus_messages import Json, JsonObject
from services.agent.adapters.models.answer_assembly import Assembly, tokens
from services.agent.adapters.models.answer_sanitization import (
    ThinkingTags,
    entries,
    event_of,
    fields,
    storable,
    words,
)
from services.agent.adapters.models.call_assembly import CallAssembly
from services.agent.adapters.models.ports import ModelDelta, OddAnswer
from services.agent.adapters.models.provider_error_words import MISSHAPEN, refusal_note, refused_in
from services.agent.adapters.models.transport import TooLong
from services.agent.domain.runs.step_results import ModelReply

# Of an answer in all, with the alternatives. It is stored with the answer, in one event.
DETAILS_MAX = 100_000
TOKEN_CHARS_MAX = 1_000
TOKEN_ID_MAX = 2**31 - 1


class TokenLogprobs:
    """Collects the log probabilities and ids of an answer's tokens, chunk by chunk."""

    def __init__(self) -> None:
        self.content: list[Json] = []
        self.refusal: list[Json] = []
        self.ids: list[int] = []
        self.count = 0
        self.is_odd = False

    def add(self, choice: Any) -> None:
        """Add those of a choice, or of a chunk of one. If a server sends them in another form, none
        is kept of the whole answer, which does not fail for that. Raises TooLong."""
        try:
            self.read(choice)
        except MISSHAPEN:
            self.is_odd = True

    def read(self, choice: Any) -> None:
        """Add those of a choice. Raises an error of MISSHAPEN if they have another form."""
        logprobs = choice.get("logprobs") or {}
        self.content += [self.token(token) for token in logprobs.get("content") or []]
        self.refusal += [self.token(token) for token in logprobs.get("refusal") or []]
        for token_id in choice.get("token_ids") or []:
            self.count_token()
            if not isinstance(token_id, int) or not 0 <= token_id <= TOKEN_ID_MAX:
                raise ValueError("no id of a token")
            self.ids.append(token_id)

    def token(self, given: Any, *, alternatives: bool = True) -> JsonObject:
        """A token with its logarithmic probability, as V1 shows it."""
        self.count_token()
        coded: list[Json] = [int(byte) for byte in (given.get("bytes") or [])[:TOKEN_CHARS_MAX]]
        token: JsonObject = {
            "token": storable(str(given["token"])[:TOKEN_CHARS_MAX]),
            "logprob": float(given["logprob"]),
            "bytes": coded if given.get("bytes") is not None else None,
        }
        if alternatives:
            others = given.get("top_logprobs") or []
            token["top_logprobs"] = [self.token(other, alternatives=False) for other in others]
        return token

    def count_token(self) -> None:
        """Count one more token that is kept. Raises TooLong."""
        self.count += 1
        if self.count > DETAILS_MAX:
            raise TooLong(f"more than {DETAILS_MAX} tokens with their alternatives")

    @property
    def logprobs(self) -> JsonObject | None:
        """All of them; None where nothing was said."""
        if self.is_odd or not (self.content or self.refusal):
            return None
        return {"content": self.content or None, "refusal": self.refusal or None}

    @property
    def token_ids(self) -> list[int] | None:
        """All of them; None where nothing was said."""
        return None if self.is_odd else self.ids or None


FILTERED = "content_filter"
# Why an answer ended, in the words of servers that do not use OpenAI's.
FINISH_REASONS = {
    reason: ours
    for ours, reasons in {
        "stop": ("eos", "eos_token", "end_turn", "stop_sequence"),
        "length": ("max_tokens", "max_output_tokens", "model_length"),
        FILTERED: (
            *("safety", "sensitive", "recitation", "prohibited_content", "blocklist", "spii"),
        ),
        "error": (
            *("abort", "aborted", "cancelled", "canceled", "engine_error", "exception", "failed"),
            *("failure", "internal_error", "server_error", "timeout", "network_error"),
            "insufficient_system_resource",
        ),
    }.items()
    for reason in reasons
}
# The parts of a content that are thoughts.
THINKING_PARTS = ("thinking", "reasoning")
# Where the thoughts of a model stand, and in which of these fields they can be sent back; some
# servers write the same under several names.
THOUGHTS: dict[str, ReasoningField] = {
    "reasoning_content": "reasoning_content",
    "reasoning": "reasoning",
    "reasoning_details": "reasoning",
}


def usage_of(usage: dict[str, Any]) -> Usage:
    """The tokens that the provider counted."""
    shown = fields(usage.get("prompt_tokens_details"))
    said = fields(usage.get("completion_tokens_details"))
    return Usage(
        prompt_tokens=tokens(usage.get("prompt_tokens")),
        completion_tokens=tokens(usage.get("completion_tokens")),
        cached_input_tokens=tokens(shown.get("cached_tokens")),
        reasoning_tokens=tokens(said.get("reasoning_tokens")),
    )


class OpenAIAnswer:
    """An answer whose events come one after the other; a whole answer is one event."""

    def __init__(self, seed: str) -> None:
        self.assembly = Assembly(seed)
        self.calls = CallAssembly(self.assembly)
        self.tags = ThinkingTags()
        self.usage = Usage()
        self.details = TokenLogprobs()
        self.finish_reason: str | None = None
        self.choice: object = None
        self.has_begun = self.has_refused = False
        self.filtered: list[str] = []
        self.reasoning_field: ReasoningField | None = None

    @property
    def whole(self) -> bool:
        return self.finish_reason is not None

    def read(self, data: bytes | str) -> list[ModelDelta]:
        event = event_of(data)
        if refused := refused_in(event):
            raise refused
        if usage := fields(event.get("usage")):
            self.usage = usage_of(usage)
        choice = self.own_choice(event)
        if choice is None:
            return []
        if refused := refused_in(choice if choice.get("error") else {}):
            raise refused
        self.details.add(choice)
        self.filtered += filters_in(choice)
        if reason := words(choice.get("finish_reason")).lower():
            self.finish_reason = FINISH_REASONS.get(reason, reason)
        # What was filtered, or ended with a fault, may have no message at all.
        self.has_begun = self.has_begun or (
            self.finish_reason not in (None, "stop", "tool_calls") and not choice_says(choice)
        )
        return self.said_in(choice)

    def own_choice(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The choice that is read, of all that an event has: the first that came."""
        for choice in entries(event.get("choices")):
            index = choice.get("index")
            self.choice = index if self.choice is None else self.choice
            if index is None or index == self.choice:
                return choice
        return None

    def said_in(self, choice: dict[str, Any]) -> list[ModelDelta]:
        """The chunks of a choice: of what it adds, or of all, unless that only repeats it."""
        delta, message = fields(choice.get("delta")), fields(choice.get("message"))
        if delta or ("delta" in choice and (self.has_begun or not message)):
            self.has_begun = True
            return self.chunks(delta, whole=False)
        if not message or self.has_begun:
            return []
        # All of an answer that is no stream: it need not say that it ends.
        self.has_begun, self.finish_reason = True, self.finish_reason or "stop"
        return self.chunks(message, whole=True)

    def chunks(self, delta: dict[str, Any], *, whole: bool) -> list[ModelDelta]:
        """The deltas that one event of the answer adds."""
        name, thought = next(
            ((name, said) for name in THOUGHTS if (said := words(delta.get(name)))), ("", "")
        )
        self.reasoning_field = self.reasoning_field or THOUGHTS.get(name)
        refusal = words(delta.get("refusal"))
        self.has_refused = self.has_refused or bool(refusal)
        content = delta.get("content")
        if isinstance(content, list):
            thought = thought or words([part for part in content if is_thought(part)])
            content = [part for part in content if not is_thought(part)]
        chunks: list[ModelDelta] = [*self.assembly.think(thought)]
        chunks += self.say(words(content) + refusal)
        calls = entries(delta.get("tool_calls"))
        if function := fields(delta.get("function_call")):
            calls.append({"function": function})
        for place, call in enumerate(calls):
            # Some servers leave out the object around the name and the arguments.
            function, index = fields(call.get("function") or call), call.get("index")
            chunks += self.calls.add(
                index=place if index is None and len(calls) > 1 else index,
                call_id=words(call.get("id")),
                name=words(function.get("name")),
                arguments=function.get("arguments"),
                apart=whole,
                extra=fields(call.get("extra_content")),
            )
        return chunks

    def say(self, text: str) -> list[ModelDelta]:
        """A chunk of the text, which may have thoughts in front."""
        thought, text = self.tags.read(text)
        return [*self.assembly.think(thought), *self.assembly.say(text)]

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last chunks, and the whole. Raises OddAnswer where there was no answer."""
        if not self.has_begun:
            raise OddAnswer("it has no `choices` with a `message` or `delta`")
        thought, text = self.tags.rest()
        chunks = [*self.assembly.think(thought), *self.assembly.say(text), *self.calls.close()]
        if self.finish_reason == FILTERED and not self.has_refused:
            chunks += self.assembly.say(refusal_note(", ".join(self.filtered), self.assembly.texts))
        chunks += self.assembly.close()
        reason = FILTERED if self.has_refused else self.finish_reason or "stop"
        reply = self.assembly.reply(reason, self.usage)
        details = self.details
        return chunks, replace(
            reply,
            reasoning_field=self.reasoning_field if reply.reasoning else None,
            logprobs=details.logprobs,
            token_ids=details.token_ids,
        )


def is_thought(part: object) -> bool:
    """Whether a part of a content is what the model thinks."""
    return fields(part).get("type") in THINKING_PARTS


def choice_says(choice: dict[str, Any]) -> bool:
    """Whether a choice has anything of an answer."""
    return bool(fields(choice.get("delta")) or fields(choice.get("message")))


def filters_in(choice: dict[str, Any]) -> list[str]:
    """The content filters that matched, as Azure names them."""
    found = fields(choice.get("content_filter_results"))
    return [
        f"{name}: {words(result.get('severity')) or 'found'}"
        for name, result in found.items()
        if isinstance(result, dict) and result.get("filtered")
    ]
