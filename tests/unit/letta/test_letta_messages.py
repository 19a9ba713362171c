"""Messages and events are rebuilt from the recordings, and the SDK reads them."""

from datetime import datetime

import pytest
from letta_client.types.agents import LettaResponse, LettaStreamingResponse, Message
from pydantic import JsonValue, TypeAdapter

from libs.contracts.agent.stream_chunks import call_chunk
from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import MessageType, StopReasonType
from libs.contracts.letta.messages import (
    Envelope,
    ToolCall,
    ToolReturned,
    approval_request_message,
    approval_response_message,
    assistant_message,
    event_message,
    hidden_reasoning_message,
    only_types,
    otid_of,
    reasoning_message,
    summary_message,
    system_message,
    tool_call_message,
    tool_return_message,
    user_message,
)
from libs.contracts.letta.response_and_stream_events import (
    Usage,
    error_message,
    letta_response,
    ping,
    stop_reason,
    usage_statistics,
)
from tests.unit.letta.recordings import body, differences, events

STREAMED: TypeAdapter[object] = TypeAdapter(LettaStreamingResponse)
LISTED: TypeAdapter[object] = TypeAdapter(Message)

REPLIES = [
    "message_send_default",
    "message_send_tool_default",
    "message_send_custom_tool",
    "message_send_tool_memgpt_v2",
    "message_send_max_steps_1",
    "message_send_tool_anthropic",
]
STREAMS = [
    "message_stream_default",
    "message_stream_background",
    "message_stream_tokens_default",
    "message_stream_tokens_tool_default",
]
HEAD = Envelope(
    id="message-1a427bb5-bc60-4d73-9c95-ee46f3a21448",
    date=datetime.fromisoformat("2026-11-21T21:48:51.9+00:00"),
)


def envelope(recorded: JsonObject) -> Envelope:
    fields = {key: recorded.get(key) for key in Envelope.__dataclass_fields__}
    date = datetime.fromisoformat(str(recorded["date"]))
    return Envelope(**{**fields, "date": date})  # type: ignore[arg-type]


def one(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def many(value: JsonValue) -> list[JsonObject]:
    assert isinstance(value, list)
    return [one(item) for item in value]


def rebuilt(recorded: JsonObject) -> JsonObject:
    """The same message, made by our builders from the recorded values."""
    match recorded["message_type"]:
        case "system_message":
            return system_message(envelope(recorded), str(recorded["content"]))
        case "user_message":
            return user_message(envelope(recorded), recorded["content"])
        case "assistant_message":
            return assistant_message(envelope(recorded), recorded["content"])
        case "reasoning_message":
            native = recorded["source"] == "reasoner_model"
            return reasoning_message(envelope(recorded), str(recorded["reasoning"]), native=native)
        case "tool_call_message" if isinstance(recorded["tool_calls"], list):
            calls = many(recorded["tool_calls"])
            return tool_call_message(envelope(recorded), [tool_call(call) for call in calls])
        case "tool_call_message":
            delta = one(recorded["tool_call"])
            name, arguments = delta.get("name"), delta.get("arguments")
            whole = tool_call_message(
                envelope(recorded), [ToolCall(id=str(delta["tool_call_id"]), name="", arguments="")]
            )
            told = {"name": name, "arguments": arguments}
            return call_chunk(
                whole, delta, **{key: value for key, value in told.items() if value is not None}
            )
        case "tool_return_message":
            returns = [returned(item) for item in many(recorded["tool_returns"])]
            return tool_return_message(envelope(recorded), returns)
        case "ping":
            return ping(envelope(recorded))
        case "stop_reason":
            return stop_reason(StopReasonType(str(recorded["stop_reason"])))
        case "usage_statistics":
            return usage_statistics(usage(recorded))
        case other:
            raise AssertionError(f"no builder for {other}")


def tool_call(recorded: JsonObject) -> ToolCall:
    return ToolCall(
        id=str(recorded["tool_call_id"]),
        name=str(recorded["name"]),
        arguments=str(recorded["arguments"]),
    )


def returned(recorded: JsonObject) -> ToolReturned:
    return ToolReturned(
        tool_call_id=str(recorded["tool_call_id"]),
        content=str(recorded["tool_return"]),
        status="success" if recorded["status"] == "success" else "error",
        stdout=recorded["stdout"],  # type: ignore[arg-type]
        stderr=recorded["stderr"],  # type: ignore[arg-type]
    )


def usage(recorded: JsonObject) -> Usage:
    fields = {key: recorded[key] for key in Usage.__dataclass_fields__}
    return Usage(**fields)  # type: ignore[arg-type]


def sdk_class(message_type: str) -> set[str]:
    name = "".join(part.capitalize() for part in message_type.split("_"))
    return {name, f"Letta{name}"}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_rebuilt_as_recorded_and_the_sdk_reads_it(name: str) -> None:
    recorded = one(body(name))
    messages = [rebuilt(message) for message in many(recorded["messages"])]
    reason = StopReasonType(str(one(recorded["stop_reason"])["stop_reason"]))
    tokens = usage_statistics(usage(one(recorded["usage"])))
    built = letta_response(messages, reason, tokens)
    assert differences(built, recorded) == []
    read = LettaResponse.model_validate(built)
    for message, wire in zip(read.messages, messages, strict=True):
        assert type(message).__name__ in sdk_class(str(wire["message_type"]))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_rebuilt_as_recorded_and_the_sdk_reads_it(name: str) -> None:
    for recorded in events(name):
        built = rebuilt(recorded)
        assert differences(built, recorded) == []
        read = STREAMED.validate_python(built)
        assert type(read).__name__ in sdk_class(str(built["message_type"]))


def test_stored_messages_are_rebuilt_as_recorded() -> None:
    for recorded in many(body("messages_list")):
        assert differences(rebuilt(recorded), recorded) == []


@pytest.mark.parametrize("name", REPLIES)
def test_otids_are_derived_as_recorded(name: str) -> None:
    parts: dict[str, int] = {}
    for message in many(one(body(name))["messages"]):
        part = parts.get(str(message["id"]), 0)
        parts[str(message["id"])] = part + 1
        assert otid_of(str(message["id"]), part) == message["otid"]


CALL = ToolCall(id="call_1", name="pay", arguments="{}")
UNRECORDED = [
    hidden_reasoning_message(HEAD, "redacted", "x"),
    approval_request_message(HEAD, [CALL]),
    approval_response_message(
        HEAD, [{"type": "approval", "tool_call_id": "call_1", "approve": False, "reason": "no"}]
    ),
    user_message(HEAD, [{"type": "text", "text": "hi"}]),
    tool_return_message(HEAD, [ToolReturned(tool_call_id="c", content="no", status="error")]),
]


@pytest.mark.parametrize("built", UNRECORDED, ids=lambda built: str(built["message_type"]))
def test_the_sdk_reads_what_was_not_recorded(built: JsonObject) -> None:
    read = STREAMED.validate_python(built)
    assert type(read).__name__ in sdk_class(str(built["message_type"]))


def test_the_sdk_reads_summaries_and_events_in_a_list() -> None:
    stats: JsonObject = {
        "trigger": "manual",
        "context_window": 1000,
        "messages_count_before": 9,
        "messages_count_after": 2,
    }
    for built in (summary_message(HEAD, "s", stats), event_message(HEAD, {"trigger": "manual"})):
        read = LISTED.validate_python(built)
        assert type(read).__name__ in sdk_class(str(built["message_type"]))


def test_the_sdk_reads_an_error() -> None:
    read = STREAMED.validate_python(error_message("run-1", "llm_timeout", "too slow"))
    assert type(read).__name__ == "LettaErrorMessage"


def test_only_the_asked_types_are_kept() -> None:
    messages = [system_message(HEAD, "s"), assistant_message(HEAD, "a")]
    assert only_types(messages, None) == messages
    assert only_types(messages, [MessageType.assistant_message]) == messages[1:]
    assert only_types(messages, []) == []


def test_dates_are_whole_seconds_in_utc() -> None:
    assert system_message(HEAD, "s")["date"] == "2026-11-21T21:48:51+00:00"
