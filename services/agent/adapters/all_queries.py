"""All that the agent service reads in SQL, in one object on one database. Who reads only a part
takes the Protocol of that part."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.agent.adapters.batch_queries import BatchQueries, PostgresBatchQueries
from services.agent.adapters.block_queries import BlockQueries, PostgresBlockQueries
from services.agent.adapters.conversation_queries import (
    ApprovalQueries,
    ConversationQueries,
    PauseQueries,
    PostgresApprovalQueries,
    PostgresConversationQueries,
    PostgresPauseQueries,
)
from services.agent.adapters.conversation_search import (
    ConversationSearch,
    PostgresConversationSearch,
)
from services.agent.adapters.folder_queries import FolderQueries, PostgresFolderQueries
from services.agent.adapters.memory_queries import (
    ArchivalMemoryQueries,
    PostgresArchivalMemoryQueries,
)
from services.agent.adapters.reconciliation_queries import AgentQueries, PostgresAgentQueries
from services.agent.adapters.replay_queries import PostgresReplayQueries, ReplayQueries
from services.agent.adapters.routed_message_queries import (
    PostgresRoutedMessageQueries,
    RoutedMessageQueries,
)
from services.agent.adapters.run_queries import (
    CallbackQueries,
    CalledRunQueries,
    PostgresCallbackQueries,
    PostgresCalledRunQueries,
    PostgresRunQueries,
    RunQueries,
)
from services.agent.adapters.summary_queries import PostgresSummaryQueries, SummaryQueries
from services.agent.adapters.tool_queries import (
    CustomToolQueries,
    PostgresCustomToolQueries,
    PostgresToolRunQueries,
    ToolRunQueries,
)
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.attached_folders import (
    FILE_TOOL_NAMES,
    limits_of,
    rendered_directories,
)
from services.agent.domain.prompts.model_context import AttachedBlock
from services.agent.domain.prompts.system_prompt import (
    ARCHIVAL_TOOL_NAMES,
    NO_ARCHIVES,
    ArchivalMemory,
)


class Queries(
    AgentQueries,
    ApprovalQueries,
    ArchivalMemoryQueries,
    BatchQueries,
    BlockQueries,
    CallbackQueries,
    CalledRunQueries,
    ConversationQueries,
    FolderQueries,
    ConversationSearch,
    PauseQueries,
    ReplayQueries,
    RoutedMessageQueries,
    RunQueries,
    CustomToolQueries,
    SummaryQueries,
    ToolRunQueries,
    Protocol,
):
    """All reads of the agent service."""


class PostgresQueries(
    PostgresBlockQueries,
    PostgresAgentQueries,
    PostgresApprovalQueries,
    PostgresArchivalMemoryQueries,
    PostgresBatchQueries,
    PostgresCallbackQueries,
    PostgresCalledRunQueries,
    PostgresConversationQueries,
    PostgresFolderQueries,
    PostgresConversationSearch,
    PostgresPauseQueries,
    PostgresReplayQueries,
    PostgresRoutedMessageQueries,
    PostgresRunQueries,
    PostgresCustomToolQueries,
    PostgresSummaryQueries,
    PostgresToolRunQueries,
):
    """Keeps the contract of `Queries`."""

    def __init__(self, database: Database) -> None:
        PostgresBlockQueries.__init__(self, database)
        PostgresCustomToolQueries.__init__(self, database)


async def seen_memory(
    queries: Queries, org: str, design: AgentDesign
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
