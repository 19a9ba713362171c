"""Things of an agent in its file: blocks, tools, folders, files, servers and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from libs.agent_document.agent_fields import BLOCK_FIELDS, same_values
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.tools import ToolState

# Of a block: what no file has. Its id stands last.
BY_SERVER = ("id", "created_by_id", "last_updated_by_id")
SOURCE_FIELDS = ("name", "description", "instructions", "metadata")
FILE_FIELDS = (
    "file_name", "original_file_name", "file_path", "file_type", "file_size",
    "file_creation_date", "file_last_modified_date", "processing_status", "error_message",
    "total_chunks", "chunks_embedded", "content",
)  # fmt: skip
MANAGER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "round_robin": ("max_turns",),
    "supervisor": ("manager_agent_id",),
    "dynamic": ("manager_agent_id", "termination_token", "max_turns"),
    "sleeptime": ("manager_agent_id", "sleeptime_agent_frequency"),
    "voice_sleeptime": (
        "manager_agent_id",
        "max_message_buffer_length",
        "min_message_buffer_length",
    ),
}  # fmt: skip


@dataclass(slots=True)
class FileIds:
    """The ids that things have in a file: their kind, and a number that counts up."""

    known: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def of(self, kind: str, name: str) -> str:
        """The id in the file of a thing, which gets one with the first question."""
        if name not in self.known:
            number = self.counts.get(kind, 0)
            self.counts[kind] = number + 1
            self.known[name] = f"{kind}-{number}"
        return self.known[name]

    def of_all(self, kind: str, names: Iterable[str]) -> list[str]:
        """The ids in the file of several things."""
        return [self.of(kind, name) for name in names]


def exported_block(block: JsonObject, ids: FileIds) -> JsonObject:
    """A memory block as a file has it."""
    return {
        **dict.fromkeys(name for name in BlockState.model_fields if name not in BY_SERVER),
        **same_values(BLOCK_FIELDS, block, "agent_file"),
        "metadata": block.get("metadata") or {},
        "tags": block.get("tags") or None,
        "id": ids.of("block", str(block["id"])),
    }


def exported_tool(tool: JsonObject, ids: FileIds) -> JsonObject:
    """A tool, with its code if a client made it."""
    shown = {name: tool.get(name) for name in ToolState.model_fields}
    return {**shown, "id": ids.of("tool", str(tool["id"])), "project_id": None}


def exported_source(folder: JsonObject, ids: FileIds) -> JsonObject:
    """A folder, as older servers call it."""
    return {
        **{name: folder.get(name) for name in SOURCE_FIELDS},
        "embedding": None,
        "embedding_chunk_size": None,
        "embedding_config": folder.get("embedding_config"),
        "id": ids.of("source", str(folder["id"])),
    }


def exported_file(file: JsonObject, ids: FileIds) -> JsonObject:
    """A file of a folder with its text."""
    return {
        "source_id": ids.of("source", str(file["source_id"])),
        **{name: file.get(name) for name in FILE_FIELDS},
        "id": ids.of("file", str(file["id"])),
    }


def exported_file_of_agent(opened: JsonObject, agent_id: str, ids: FileIds) -> JsonObject:
    """A file that an agent may open, and whether it has it open."""
    return {
        "agent_id": agent_id,
        "file_id": ids.of("file", str(opened["file_id"])),
        "source_id": ids.of("source", str(opened["folder_id"])),
        "file_name": opened["name"],
        "is_open": bool(opened.get("is_open")),
        "visible_content": opened.get("visible_content"),
        "last_accessed_at": opened.get("last_accessed_at"),
        "start_line": opened.get("start_line"),
        "end_line": opened.get("end_line"),
        "id": ids.of("file_agent", f"{agent_id} {opened['file_id']}"),
    }


def exported_mcp_server(server: JsonObject, ids: FileIds) -> JsonObject:
    """An MCP server without anything that might be a secret: no tokens, no headers, no variables,
    and nothing of its address behind a question mark."""
    stdio = server.get("command") is not None
    url = server.get("server_url")
    return {
        "id": ids.of("mcp_server", str(server["id"])),
        "server_type": server.get("mcp_server_type") or ("stdio" if stdio else "streamable_http"),
        "server_name": server.get("server_name"),
        "server_url": url.partition("?")[0] if isinstance(url, str) else None,
        "stdio_config": {
            "server_name": server.get("server_name"),
            "type": "stdio",
            "command": server.get("command"),
            "args": server.get("args") or [],
        }
        if stdio
        else None,
        "metadata_": None,
    }


def exported_group(group: JsonObject, ids: FileIds) -> JsonObject:
    """A group of agents that are in the file."""
    kind = str(group["manager_type"])
    if kind not in MANAGER_FIELDS:  # one that the retired server does not have
        kind = "round_robin"
    manager: JsonObject = {"manager_type": kind}
    for name in MANAGER_FIELDS[kind]:
        value = group.get(name)
        manager[name] = (
            ids.of("agent", value)
            if name == "manager_agent_id" and isinstance(value, str)
            else value
        )
    members, shared = group.get("agent_ids"), group.get("shared_block_ids")
    return {
        "agent_ids": [*ids.of_all("agent", texts(members))],
        "description": group.get("description") or "",
        "manager_config": manager,
        "project_id": None,
        "shared_block_ids": [*ids.of_all("block", texts(shared))],
        "hidden": group.get("hidden"),
        "id": ids.of("group", str(group["id"])),
    }


def texts(value: object) -> list[str]:
    """The texts of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
