"""Envelopes of a turn's messages: the whole reply, and the events only streams have."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import StopReasonType
from libs.contracts.letta.messages import Envelope, message_date


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The tokens of one turn; None where the provider did not say."""

    completion_tokens: int = 0
    prompt_tokens: int = 0
    total_tokens: int = 0
    step_count: int = 0
    run_ids: Sequence[str] | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    context_tokens: int | None = None


def stop_reason(reason: StopReasonType) -> JsonObject:
    return {"message_type": "stop_reason", "stop_reason": reason.value}


def usage_statistics(usage: Usage) -> JsonObject:
    return {
        "message_type": "usage_statistics",
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.total_tokens,
        "step_count": usage.step_count,
        "run_ids": None if usage.run_ids is None else [*usage.run_ids],
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "context_tokens": usage.context_tokens,
    }


def ping(envelope: Envelope) -> JsonObject:
    """A keepalive; its id is `ping-<uuid>`. The first one of a stream tells the run's id."""
    return {
        "id": envelope.id,
        "date": message_date(envelope.date),
        "name": None,
        "message_type": "ping",
        "otid": None,
        "sender_id": None,
        "step_id": None,
        "is_err": None,
        "seq_id": envelope.seq_id,
        "run_id": envelope.run_id,
    }


def error_message(
    run_id: str,
    error_type: str,
    message: str,
    *,
    detail: str | None = None,
    seq_id: int | None = None,
) -> JsonObject:
    """The data of an `event: error`, after which a stream has no more messages."""
    return {
        "message_type": "error_message",
        "run_id": run_id,
        "error_type": error_type,
        "message": message,
        "detail": detail,
        "seq_id": seq_id,
    }


def letta_response(
    messages: Sequence[JsonObject],
    reason: StopReasonType,
    usage: JsonObject,
    *,
    logprobs: JsonValue = None,
    turns: JsonValue = None,
) -> JsonObject:
    """The reply to a turn that was not streamed; `usage` as `usage_statistics` gives it. `logprobs`
    are those of the last answer of the model, `turns` have the ids of the tokens of all."""
    return {
        "messages": [*messages],
        "stop_reason": stop_reason(reason),
        "usage": usage,
        "logprobs": logprobs,
        "turns": turns,
    }
