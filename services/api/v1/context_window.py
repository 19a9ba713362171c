"""Content of an agent's context window, as V1 shows it: its parts, and the size of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.token_estimates import BYTES_PER_TOKEN, MESSAGE_BYTES, text_tokens
from services.api.adapters.conversations.context_message_queries import ShownMessage

# The parts of a system message, as they are tagged in it.
CORE_MEMORY, TOOL_RULES, METADATA = "memory_blocks", "tool_usage_rules", "memory_metadata"
FILESYSTEM, DIRECTORIES = "memory_filesystem", "directories"
TAGS = (CORE_MEMORY, TOOL_RULES, METADATA, FILESYSTEM, DIRECTORIES)


def context_window_json(
    agent: bytes, shown: Sequence[ShownMessage], messages_count: int, passages_count: int
) -> bytes:
    """The context window of an agent with its tools, both as JSON."""
    read = from_json(agent)
    window = context_window(
        read, read["tools"], shown, messages_count=messages_count, passages_count=passages_count
    )
    return to_json(window)


def context_window(
    agent: JsonObject,
    tools: Sequence[JsonObject],
    shown: Sequence[ShownMessage],
    *,
    messages_count: int,
    passages_count: int,
) -> JsonObject:
    """The context window of an agent; tokens are estimates of our own."""
    llm: Any = agent["llm_config"]
    system = words_of(shown[0]) if shown else ""
    sections = sections_of(system)
    prompt = (prompt_of(system) or str(agent["system"])) if shown else str(agent["system"])
    summary = next((words_of(message) for message in shown if message.role == "summary"), None)
    functions = [function_of(tool) for tool in tools]
    raw = [raw_message(message, agent) for message in shown]
    said = [raw[n] for n, message in enumerate(shown) if n > 0 and message.role != "summary"]
    tokens: dict[str, int] = {
        "external_memory_summary": tokens_of(sections[METADATA]),
        "system": text_tokens(prompt),
        "core_memory": tokens_of(sections[CORE_MEMORY]),
        "memory_filesystem": tokens_of(sections[FILESYSTEM]),
        "tool_usage_rules": tokens_of(sections[TOOL_RULES]),
        "directories": tokens_of(sections[DIRECTORIES]),
        "summary_memory": tokens_of(summary),
        "functions_definitions": sum(text_tokens(json.dumps(function)) for function in functions),
        "messages": sum(message_tokens(message) for message in said),
    }
    return {
        "context_window_size_max": llm["context_window"],
        "context_window_size_current": sum(tokens.values()),
        "num_messages": len(shown),
        "num_archival_memory": passages_count,
        "num_recall_memory": messages_count,
        "num_tokens_external_memory_summary": tokens["external_memory_summary"],
        "external_memory_summary": sections[METADATA] or "",
        "num_tokens_system": tokens["system"],
        "system_prompt": prompt,
        "num_tokens_core_memory": tokens["core_memory"],
        "core_memory": sections[CORE_MEMORY] or "",
        "num_tokens_memory_filesystem": tokens["memory_filesystem"],
        "memory_filesystem": sections[FILESYSTEM],
        "num_tokens_tool_usage_rules": tokens["tool_usage_rules"],
        "tool_usage_rules": sections[TOOL_RULES],
        "num_tokens_directories": tokens["directories"],
        "directories": sections[DIRECTORIES],
        "num_tokens_summary_memory": tokens["summary_memory"],
        "summary_memory": summary,
        "num_tokens_functions_definitions": tokens["functions_definitions"],
        "functions_definitions": [*functions],
        "num_tokens_messages": tokens["messages"],
        "messages": [*raw],
    }


def sections_of(system: str) -> dict[str, str | None]:
    """The tagged parts of a system message."""
    found: dict[str, str | None] = {}
    for tag in TAGS:
        start, end = system.find(f"<{tag}>"), system.find(f"</{tag}>")
        found[tag] = system[start : end + len(tag) + 3] if 0 <= start < end else None
    return found


def prompt_of(system: str) -> str:
    """The agent's own text: what stands before the tagged parts."""
    places = [place for tag in TAGS if (place := system.find(f"<{tag}>")) >= 0]
    return system[: min(places, default=len(system))].strip()


def tokens_of(text: str | None) -> int:
    """About how many tokens a part takes, if it is there."""
    return text_tokens(text) if text else 0


def message_tokens(raw: JsonObject) -> int:
    """About how many tokens a message takes."""
    said = json.dumps([raw["content"], raw["tool_calls"]], ensure_ascii=False)
    return text_tokens(said) + MESSAGE_BYTES // BYTES_PER_TOKEN


def function_of(tool: JsonObject) -> JsonObject:
    """A tool as a model is told of it."""
    schema: Any = tool["json_schema"] or {}
    return {
        "function": {
            "name": schema.get("name", tool["name"]),
            "description": schema.get("description"),
            "parameters": schema.get("parameters"),
            "strict": None,
        },
        "type": "function",
    }


def words_of(shown: ShownMessage) -> str:
    """The text of a message of the system or the user, or of a summary."""
    last = shown.v1_messages[-1] if shown.v1_messages else {}
    return str(last.get("content", last.get("summary", "")))


def raw_message(shown: ShownMessage, agent: JsonObject) -> JsonObject:
    """A message of an agent as V1 stores it."""
    llm: Any = agent["llm_config"]
    said = shown.role in ("user", "summary")
    system = shown.role == "system"
    returned = next((doc for doc in shown.v1_messages if "tool_returns" in doc), None)
    called = [call for doc in shown.v1_messages for call in doc.get("tool_calls") or []]
    at = timestamp(shown.created_at)
    first = shown.v1_messages[0] if shown.v1_messages else {}
    return {
        "created_by_id": None if system else agent["created_by_id"],
        "last_updated_by_id": None if system else agent["created_by_id"],
        "created_at": at,
        "updated_at": None if system else at,
        "id": shown.id,
        "agent_id": agent["id"],
        "model": None if said else llm["model"],
        "role": "user" if shown.role == "summary" else shown.role,
        "content": [*raw_content(shown, at)],
        "name": first.get("name"),
        "tool_calls": [raw_call(call) for call in called] or None,
        "tool_call_id": returned and returned["tool_call_id"],
        "step_id": shown.step_id,
        "run_id": shown.run_id,
        "otid": first.get("otid") if said else None,
        "tool_returns": [raw_return(result) for result in (returned or {}).get("tool_returns", [])],
        "group_id": first.get("group_id"),
        "sender_id": first.get("sender_id"),
        "batch_item_id": None,
        "conversation_id": None,
        "is_err": None,
        "approval_request_id": None,
        "approve": None,
        "denial_reason": None,
        "approvals": None if system else [],
    }


def raw_content(shown: ShownMessage, at: str) -> list[JsonObject]:
    """The content parts of a message."""
    parts: list[JsonObject] = []
    for message in shown.v1_messages:
        match message["message_type"]:
            case "reasoning_message":
                native = message["source"] == "reasoner_model"
                part = {"type": "reasoning", "is_native": native, "reasoning": message["reasoning"]}
                parts.append({**part, "signature": message["signature"]})
            case "tool_return_message":
                status = "OK" if message["status"] == "success" else "Failed"
                envelope = {"status": status, "message": message["tool_return"], "time": at}
                parts.append(text_part(json.dumps(envelope, ensure_ascii=False)))
            case "summary_message":
                parts.append(text_part(message["summary"]))
            case _ if isinstance(message.get("content"), list):
                parts += message["content"]
            case _ if message.get("content") is not None:
                parts.append(text_part(str(message["content"])))
    return parts


def text_part(text: str) -> JsonObject:
    """Text as a content part."""
    return {"type": "text", "text": text, "signature": None}


def raw_call(call: Any) -> Json:
    """A tool call as models write it."""
    function = {"arguments": call["arguments"], "name": call["name"]}
    return {"id": call["tool_call_id"], "function": function, "type": "function"}


def raw_return(returned: Any) -> Json:
    """The result of a call."""
    return {
        "tool_call_id": returned["tool_call_id"],
        "status": returned["status"],
        "stdout": returned["stdout"],
        "stderr": returned["stderr"],
        "func_response": returned["tool_return"],
    }
