"""Images that tools gave back, in each provider's words."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.conversations import ToolCall
from tests.contract.examples import SYSTEM, message
from tests.scripted_model import messages_validator, validator
from tests.unit.agent import anthropic_documents
from tests.unit.agent.asking import ask
from tests.unit.agent.openai_documents import body_of

LOOK, READ = (ToolCall(id=f"call_{name}", name=name, arguments="{}") for name in ("look", "read"))
INLINE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PARTS: list[Any] = [
    {"type": "text", "text": "a picture"},
    {"type": "image", "source": INLINE},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}},
]
HISTORY = [
    SYSTEM,
    message(50, role="user", content="Look"),
    message(51, role="assistant", tool_calls=[LOOK, READ]),
    message(52, role="tool", tool_call_id=LOOK.id, name="look", content=PARTS),
    message(53, role="tool", tool_call_id=READ.id, name="read", content="words"),
]


def test_openai_is_shown_them_behind_all_results_of_the_step() -> None:
    body = body_of(ask(*HISTORY))
    assert validator.check(body) is None
    sent: Any = body["messages"]
    assert [wire_message["role"] for wire_message in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert "a picture" in sent[3]["content"]
    line, inline, linked = sent[5]["content"]
    assert "look" in line["text"]
    assert inline["image_url"] == {"url": "data:image/png;base64,aGk="}
    assert linked["image_url"] == {"url": "https://example.com/cat.png"}


def test_openai_is_shown_what_the_user_says_after_them() -> None:
    later = message(54, role="user", content="And?")
    sent: Any = body_of(ask(*HISTORY, later))["messages"]
    assert [wire_message["role"] for wire_message in sent[-2:]] == ["user", "user"]
    assert sent[-1]["content"] == "And?"


def test_anthropic_is_shown_them_within_the_result() -> None:
    body = anthropic_documents.body_of(ask(*HISTORY, model="claude-sonnet-4-5"))
    assert messages_validator.check(body) is None
    turns: Any = body["messages"]
    looked, read = turns[-1]["content"]
    text, inline, linked = looked["content"]
    assert "a picture" in text["text"]
    assert inline["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert linked["source"] == {"type": "url", "url": "https://example.com/cat.png"}
    assert "words" in read["content"]
