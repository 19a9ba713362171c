"""The legacy form of an agent file: one agent, with its blocks and tools, and without any ids."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.bus_messages import Json, JsonObject
from services.api.v1.agent_file.entry_models import BlockEntry, ToolEntry

# What today's form calls otherwise, or has elsewhere.
MOVED = {
    "core_memory",
    "in_context_message_indices",
    "messages",
    "metadata_",
    "multi_agent_group",
    "tags",
    "tool_exec_environment_variables",
    "tools",
}


def with_id(entry: Json, kind: str, number: int) -> Json:
    """An entry with an id: its own, or one by its place."""
    if not isinstance(entry, dict) or entry.get("id") is not None:
        return entry
    return {**entry, "id": f"{kind}-{number}"}


def legacy_block(entry: Json, number: int) -> Json:
    """A block of the legacy form as one of today's."""
    if not isinstance(entry, dict):
        return entry
    renamed: JsonObject = {"metadata": entry["metadata_"]} if "metadata_" in entry else {}
    return {**entry, **renamed, "id": f"block-{number}"}


def legacy_agent(
    top: JsonObject, blocks: Sequence[BlockEntry], tools: Sequence[ToolEntry]
) -> JsonObject:
    """The agent of the legacy form as one of today's."""
    return {
        **{name: value for name, value in top.items() if name not in MOVED},
        "id": "agent-0",
        "metadata": top.get("metadata_"),
        "tags": [value_at(tag, "tag") for tag in list_or_empty(top.get("tags"))],
        "tool_exec_environment_variables": variables(top.get("tool_exec_environment_variables")),
        "secrets": variables(top.get("secrets")),
        "block_ids": [block.id for block in blocks],
        "tool_ids": [tool.id for tool in tools],
        "in_context_message_ids": [
            f"message-{index}" for index in list_or_empty(top.get("in_context_message_indices"))
        ],
    }


def variables(given: Json) -> Json:
    """Environment variables by name; older files have a list of them."""
    if not isinstance(given, list):
        return given
    return {str(value_at(each, "key")): value_at(each, "value") for each in given}


def list_or_empty(value: Json) -> list[Json]:
    """A list, which is empty where there is none."""
    return value if isinstance(value, list) else []


def value_at(entry: Json, name: str) -> Json:
    """A field of an object; of anything else the whole."""
    return entry.get(name) if isinstance(entry, dict) else entry
