"""An agent file that was read: its entries without messages and without texts of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from services.api.v1.agent_file.entry_models import (
    AgentEntry,
    BlockEntry,
    FileEntry,
    GroupEntry,
    McpServerEntry,
    MessageEntry,
    SkillEntry,
    SourceEntry,
    ToolEntry,
)
from services.api.v1.agent_file.entry_problems import Path

# How many entries of a kind a file may have.
ENTRIES_MAX = {
    "agents": 100,
    "groups": 100,
    "blocks": 10_000,
    "core_memory": 500,
    "files": 10_000,
    "sources": 1_000,
    "tools": 2_000,
    "mcp_servers": 100,
    "skills": 10_000,
    "messages": 1_000_000,
}
# A message is an event, and has to fit into a line of the full form.
MESSAGE_BYTES_MAX = 3 << 20


@dataclass(slots=True)
class MessageIndex:
    """The index of an agent's messages: their ids, with their places in the file, and those of the
    system as they are."""

    places: dict[str, int] = field(default_factory=dict)
    systems: dict[str, MessageEntry] = field(default_factory=dict)

    def system(self, in_context: Sequence[str]) -> MessageEntry | None:
        """The system's message that models are shown: the first in context, if that is one, else
        the first of all."""
        first = self.systems.get(in_context[0]) if in_context else None
        return first or next(iter(self.systems.values()), None)


@dataclass(slots=True)
class AgentFile:
    """A file that was read and found sound. `legacy` says that it is of one agent, whose fields
    stand at its top. `with_text` are the ids of the files that have a text."""

    source: BinaryIO
    legacy: bool = False
    revision: str = ""
    agents: list[AgentEntry] = field(default_factory=list)
    groups: list[GroupEntry] = field(default_factory=list)
    blocks: list[BlockEntry] = field(default_factory=list)
    files: list[FileEntry] = field(default_factory=list)
    sources: list[SourceEntry] = field(default_factory=list)
    tools: list[ToolEntry] = field(default_factory=list)
    mcp_servers: list[McpServerEntry] = field(default_factory=list)
    skills: list[SkillEntry] = field(default_factory=list)
    messages: list[MessageIndex] = field(default_factory=list)
    with_text: set[str] = field(default_factory=set)

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that the file has or names, for a look at which are there."""
        named = [name for agent in self.agents for name in agent.tools]
        return sorted({*named, *(tool.name for tool in self.tools)})

    @property
    def folder_names(self) -> list[str]:
        """The names of its folders."""
        return sorted({source.name for source in self.sources})

    @property
    def mcp_server_names(self) -> list[str]:
        """The names of its MCP servers."""
        return sorted({server.server_name for server in self.mcp_servers})

    def place(self, kind: str, index: int) -> Path:
        """Where an entry of a list stands in the file."""
        return ("core_memory" if self.legacy and kind == "blocks" else kind, index)

    def agent_place(self, index: int) -> Path:
        """Where an agent stands in the file."""
        return () if self.legacy else ("agents", index)
