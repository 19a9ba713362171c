"""What the system prompt of an agent shows of its memory: blocks, folders, and archives."""

from __future__ import annotations

from typing import Protocol

from services.agent.adapters.archival_memory_queries import ArchivalMemoryQueries
from services.agent.adapters.block_queries import BlockQueries
from services.agent.adapters.folder_queries import FolderQueries
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.archival_memory_metadata import (
    ARCHIVAL_TOOL_NAMES,
    NO_ARCHIVES,
    ArchivalMemory,
)
from services.agent.domain.agents.attached_folders import (
    FILE_TOOL_NAMES,
    limits_of,
    rendered_directories,
)
from services.agent.domain.prompts.model_context import AttachedBlock


class MemoryQueries(BlockQueries, FolderQueries, ArchivalMemoryQueries, Protocol):
    """What is read of an agent's memory for its system prompt."""


async def seen_memory(
    queries: MemoryQueries, org: str, design: AgentDesign
) -> tuple[list[AttachedBlock], str, ArchivalMemory]:
    """What the system prompt of an agent shows: its blocks, the section about its folders, and what
    is in its archives. Who has no tool for files, or for archives, is told nothing of them, and
    nothing is asked."""
    blocks = await queries.seen_blocks(org, design.block_ids)
    directories, archival = "", NO_ARCHIVES
    if not FILE_TOOL_NAMES.isdisjoint(design.tools):
        _, chars_max = limits_of(design.config)
        folders = await queries.seen_folders(org, design.config.id, chars_max)
        directories = rendered_directories(folders, design.config)
    if not ARCHIVAL_TOOL_NAMES.isdisjoint(design.tools):
        archival = await queries.archival_memory(org, design.config.id)
    return blocks, directories, archival
