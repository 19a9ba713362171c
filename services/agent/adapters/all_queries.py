"""All that the agent service reads in SQL, in one object on one database. A caller that reads only
a part takes the class of that part."""

from __future__ import annotations

from services.agent.adapters.batch_queries import BatchQueries
from services.agent.adapters.block_queries import BlockQueries
from services.agent.adapters.conversation_queries import ConversationQueries
from services.agent.adapters.conversation_search import ConversationSearch
from services.agent.adapters.folder_queries import FolderQueries
from services.agent.adapters.memory_queries import ArchivalMemoryQueries
from services.agent.adapters.reconciliation_queries import AgentQueries
from services.agent.adapters.replay_queries import ReplayQueries
from services.agent.adapters.routed_message_queries import RoutedMessageQueries
from services.agent.adapters.run_queries import CallbackQueries, CalledRunQueries, RunQueries
from services.agent.adapters.summary_queries import SummaryQueries
from services.agent.adapters.tool_queries import CustomToolQueries, ToolRunQueries
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.attached_folders import (
    FILE_TOOL_NAMES,
    limits_of,
    rendered_directories,
)
from services.agent.domain.prompts.model_context import ShownMemory
from services.agent.domain.prompts.system_prompt import (
    ARCHIVAL_TOOL_NAMES,
    NO_ARCHIVES,
)


class Queries(
    BlockQueries,
    CustomToolQueries,
    AgentQueries,
    ArchivalMemoryQueries,
    BatchQueries,
    CallbackQueries,
    CalledRunQueries,
    ConversationQueries,
    ConversationSearch,
    FolderQueries,
    ReplayQueries,
    RoutedMessageQueries,
    RunQueries,
    SummaryQueries,
    ToolRunQueries,
):
    """All reads of the agent service."""


async def seen_memory(queries: Queries, org: str, design: AgentDesign) -> ShownMemory:
    """The memory that the system prompt of an agent shows. One that has no tool for files, or for
    archives, is told nothing of them, and nothing is asked."""
    blocks = await queries.seen_blocks(org, design.block_ids)
    directories, archival = "", NO_ARCHIVES
    if not FILE_TOOL_NAMES.isdisjoint(design.tools):
        _, chars_max = limits_of(design.config)
        folders = await queries.seen_folders(org, design.config.id, chars_max)
        directories = rendered_directories(folders, design.config)
    if not ARCHIVAL_TOOL_NAMES.isdisjoint(design.tools):
        archival = await queries.archival_memory(org, design.config.id)
    return ShownMemory(blocks, directories, archival)
