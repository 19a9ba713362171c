"""Small agent files of every form, to be changed by tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from libs.contracts.agent_file import Definition, FileText, HistoryPart, Line
from libs.contracts.appended_histories import PastEvent
from services.api.v1.agent_file.agent_file_lines import agent_file_lines
from services.api.v1.agent_file.agent_file_reader import read_file
from services.api.v1.agent_file.entry_problems import AgentFileInvalid, LeftOut
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
LLM_CONFIG = {
    "model": "gpt-4o-mini",
    "model_endpoint_type": "openai",
    "model_endpoint": "https://api.openai.com/v1",
    "context_window": 128000,
    "handle": "openai/gpt-4o-mini",
}
SOURCE_CODE = 'def roll(sides: int) -> int:\n    """Roll a die."""\n    return sides\n'
ROLL_SCHEMA = {
    "name": "roll",
    "description": "Roll a die.",
    "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}},
}


def text(words: str) -> list[dict[str, Any]]:
    """The content of a message that is one text."""
    return [{"type": "text", "text": words, "signature": None}]


def message(number: int, role: str, words: str | None = None, **fields: Any) -> dict[str, Any]:
    """A message of today's form."""
    return {
        "type": "message",
        "id": f"message-{number}",
        "role": role,
        "content": [] if words is None else text(words),
        "tool_calls": None,
        "tool_call_id": None,
        "tool_returns": [],
        "created_at": f"2026-11-21T21:48:{number:02}.000000+00:00",
        "approvals": [],
        **fields,
    }


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def returned(call_id: str, words: str, status: str = "success") -> dict[str, Any]:
    """What a tool gave back, as the retired server wraps it."""
    said = {"status": "OK" if status == "success" else "Failed", "message": words, "time": "now"}
    return {"tool_call_id": call_id, "status": status, "func_response": json.dumps(said)}


def modern_file() -> dict[str, Any]:
    """A file of today's form: an agent with a block, three tools, a folder with a file, and a
    conversation in which a tool was called."""
    return {
        "agents": [
            {
                "id": "agent-0",
                "name": "Ada",
                "system": "You are Ada.",
                "agent_type": "letta_v1_agent",
                "llm_config": dict(LLM_CONFIG),
                "embedding_config": None,
                "tool_ids": ["tool-0", "tool-1"],
                "block_ids": ["block-0"],
                "source_ids": ["source-0"],
                "tags": ["t1"],
                "tool_rules": [{"type": "exit_loop", "tool_name": "roll"}],
                "secrets": {"KEY": ""},
                "in_context_message_ids": [f"message-{number}" for number in range(5)],
                "messages": [
                    message(0, "system", "You are Ada, with blocks."),
                    message(1, "user", "hi there"),
                    message(2, "assistant", tool_calls=[call("call-1", "roll", sides=6)]),
                    message(
                        3,
                        "tool",
                        "ignored",
                        name="roll",
                        tool_call_id="call-1",
                        tool_returns=[returned("call-1", "4")],
                    ),
                    message(4, "assistant", "A four."),
                ],
                "files_agents": [],
                "group_ids": [],
            }
        ],
        "groups": [],
        "blocks": [{"id": "block-0", "label": "human", "value": "Likes tea.", "limit": 5000}],
        "files": [
            {
                "id": "file-0",
                "source_id": "source-0",
                "file_name": "notes/a.txt",
                "original_file_name": "a.txt",
                "file_type": "text/plain",
                "content": "Tea is hot.",
            }
        ],
        "sources": [{"id": "source-0", "name": "notes"}],
        "tools": [
            {
                "id": "tool-0",
                "name": "memory_insert",
                "tool_type": "letta_sleeptime_core",
                "source_code": None,
            },
            {
                "id": "tool-1",
                "name": "roll",
                "tool_type": "custom",
                "source_type": "python",
                "source_code": SOURCE_CODE,
                "json_schema": ROLL_SCHEMA,
            },
        ],
        "mcp_servers": [],
        "skills": [],
        "metadata": {"revision_id": "1c28e167b74f"},
        "created_at": "2026-11-21T21:48:58.804510+00:00",
    }


def legacy_file() -> dict[str, Any]:
    """A file of the legacy form: one agent, which speaks by calling `send_message`."""
    packed = json.dumps({"type": "user_message", "message": "hello", "time": "2025"})
    times = {"created_at": "2025-04-01T03:47:19", "updated_at": "2025-04-01T03:47:19"}
    said = call("call-1", "send_message", message="Hello, human.")
    worked = json.dumps({"status": "OK", "message": "None", "time": "2025"})
    return {
        "agent_type": "memgpt_agent",
        "name": "old_agent",
        "description": "d",
        "system": "You are old.",
        "version": "0.6.47",
        "llm_config": dict(LLM_CONFIG),
        "embedding_config": None,
        "message_buffer_autoclear": False,
        "multi_agent_group": None,
        "metadata_": {"a": 1},
        "tags": [{"tag": "old"}],
        "tool_exec_environment_variables": [{"key": "KEY", "value": "", **times}],
        "tool_rules": [{"type": "exit_loop", "tool_name": "send_message"}],
        "core_memory": [
            {"label": "persona", "value": "I am old.", "limit": 5000, "metadata_": {}, **times}
        ],
        "tools": [{"name": "send_message", "tool_type": "letta_core", "source_type": "python"}],
        "in_context_message_indices": [0, 2, 3],
        "messages": [
            {"role": "system", "content": text("You are old."), "tool_calls": [], **times},
            {"role": "user", "content": text(packed), "tool_calls": [], **times},
            {"role": "assistant", "content": text("I greet."), "tool_calls": [said], **times},
            {
                "role": "tool",
                "name": "send_message",
                "content": text(worked),
                "tool_calls": [],
                "tool_call_id": "call-1",
                "tool_returns": [{"status": "success", "stdout": None, "stderr": None}],
                **times,
            },
        ],
        **times,
    }


def options(**fields: Any) -> ImportOptions:
    """Options of an import."""
    return ImportOptions(import_id="import-1", now=NOW, actor="user-1", **fields)


def lines_of(
    file: Any,
    asked: ImportOptions | None = None,
    present: PresentThings | None = None,
    left_out: list[LeftOut] | None = None,
) -> list[Line]:
    """The lines of a file."""
    data = file if isinstance(file, bytes) else json.dumps(file).encode()
    here = present or PresentThings()
    return [*agent_file_lines(read_file(data), asked or options(), here, left_out=left_out)]


def errors_of(file: Any) -> tuple[str, ...]:
    """What is wrong with a file."""
    try:
        lines_of(file)
    except AgentFileInvalid as invalid:
        return invalid.errors
    raise AssertionError("the file was read")


def definitions(lines: Iterable[Line], kind: str) -> list[Definition]:
    """The definitions of a kind."""
    return [line for line in lines if isinstance(line, Definition) and line.of == kind]


def events(lines: Iterable[Line], topic: str) -> list[PastEvent]:
    """The events of a topic."""
    return [
        event
        for line in lines
        if isinstance(line, HistoryPart)
        for event in line.history.events
        if event.topic == topic
    ]


def payload(lines: Iterable[Line], topic: str) -> Any:
    """The payload of the only event of a topic."""
    [event] = events(lines, topic)
    return event.payload


def messages(lines: Iterable[Line]) -> list[Any]:
    """The messages of all conversations."""
    return [event.payload["message"] for event in events(lines, "message.appended")]


def texts(lines: Iterable[Line]) -> list[FileText]:
    """The texts of files."""
    return [line for line in lines if isinstance(line, FileText)]
