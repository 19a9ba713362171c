"""What OpenAI's chat completions answer, whole or in server-sent events, in our words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from libs.contracts.agent.conversations import Usage
from libs.contracts.bus_messages import Json, JsonObject
from services.agent.adapters.models.answer_assembly import Assembly, tokens
from services.agent.adapters.models.answer_sanitization import (
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
# Where the thoughts of a model stand; some servers write the same under several names.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")


def reply_of(body: Any, seed: str = "") -> ModelReply:
    """The reply in a whole answer, which came without streaming."""
    answer = OpenAIAnswer(seed)
    answer.read(json.dumps(body))
    return answer.end()[1]


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
        self.usage = Usage()
        self.details = TokenLogprobs()
        self.finish_reason: str | None = None
        self.choice: object = None
        self.has_begun = self.has_refused = False
        self.filtered: list[str] = []

    @property
    def whole(self) -> bool:
        """Whether the answer has come to its end."""
        return self.finish_reason is not None

    def read(self, data: bytes | str) -> list[ModelDelta]:
        """The chunks of one event. Raises Refused if it tells of an error, and OddAnswer."""
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
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        # What was filtered may have no message at all.
        self.has_begun = self.has_begun or (
            self.finish_reason == FILTERED and not choice_says(choice)
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
        thought = next((said for name in THOUGHTS if (said := words(delta.get(name)))), "")
        refusal = words(delta.get("refusal"))
        self.has_refused = self.has_refused or bool(refusal)
        chunks: list[ModelDelta] = [*self.assembly.think(thought)]
        chunks += self.assembly.say(words(delta.get("content")) + refusal)
        calls = entries(delta.get("tool_calls"))
        if function := fields(delta.get("function_call")):
            calls.append({"function": function})
        for place, call in enumerate(calls):
            function, index = fields(call.get("function")), call.get("index")
            chunks += self.calls.add(
                index=place if index is None and len(calls) > 1 else index,
                call_id=words(call.get("id")),
                name=words(function.get("name")),
                arguments=function.get("arguments"),
                apart=whole,
            )
        return chunks

    def end(self) -> tuple[list[ModelDelta], ModelReply]:
        """The last chunks, and the whole. Raises OddAnswer where there was no answer."""
        if not self.has_begun:
            raise OddAnswer("it has no `choices` with a `message` or `delta`")
        chunks = self.calls.close()
        if self.finish_reason == FILTERED and not self.has_refused:
            chunks += self.assembly.say(refusal_note(", ".join(self.filtered), self.assembly.texts))
        chunks += self.assembly.close()
        reason = FILTERED if self.has_refused else self.finish_reason or "stop"
        reply = self.assembly.reply(reason, self.usage)
        details = self.details
        return chunks, replace(reply, logprobs=details.logprobs, token_ids=details.token_ids)


def choice_says(choice: dict[str, Any]) -> bool:
    """Whether a choice has anything of an answer."""
    return bool(fields(choice.get("delta")) or fields(choice.get("message")))


def filters_in(choice: dict[str, Any]) -> list[str]:
    """What a content filter found, as Azure tells it."""
    found = fields(choice.get("content_filter_results"))
    return [
        f"{name}: {words(result.get('severity')) or 'found'}"
        for name, result in found.items()
        if isinstance(result, dict) and result.get("filtered")
    ]
