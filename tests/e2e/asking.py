"""How the end-to-end tests ask: what they all send, and how they read what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import Letta

MODEL = "openai/gpt-4o-mini"
EMBEDDING = "openai/text-embedding-3-small"
SECONDS_MAX = 30.0
HELLO = "Hello from the scripted model."  # what it says to anything else
# Settings of a server that has no model but the offline one.
NO_PROVIDER = {"OPENAI_API_KEY": "", "OPENAI_API_BASE": "", "OPENAI_BASE_URL": ""}
SDK_HEADERS = {
    "user-agent": "Letta/Python 1.12.1",
    "x-stainless-package-version": "1.12.1",
    "x-stainless-lang": "python",
}
USER = "user-00000000-0000-4000-8000-000000000000"
NOBODY = "00000000-0000-4000-8000-000000000000"
ID = re.compile(r"[a-z_]+-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
MESSAGE_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
CLAUDE = "anthropic/claude-sonnet-4-5-20250929"

SEND = pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
STREAM = pytest.mark.operation("POST /v1/agents/{agent_id}/messages/stream")
CANCEL = pytest.mark.operation("POST /v1/agents/{agent_id}/messages/cancel")


LOGIN = ("canary-password", "canary-key")  # in the addresses of the models of one server


def with_login(base_url: str) -> str:
    """The address with a login and a key."""
    password, key = LOGIN
    return base_url.replace("//", f"//ada:{password}@") + f"?api_key={key}"


def unique(word: str) -> str:
    """A name that no other test has."""
    return f"{word}-{uuid4().hex[:12]}"


def is_id(kind: str, value: str | None) -> bool:
    return value is not None and value.startswith(f"{kind}-") and bool(ID.fullmatch(value))


def says(text: str, **fields: Any) -> list[dict[str, Any]]:
    """One message of the user."""
    return [{"role": "user", "content": text, **fields}]


def tool_call(tool: str, **arguments: Any) -> str:
    """What the user says to have the scripted model call a tool."""
    return f"CALL:{tool}:{json.dumps(arguments)}"


def tool_return(messages: Iterable[Any]) -> Any:
    """The only message of these that says what a tool returned."""
    [found] = [message for message in messages if message.message_type == "tool_return_message"]
    return found


def call_tool(letta: Letta, agent_id: str, tool: str, **arguments: Any) -> Any:
    """Have an agent's model call a tool; the message that says what the tool returned."""
    said = says(tool_call(tool, **arguments))
    return tool_return(letta.agents.messages.create(agent_id, messages=said).messages)


def ask(letta: Letta, agent_id: str, text: str, **fields: Any) -> tuple[list[Any], str]:
    """The messages of an answer without its thoughts, and its stop reason."""
    body = letta.agents.messages.create(agent_id, messages=says(text), **fields)
    spoken = [message for message in body.messages if message.message_type != "reasoning_message"]
    return spoken, body.stop_reason.stop_reason


def say(letta: Letta, conversation_id: str, text: str, **fields: Any) -> str:
    """Send a message to a conversation; returns the words of the answer."""
    stream = letta.conversations.messages.create(conversation_id, messages=says(text), **fields)
    return "".join(
        str(message.content) for message in stream if message.message_type == "assistant_message"
    )


def history(letta: Letta, conversation_id: str, **fields: Any) -> list[Any]:
    """The messages of a conversation, the oldest first, without the system message."""
    listed = letta.conversations.messages.list(conversation_id, order="asc", **fields).items
    return [
        getattr(message, "content", "")
        for message in listed
        if message.message_type != "system_message"
    ]


@dataclass(frozen=True)
class Line:
    """One server-sent event as it came over the wire."""

    id: str | None
    event: str | None
    data: Any


def stream(http: httpx.Client, agent_id: str, text: str, **fields: Any) -> list[Line]:
    """Send a message, read the whole stream."""
    path = f"/v1/agents/{agent_id}/messages/stream"
    with http.stream("POST", path, json={"messages": says(text), **fields}) as response:
        response.read()
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return lines_of(response.text)


def lines_of(text: str) -> list[Line]:
    """The events of a stream; every one ends with an empty line."""
    assert text.endswith("\n\n")
    return [line_of(chunk) for chunk in text.removesuffix("\n\n").split("\n\n")]


def line_of(chunk: str) -> Line:
    fields = dict(line.split(": ", 1) for line in chunk.split("\n"))
    assert fields.keys() <= {"id", "event", "data"}
    data = fields["data"]
    return Line(
        fields.get("id"), fields.get("event"), data if data == "[DONE]" else json.loads(data)
    )


def kinds(lines: list[Line]) -> list[str]:
    """What each event is."""
    return [line.data if line.data == "[DONE]" else line.data["message_type"] for line in lines]


def without_keepalives(lines: list[Line]) -> list[Line]:
    """The events without the pings that a slow model makes, but with the one that comes first."""
    told = zip(lines, kinds(lines), strict=True)
    return lines[:1] + [line for line, kind in list(told)[1:] if kind != "ping"]


def send(http: httpx.Client, agent_id: str, text: str, **fields: Any) -> dict[str, Any]:
    """The answer to a message, as JSON."""
    answer = http.post(f"/v1/agents/{agent_id}/messages", json={"messages": says(text), **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def invoke(http: httpx.Client, agent_id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool returns when the model calls it."""
    body = send(http, agent_id, tool_call(tool, **arguments))
    call, returned, said = body["messages"]
    assert call["tool_call"]["name"] == tool
    assert json.loads(call["tool_call"]["arguments"]) == arguments
    assert said["content"] == HELLO
    result: dict[str, Any] = returned
    return result
