"""What a server answers after a migration otherwise than the old one did: ten kinds, each with the
reason in docs/differences.toml. Whatever is in none of them has to be the same, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

# The area in docs/differences.toml, and the dotted paths at which answers may differ.
ALLOWED: dict[str, tuple[str, ...]] = {
    "migrated agents: base tools": (
        "*.tools.(base).*",
        "*.functions_definitions.*",
        "*.metadata_.tool_hash",
    ),
    "migrated agents: context window": (
        "*.context.num_tokens_*",
        "*.context.context_window_size_current",
        "*.context.num_recall_memory",
        "*.context.external_memory_summary",
        "*.context.directories",
        "*.context.tool_usage_rules",
        "*.context.core_memory",
        "*.context.messages.0.words",
    ),
    "migrated agents: results of `send_message`": (
        "*.message_ids.*",
        "*.context.num_messages",
    ),
    "migrated agents: runs": (
        "runs.*.completed_at",
        "runs.*.status",
        "runs.*.stop_reason",
        "runs.*.total_duration_ns",
        "runs.*.request_config*",
        "agents.*.last_run_completion",
        "agents.*.last_run_duration_ms",
        "agents.*.last_stop_reason",
    ),
    "migrated agents: folders and files": (
        "*.sources.*.created_at",
        "*.sources.*.updated_at",
        "*.sources.*.vector_db_provider",
        "*.sources.*.embedding_config.*",
        "*folders.*.embedding_config.*",
        "*folders.*.created_at",
        "*folders.*.updated_at",
        "*folders.*.vector_db_provider",
        "*.file_blocks.*",
        "*.files.*.*",
        "*.files.next_cursor",
        "folder-contents.*.passages.*",
    ),
    "migrated agents: secrets": (
        "*.secrets.*.id",
        "*.secrets.*.value_enc",
        "*.tool_exec_environment_variables.*.id",
        "*.tool_exec_environment_variables.*.value_enc",
    ),
    "migrated agents: tags of blocks": ("*.blocks.*.tags.*",),
    "migrated agents: calls that wait for an approval": (
        "agents.*.pending_approval",
        "*.messages.*.otid",
    ),
    "migrated agents: what this server says besides": (
        "agents.*.capabilities",
        "mcp_servers.*.discovery",
        "mcp_servers.*.sampling",
        "conversations.*.in_context_message_ids.*",
    ),
    "migrated agents: sandboxes": ("sandbox.*",),
}
KINDS_MAX = 10
MISSING = "(not there)"


def comparable(value: Any, name: str = "") -> Any:
    """An answer in a form in which the order of what has none does not matter: tools and files by
    their names, the tools of the server by their names alone, and messages of a context window by
    what models are shown of them."""
    if isinstance(value, list):
        if name == "tools":
            return by_name(value)
        if name == "functions_definitions":
            return sorted(each["function"]["name"] for each in value)
        if name in ("file_blocks", "files"):
            return {each.get("file_name") or each["label"]: comparable(each) for each in value}
        if name == "messages" and value and "role" in value[0]:
            return [shown(each) for each in value if not is_said(each)]
        return [comparable(each) for each in value]
    if isinstance(value, dict):
        return {key: comparable(each, key) for key, each in value.items()}
    return value


def by_name(tools: list[Any]) -> dict[str, Any]:
    """Tools by their names: those that clients made as they are, the server's together."""
    named = {tool["name"]: tool for tool in tools}
    custom = {name: tool for name, tool in named.items() if tool["tool_type"] == "custom"}
    return {**custom, "names of (base)": sorted({*named} - {*custom})}


def is_said(message: dict[str, Any]) -> bool:
    """Whether a message says only that something was said."""
    return message["role"] == "tool" and message["name"] == "send_message"


def shown(message: dict[str, Any]) -> dict[str, Any]:
    """What a model is shown of a message, in one form for both servers."""
    calls = message.get("tool_calls") or []
    parts = message.get("content") or []
    words = "".join(str(part.get("text") or part.get("reasoning") or "") for part in parts)
    if message["role"] == "tool":
        words = unpacked(words)
    made = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    words += "".join(arguments["message"] for name, arguments in made if name == "send_message")
    made = [(name, arguments) for name, arguments in made if name != "send_message"]
    return {
        "id": message["id"],
        "role": "assistant" if message["role"] == "approval" else message["role"],
        "words": words,
        "calls": [[name, arguments] for name, arguments in made],
    }


def unpacked(words: str) -> str:
    """The result of a tool, out of the JSON that the old server put around it."""
    try:
        return str(json.loads(words)["message"])
    except (ValueError, KeyError, TypeError):
        return words


def differences(expected: Any, answered: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every place in which two answers differ, with both values."""
    if isinstance(expected, dict) and isinstance(answered, dict):
        for name in sorted({*expected, *answered}):
            old, new = expected.get(name, MISSING), answered.get(name, MISSING)
            yield from differences(old, new, f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(answered, list):
        if len(expected) != len(answered):
            yield f"{path}.length", len(expected), len(answered)
        for number, (old, new) in enumerate(zip(expected, answered, strict=False)):
            yield from differences(old, new, f"{path}.{number}")
    elif expected != answered:
        yield path, expected, answered


def unexplained(expected: Any, answered: Any, path: str) -> list[str]:
    """The differences that are of no kind that is allowed."""
    patterns = [pattern for paths in ALLOWED.values() for pattern in paths]
    found = differences(comparable(expected, path), comparable(answered, path), path)
    return [
        f"{place}: {json.dumps(old)[:200]} is {json.dumps(new)[:200]}"
        for place, old, new in found
        if not any(fnmatchcase(place, pattern) for pattern in patterns)
    ]
