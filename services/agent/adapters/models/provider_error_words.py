"""Parsers of providers' errors, in whatever form and words.

Each server that speaks a provider's wire writes its errors otherwise: an object, a text, a list,
one inside the other, with a number or a word for what went wrong, or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from services.agent.adapters.models.answer_sanitization import fields, number, storable, words
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.transport import Refused
from services.agent.domain.runs.step_results import Failure

DEPTH_MAX = 4
UNKNOWN_STATUS = 500

# Statuses with which requests are refused that are too long for the model.
OVERFLOW_STATUSES = (400, 404, 413, 422)

# How servers say that a request is too long for its model. Of a context they may say other things,
# so something is to be more than it holds.
CONTEXT = r"context[ _-]?(?:length|size|window|limit)"
MORE = (
    r"(?:exceed|\bmax|longer|greater|larger|too (?:long|large|big|small)|more than|overflow"
    r"|reduce|requested|\bonly\b|not enough|\bfit|reached|>|\d tokens)"
)
OVERFLOWS = re.compile(
    rf"{CONTEXT}[^.]{{0,120}}{MORE}|{MORE}[^.]{{0,120}}{CONTEXT}"
    r"|\bn_ctx\b|max_(?:model|seq)_len"
    r"|max_(?:num|input|prompt)_tokens"
    r"|\d tokens\b[^.]{0,40}\bmore than"
    r"|(?:prompt|input|request|conversation|messages|sequence)s?`?(?: \([^)]{0,200}\))?"
    r" (?:is|are|was|has become)? ?(?:too long|too large for model|longer than"
    r"|greater than the (?:maximum|context))"
    r"|(?:prompt|input|inputs|sequence)\b[^.]{0,60}\b(?:exceeds?|exceeded|exceeding|longer than"
    r"|greater than)\b[^.]{0,60}\b(?:tokens?|length|limit|max\w{0,20}|size|context)\b"
    r"|too many (?:input |prompt )?tokens"
    r"|token (?:count|limit)\b[^.]{0,60}\bexceed|exceed\w{0,20}[^.]{0,60}\btoken (?:count|limit)"
    r"|(?:input|prompt)? ?tokens exceed"
    r"|exceed\w{0,20}[^.]{0,40}\bnumber of (?:input )?tokens"
    r"|max(?:imum)? (?:model|prompt|input|sequence) (?:length|tokens)"
    r"|reduce the length of (?:the|your) (?:messages|prompt|input)"
    r"|`inputs` (?:tokens|must have)|range of input length"
    r"|total number of tokens in the prompt",
    re.IGNORECASE,
)
# What other things have that may be too large; a server that counts tokens as well means those.
OTHER_UNITS = re.compile(r"(?<![a-z])(?:pixels?|px|[kmg]i?b|(?:mega|kilo)?bytes)\b", re.IGNORECASE)
# What a client wrote stands in quotes; so do the values of an error in an error. None begins with
# a quote that is escaped: so no character is read again from each of many.
QUOTED = re.compile(r"""(?<![\w\\])(["'])(?:\\.|(?!\1)[^\\])*\1(?!\w)""", re.DOTALL)
# Of an error, to find out what it means.
MESSAGE_READ_CHARS_MAX = 16_000
CODE_READ_CHARS_MAX = 500
WORDS_READ_MAX = 4_000
TOKENS = r"(\d[\d,_]{0,20}k?)\b"
# Where they say how long it may be.
WINDOWS = [
    re.compile(pattern.replace("N", TOKENS), re.IGNORECASE)
    for pattern in (
        r"> N\b|<= N\b",
        r"(?:context|max(?:imum)? (?:model|prompt|sequence|input))"
        r"[ _-]?(?:length|size|window|limit)"
        r"(?: is| of| is only| of only|:|,)? ?\(?N",
        r"N(?: tokens?)? (?:max(?:imum)? )?context",
        r"max_(?:model|seq)_len\W{0,3}(?:of |is )?N|max_\w{1,40}_tokens \(?N",
        r"less than N tokens|cannot exceed N",
        r"(?:limit|maximum)(?: of| is|:)? N",
        r"number of (?:input )?tokens(?: allowed)? \(?N",
        r"(?:token limit|n_ctx): ?N",
        r"\[\d{1,20}, ?N\]",
    )
]
# How servers say that they miss a field.
MISSES = re.compile(
    r"\b(?:must(?! not| be (?:removed|omitted|dropped|absent|unset))|missing"
    r"|required(?! to be absent)|needs|lacks?|should (?:contain|include|have)|not found"
    r"|(?:cannot|must not) be empty)\b",
    re.IGNORECASE,
)
# The parts of the path of a field: `messages[1].name`, `messages.1.name`.
PATH_PARTS = re.compile(r"[^.\[\]]+")
WINDOW_MIN, WINDOW_MAX = 256, 2**31
TWO_NUMBERS = 2
# Where they say how much of it the question took, without the room for the answer.
PROMPTS = re.compile(
    rf"\({TOKENS} in the messages|Given: {TOKENS} `inputs`|has {TOKENS} input tokens"
    rf"|{TOKENS} of text input",
    re.IGNORECASE,
)

# The status that an error stands for which came with the status 200, by its type or code.
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
STATUSES_OF_WORDS = (
    (re.compile(r"quota|billing|credit|payment|insufficient.?balance", re.IGNORECASE), 402),
    (re.compile(r"rate.?limit|too.?many.?requests|throttl", re.IGNORECASE), 429),
    (re.compile(r"overload|unavailable", re.IGNORECASE), 503),
    (re.compile(r"timeout|timed.?out", re.IGNORECASE), 504),
    (re.compile(r"authenticat|unauthori|api.?key", re.IGNORECASE), 401),
    (re.compile(r"not.?found", re.IGNORECASE), 404),
    (re.compile(r"bad.?request|invalid|validation|exceed_context|context_length", re.I), 400),
)


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """An error as its provider tells it: `code` and `kind` are its words for what went wrong."""

    message: str = ""
    code: str = ""
    kind: str = ""
    parameter: str = ""
    status: int | None = None
    window: int | None = None
    prompt: int | None = None

    @property
    def all_words(self) -> str:
        """The code, kind and message in one text."""
        return " ".join((self.code, self.kind, self.message))

    @property
    def says_too_long(self) -> bool:
        """Whether it says that the request is too long for the model."""
        return says_overflow(self.all_words)

    @property
    def blames_room_for_answer(self) -> bool:
        """Whether the question would fit, if less room were wanted for the answer."""
        if re.search(r"max_\w{0,40}tokens\W.{0,40}too (?:large|high)", self.message):
            return True
        return bool(self.window and self.prompt and self.prompt < self.window)

    def misses(self, field: str) -> bool:
        """Whether it says that a field is missing, and not that it is not taken."""
        return names(self.message, field) and bool(MISSES.search(self.message))

    def refused_parameters(self, sent: Iterable[str]) -> set[str]:
        """Which of these parameters it names as those that it does not take."""
        first, *behind = PATH_PARTS.findall(self.parameter) or [""]
        # In a message it is the field at the end of the path; some name no more than the message.
        named = behind[-1] if first == "messages" and behind else first
        if named and not (first == "messages" and (named == first or named.isdecimal())):
            return {name for name in sent if name == named}
        return {name for name in sent if names(self.message, name)}


def error_words(body: object) -> ErrorWords:
    """The known fields of an error's body; None for each that is missing."""
    found: dict[str, Any] = {}
    for error in layers(body):
        found |= {name: value for name, value in error.items() if value not in (None, "", [], {})}
    message = next((said for name in MESSAGES if (said := message_text(found.get(name)))), "")
    code, kind = found.get("code"), found.get("type") or found.get("error_type")
    raw = fields(found.get("metadata")).get("raw")
    if isinstance(raw, str) and raw not in message:
        message = f"{message}: {raw}" if message else raw
    message = message[:MESSAGE_READ_CHARS_MAX]
    statuses = [number(found.get(name)) for name in ("code", "status", "status_code")]
    window = number(found.get("n_ctx")) or window_in(message)
    return ErrorWords(
        message=message,
        code=""
        if code is None or isinstance(code, dict | list)
        else str(code)[:CODE_READ_CHARS_MAX],
        kind=words(kind)[:CODE_READ_CHARS_MAX],
        parameter=words(found.get("param")) or refused_field(found.get("detail")),
        status=next((status for status in statuses if status and 400 <= status <= 599), None),
        window=window if window and WINDOW_MIN <= window <= WINDOW_MAX else None,
        prompt=number(found.get("n_prompt_tokens")) or prompt_in(message),
    )


MESSAGES = (
    *("message", "msg", "error_msg", "status_msg", "faultstring", "error", "detail", "errors"),
    *("error_message", "Message"),
)
# Where an error stands in an error, or in an event that has other fields too.
INNER = ("base_resp", "fault", "x_groq", "error")
# The codes of answers that went well.
NO_FAULT = (None, "", 0, "0")


def layers(body: object, depth: int = DEPTH_MAX) -> Iterator[dict[str, Any]]:
    """The objects of an error, which may stand one inside the other, from the outermost in."""
    if isinstance(body, list):
        body = next((entry for entry in body if entry), None)
    if isinstance(body, str):
        yield {"message": body}
    if not isinstance(body, dict) or not depth:
        return
    yield {name: value for name, value in body.items() if name not in INNER}
    for name in INNER:
        yield from layers(body.get(name), depth - 1)


def message_text(value: object) -> str:
    """The words of a message, also of several, each with the field that it is about."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(message_text, value)))
    if isinstance(value, dict):
        place = value.get("loc")
        where = ".".join(map(str, place)) + ": " if isinstance(place, list) else ""
        said = value.get("msg") or value.get("message")
        return where + (words(said) or json.dumps(value, ensure_ascii=False))
    return words(value)


def refused_field(detail: object) -> str:
    """The field that a validation error is about, as FastAPI tells it."""
    for error in detail if isinstance(detail, list) else ():
        place = fields(error).get("loc")
        if isinstance(place, list) and len(place) > 1:
            return ".".join(map(str, place[1:]))
    return ""


def error_in(event: dict[str, Any]) -> ErrorWords | None:
    """The error that an answer tells of which came with the status 200, if it is one."""
    if not is_marked_as_error(event):
        known = any(event.get(name) for name in ("choices", "content", "type", "object", "usage"))
        bare = ("message", "detail", "errors", "msg", "Message")
        if known or not any(event.get(name) for name in bare):
            return None
        if isinstance(event.get("message"), dict):
            return None
    return error_words(event)


def is_marked_as_error(event: dict[str, Any]) -> bool:
    """Whether an answer says that it is an error, be it in a field of one provider: `base_resp`
    stands in the good answers of MiniMax too, and `x_groq` in those of Groq."""
    return bool(
        event.get("error")
        or event.get("object") == "error"
        or event.get("type") == "error"
        or event.get("error_code") not in NO_FAULT
        or fields(event.get("base_resp")).get("status_code") not in NO_FAULT
        or fields(event.get("x_groq")).get("error")
        or fields(event.get("fault")).get("faultstring")
    )


def refused_in(event: dict[str, Any]) -> Refused | None:
    """The same as the provider would say it by the status of its answer."""
    error = error_in(event)
    return Refused(status_of(error), {}, json.dumps(event)) if error else None


def status_of(error: ErrorWords) -> int:
    """The status that an error stands for."""
    if error.status:
        return error.status
    for word in (error.kind, error.code):
        if word in STATUSES:
            return STATUSES[word]
    if error.says_too_long:
        return 400
    for pattern, status in STATUSES_OF_WORDS:
        if pattern.search(f"{error.kind} {error.code}"):
            return status
    return next((s for p, s in STATUSES_OF_WORDS[:3] if p.search(error.message)), UNKNOWN_STATUS)


def names(text: str, parameter: str) -> bool:
    """Whether a text names a parameter."""
    return bool(re.search(rf"(?<![\w-]){re.escape(parameter)}(?![\w-])", text))


def says_overflow(text: str) -> bool:
    """Whether a server says that a request is too long for its model, in its own words."""
    said = without_quotes(text[:WORDS_READ_MAX])
    other = OTHER_UNITS.search(said) and "token" not in said.lower()
    return not other and bool(OVERFLOWS.search(said))


def without_quotes(text: str) -> str:
    """The text without the words that it quotes; values of JSON are read too."""

    def kept(found: re.Match[str]) -> str:
        before, behind = text[: found.start()][-3:], text[found.end() :][:3]
        is_value = before.rstrip().endswith(":") and behind.lstrip().startswith((",", "}"))
        mark, value = found[1], found[0][1:-1]
        return without_quotes(value.replace(f"\\{mark}", mark)) if is_value else mark * 2

    return QUOTED.sub(kept, text)


def window_in(message: str) -> int | None:
    """The size of a model's window in tokens, by the words of its server."""
    if not says_overflow(message):
        return None
    message = without_quotes(message[:WORDS_READ_MAX])
    for pattern in WINDOWS:
        for found in pattern.finditer(message):
            tokens = tokens_of(next(filter(None, found.groups())))
            if WINDOW_MIN <= tokens <= WINDOW_MAX:
                return tokens
    # Of two numbers in other words, one is what was asked for, which is more.
    counts = sorted({tokens_of(text) for text in re.findall(TOKENS, message)})
    return counts[0] if len(counts) == TWO_NUMBERS and counts[0] >= WINDOW_MIN else None


def prompt_in(message: str) -> int | None:
    """The length of the question in tokens, by the words of its server."""
    found = PROMPTS.search(message)
    return tokens_of(next(filter(None, found.groups()))) if found else None


def tokens_of(text: str) -> int:
    """A number of tokens as people write it: 4096, 4,096 or 4k."""
    digits = text.lower().replace(",", "").replace("_", "")
    thousands = digits.endswith("k")
    with suppress(ValueError):
        return int(digits.removesuffix("k")) * (1_024 if thousands else 1)
    return 0


# What reading an answer of another shape than the provider's raises.
MISSHAPEN = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)

# What a provider says of itself is stored with the run, and shown.
MESSAGE_CHARS_MAX = 2_000
DETAIL_CHARS_MAX = 500

PARAGRAPH = "\n\n"

TOO_LONG = "context_window_exceeded"
UNPAID = "llm_insufficient_credits"

# HTTP status of the provider to the error type that clients know from V1.
ERROR_TYPES = {
    400: "llm_bad_request",
    401: "llm_authentication",
    402: UNPAID,
    403: "llm_permission_denied",
    404: "llm_not_found",
    408: "llm_timeout",
    413: TOO_LONG,
    422: "llm_unprocessable_entity",
    429: "llm_rate_limit",
    503: "llm_provider_overloaded",
    504: "llm_timeout",
    529: "llm_provider_overloaded",
}
UNPAID_WORDS = ("credit balance is too low", "insufficient_quota", "insufficient balance")


def failure_of(provider: str, status: int, body: object, text: str) -> Failure:
    """An HTTP error of the provider as the reason why a run failed; `text` is its body where that
    is nothing that is known."""
    error = error_words(body)
    kind = ERROR_TYPES.get(status, "llm_error")
    if any(words in error.all_words.lower() for words in UNPAID_WORDS):
        kind = UNPAID
    elif error.says_too_long and (status in OVERFLOW_STATUSES or status >= 500):
        kind = TOO_LONG
    stop = "insufficient_credits" if kind == UNPAID else "llm_api_error"
    said = shorten(error.message or text or "without a word", MESSAGE_CHARS_MAX)
    detail = shorten(error.kind or error.code, DETAIL_CHARS_MAX)
    # A server that is broken may say anything of its memory.
    window = error.window if kind == TOO_LONG and status < 500 else None
    return Failure(kind, f"{provider} answered {status}: {said}", detail, stop, window=window)


def model_failure(error_type: str, message: str, detail: str = "") -> ModelFailed:
    """The exception for a failure that is not an HTTP error."""
    stop = "invalid_llm_response" if error_type == "llm_error" else "llm_api_error"
    words = shorten(message, MESSAGE_CHARS_MAX)
    return ModelFailed(Failure(error_type, words, shorten(detail, DETAIL_CHARS_MAX), stop))


def refusal_note(why: str, said: Sequence[str]) -> str:
    """The note to the user on an answer that its provider withheld, behind the text that came
    before."""
    because = f": {shorten(why, DETAIL_CHARS_MAX)}" if why else "; its provider says no reason"
    what = "broke off here" if said else "refused to answer"
    return f"{PARAGRAPH if said else ''}[The model {what}: a content filter stopped it{because}.]"


def shorten(text: str, chars_max: int) -> str:
    """The beginning of a text, storable."""
    return storable(text if len(text) <= chars_max else f"{text[:chars_max]}...")
