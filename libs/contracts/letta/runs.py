"""Runs as clients read them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.enums import MessageType, RunStatus, StopReasonType
from libs.contracts.letta.message_requests import LettaRequest


class RunConfig(BaseModel):
    """One turn of an agent, from the request that started it to its end."""

    model_config = ConfigDict(frozen=True)

    id: str
    status: RunStatus = RunStatus.created
    created_at: datetime
    completed_at: datetime | None = None
    agent_id: str
    conversation_id: str | None = None
    base_template_id: str | None = None
    background: bool = False
    metadata: dict[str, JsonValue] | None = None
    use_assistant_message: bool = True
    assistant_message_tool_name: str = "send_message"
    assistant_message_tool_kwarg: str = "message"
    include_return_message_types: list[MessageType] | None = None
    stop_reason: StopReasonType | None = None
    callback_url: str | None = None
    callback_sent_at: datetime | None = None
    callback_status_code: int | None = None
    callback_error: str | None = None
    ttft_ns: int | None = None
    total_duration_ns: int | None = None


def run_config(
    request: LettaRequest,
    *,
    id: str,
    agent_id: str,
    created_at: datetime,
    conversation_id: str | None = None,
    background: bool = False,
    metadata: Mapping[str, JsonValue] | None = None,
) -> RunConfig:
    """The run that a request starts; `metadata` as in `{"run_type": "send_message_async"}`."""
    return RunConfig(
        id=id,
        created_at=created_at,
        agent_id=agent_id,
        conversation_id=conversation_id,
        background=background,
        metadata=None if metadata is None else dict(metadata),
        use_assistant_message=request.use_assistant_message,
        assistant_message_tool_name=request.assistant_message_tool_name,
        assistant_message_tool_kwarg=request.assistant_message_tool_kwarg,
        include_return_message_types=request.include_return_message_types,
        callback_url=getattr(request, "callback_url", None),
    )


def run_state(run: RunConfig) -> JsonObject:
    """The run as clients read it."""
    types = run.include_return_message_types
    reason = run.stop_reason
    return {
        "id": run.id,
        "status": run.status.value,
        "created_at": timestamp(run.created_at),
        "completed_at": _moment(run.completed_at),
        "agent_id": run.agent_id,
        "conversation_id": run.conversation_id,
        "base_template_id": run.base_template_id,
        "background": run.background,
        "metadata": run.metadata,
        "request_config": {
            "use_assistant_message": run.use_assistant_message,
            "assistant_message_tool_name": run.assistant_message_tool_name,
            "assistant_message_tool_kwarg": run.assistant_message_tool_kwarg,
            "include_return_message_types": None if types is None else [t.value for t in types],
        },
        "stop_reason": None if reason is None else reason.value,
        "callback_url": run.callback_url,
        "callback_sent_at": _moment(run.callback_sent_at),
        "callback_status_code": run.callback_status_code,
        "callback_error": run.callback_error,
        "ttft_ns": run.ttft_ns,
        "total_duration_ns": run.total_duration_ns,
    }


def run_usage(usage: Mapping[str, Any]) -> JsonObject:
    """The tokens of a run as clients read them, from its `usage_statistics`; the details are null
    where there is nothing to say."""
    cached, written = usage.get("cached_input_tokens") or 0, usage.get("cache_write_tokens") or 0
    reasoning = usage.get("reasoning_tokens") or 0
    prompt = {
        "cached_tokens": cached,
        "cache_read_tokens": cached,
        "cache_creation_tokens": written,
    }
    return {
        "completion_tokens": usage.get("completion_tokens", 0),
        "prompt_tokens": usage.get("prompt_tokens", 0),
        "total_tokens": usage.get("total_tokens", 0),
        "prompt_tokens_details": prompt if cached or written else None,
        "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)
