"""Why a model gave no usable answer, in the words that clients know from V1."""

from __future__ import annotations

from collections.abc import Sequence

from services.agent.adapters.models.answer_sanitization import storable
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.provider_error_words import OVERFLOW_STATUSES, error_words
from services.agent.domain.runs.step_results import Failure

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
    said = shortened(error.message or text or "without a word", MESSAGE_CHARS_MAX)
    detail = shortened(error.kind or error.code, DETAIL_CHARS_MAX)
    # A server that is broken may say anything of its memory.
    window = error.window if kind == TOO_LONG and status < 500 else None
    return Failure(kind, f"{provider} answered {status}: {said}", detail, stop, window=window)


def failed(error_type: str, message: str, detail: str = "") -> ModelFailed:
    """A failure that is not an HTTP error."""
    stop = "invalid_llm_response" if error_type == "llm_error" else "llm_api_error"
    words = shortened(message, MESSAGE_CHARS_MAX)
    return ModelFailed(Failure(error_type, words, shortened(detail, DETAIL_CHARS_MAX), stop))


def refusal_note(why: str, said: Sequence[str]) -> str:
    """What the user is shown of an answer that its provider withheld, behind what was said before
    that."""
    because = f": {shortened(why, DETAIL_CHARS_MAX)}" if why else "; its provider says no reason"
    what = "broke off here" if said else "refused to answer"
    return f"{PARAGRAPH if said else ''}[The model {what}: a content filter stopped it{because}.]"


def shortened(text: str, chars_max: int) -> str:
    """The beginning of a text, such that it can be kept."""
    return storable(text if len(text) <= chars_max else f"{text[:chars_max]}...")
