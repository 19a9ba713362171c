"""Rows of a Letta server's messages as our messages: forms that the recorded database has not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from deploy.letta_migration.messages import messages_of
from libs.contracts.agent.conversations import Message, ReasoningPart
from libs.contracts.agent.stored_to_letta_messages import served_messages

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "message-0a1b2c3d-0000-4000-8000-0000000000ff"


def row(role: str, **fields: Any) -> dict[str, Any]:
    """A row as the old server writes it."""
    return {
        "id": ID,
        "role": role,
        "content": None,
        "text": None,
        "tool_calls": [],
        "tool_returns": [],
        "tool_call_id": None,
        "created_at": AT,
        "otid": None,
        "name": None,
        "approvals": [],
        "approval_request_id": None,
        "approve": None,
        "denial_reason": None,
        **fields,
    }


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words, "signature": None}]


def call(name: str, arguments: str, call_id: str = "call-1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def kinds(message: Message) -> list[str]:
    """The types of the V1 messages that a message is served as."""
    served = served_messages(message, run_id=None, step_id=None)
    return [str(each["message_type"]) for each in served]


def test_the_text_of_agents_that_speak_is_said_and_that_of_others_is_thought() -> None:
    [said] = messages_of(row("assistant", content=text("Hi")), speaks=True)
    [thought] = messages_of(row("assistant", content=text("Hm")), speaks=False)
    assert (said.content, said.reasoning) == ("Hi", None)
    assert (thought.content, thought.reasoning, thought.inner_thoughts) == (None, "Hm", True)


def test_what_is_said_by_a_tool_is_shown_as_words_and_its_result_is_not_shown() -> None:
    calls = [call("send_message", '{"message": "Good day."}')]
    [said] = messages_of(row("assistant", tool_calls=calls), speaks=False)
    assert kinds(said) == ["assistant_message"]
    returned = {"tool_call_id": "call-1", "func_response": '{"status": "OK", "message": "None"}'}
    [result] = messages_of(row("tool", name="send_message", tool_returns=[returned]), speaks=False)
    assert kinds(result) == []


def test_reasoning_keeps_what_its_provider_wants_back() -> None:
    parts = [
        {"type": "reasoning", "is_native": True, "reasoning": "So.", "signature": "signed"},
        {"type": "redacted_reasoning", "data": "secret"},
        {"type": "omitted_reasoning"},
        {"type": "summarized_reasoning", "id": "r", "encrypted_content": "sealed",
         "summary": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]},
        *text("Done."),
    ]  # fmt: skip
    [message] = messages_of(row("assistant", content=parts), speaks=True)
    assert message.reasoning_parts == [
        ReasoningPart(text="So.", signature="signed"),
        ReasoningPart(redacted="secret"),
        ReasoningPart(),
        ReasoningPart(text="a\n\nb", signature="sealed"),
    ]
    assert message.content == "Done."
    [plain] = messages_of(row("assistant", content=[{**parts[0], "signature": None}]), speaks=True)
    assert (plain.reasoning, plain.reasoning_parts) == ("So.", [])


def test_results_of_calls_beside_each_other_are_messages_of_their_own() -> None:
    returns = [
        {"tool_call_id": "call-1", "status": "success",
         "func_response": '{"status": "OK", "message": "3"}', "stdout": ["out"]},
        {"tool_call_id": "call-2", "status": "error",
         "func_response": '{"status": "Failed", "message": "No"}'},
    ]  # fmt: skip
    first, second = messages_of(row("tool", name="roll", tool_returns=returns), speaks=True)
    assert (first.id, first.content, first.tool_status, first.stdout) == (
        ID, "3", "success", ["out"],
    )  # fmt: skip
    assert second.id != ID
    assert (second.tool_call_id, second.content, second.tool_status) == ("call-2", "No", "error")


def test_rows_of_older_releases_are_read() -> None:
    packed = json.dumps({"type": "user_message", "message": "Hello", "time": "now"})
    [user] = messages_of(row("user", text=packed), speaks=True)
    assert user.content == "Hello"
    login = json.dumps({"type": "login", "time": "now"})
    assert messages_of(row("user", content=text(login)), speaks=True)[0].content == login
    [result] = messages_of(
        row("tool", tool_call_id="call-9", text='{"status": "Failed", "message": "Why"}'),
        speaks=True,
    )
    assert (result.tool_call_id, result.content, result.tool_status) == ("call-9", "Why", "error")


def test_approvals_are_asked_for_and_answered() -> None:
    [asked] = messages_of(row("approval", tool_calls=[call("divide", "{}")]), speaks=True)
    assert kinds(asked) == ["approval_request_message"]
    approval = {"type": "approval", "tool_call_id": "call-1", "approve": False, "reason": "No"}
    [answered] = messages_of(row("approval", approvals=[approval]), speaks=True)
    [served] = served_messages(answered, run_id=None, step_id=None)
    assert served["message_type"] == "approval_response_message"
    assert (served["approve"], served["reason"]) == (False, "No")
    legacy = row("approval", approve=True, approval_request_id="message-1", approvals=None)
    assert messages_of(legacy, speaks=True)[0].request_id == "message-1"


def test_images_of_a_user_stay_parts() -> None:
    parts = [
        *text("Look"),
        {"type": "image", "source": {"type": "url", "url": "https://a.example"}},
    ]
    [message] = messages_of(row("user", content=parts), speaks=True)
    assert message.content == parts
