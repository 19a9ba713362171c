"""Why a model gave no usable answer, in the words that clients know from V1."""

from __future__ import annotations

from services.agent.adapters.models.answer_sanitization import storable
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.step_results import Failure

# What reading an answer of another shape than the provider's raises.
MISSHAPEN = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)

# What a provider says of itself is stored with the run, and shown.
MESSAGE_CHARS_MAX = 2_000
DETAIL_CHARS_MAX = 500

# HTTP status of the provider to the error type that clients know from V1.
ERROR_TYPES = {
    400: "llm_bad_request",
    401: "llm_authentication",
    402: "llm_insufficient_credits",
    403: "llm_permission_denied",
    404: "llm_not_found",
    408: "llm_timeout",
    413: "context_window_exceeded",
    422: "llm_unprocessable_entity",
    429: "llm_rate_limit",
    503: "llm_provider_overloaded",
    504: "llm_timeout",
    529: "llm_provider_overloaded",
}


def failure_of(status: int, body: object, text: str) -> Failure:
    """An HTTP error of the provider as the reason why a run failed."""
    error = body if isinstance(body, dict) else {}
    message = str(error.get("message") or text)
    code = error.get("code")
    kind = ERROR_TYPES.get(status, "llm_error")
    if code == "insufficient_quota":
        kind = "llm_insufficient_credits"
    if code == "context_length_exceeded":
        kind = "context_window_exceeded"
    return refused(kind, status, message, str(code or ""))


def refused(kind: str, status: int, message: str, detail: str) -> Failure:
    """The provider answered with an error."""
    stop = "insufficient_credits" if kind == "llm_insufficient_credits" else "llm_api_error"
    message = f"The model answered {status}: {shortened(message, MESSAGE_CHARS_MAX)}"
    return Failure(kind, message, shortened(detail, DETAIL_CHARS_MAX), stop)


def failed(error_type: str, message: str, cause: BaseException) -> ModelFailed:
    """A failure that is not an HTTP error."""
    detail = shortened(f"{type(cause).__name__}: {cause}", DETAIL_CHARS_MAX)
    stop = "invalid_llm_response" if error_type == "llm_error" else "llm_api_error"
    return ModelFailed(Failure(error_type, message, detail, stop))


def misunderstood(cause: BaseException) -> ModelFailed:
    """The model answered with something else than an answer."""
    return failed("llm_error", "The model's answer cannot be understood", cause)


def shortened(text: str, chars_max: int) -> str:
    """The beginning of a text, such that it can be kept."""
    return storable(text if len(text) <= chars_max else f"{text[:chars_max]}...")
