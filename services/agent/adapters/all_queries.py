"""All that the agent service reads in SQL, in one object on one database. Who reads only a part
takes the Protocol of that part."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.agent.adapters.approval_queries import ApprovalQueries, PostgresApprovalQueries
from services.agent.adapters.archival_memory_queries import (
    ArchivalMemoryQueries,
    PostgresArchivalMemoryQueries,
)
from services.agent.adapters.block_queries import BlockQueries, PostgresBlockQueries
from services.agent.adapters.callback_queries import CallbackQueries, PostgresCallbackQueries
from services.agent.adapters.called_run_queries import (
    CalledRunQueries,
    PostgresCalledRunQueries,
)
from services.agent.adapters.conversation_queries import (
    ConversationQueries,
    PostgresConversationQueries,
)
from services.agent.adapters.conversation_search_queries import (
    ConversationSearch,
    PostgresConversationSearch,
)
from services.agent.adapters.custom_tool_queries import CustomToolQueries, PostgresCustomToolQueries
from services.agent.adapters.folder_queries import FolderQueries, PostgresFolderQueries
from services.agent.adapters.heartbeat_pause_queries import PauseQueries, PostgresPauseQueries
from services.agent.adapters.reconciliation_queries import AgentQueries, PostgresAgentQueries
from services.agent.adapters.run_queries import PostgresRunQueries, RunQueries
from services.agent.adapters.tool_run_queries import PostgresToolRunQueries, ToolRunQueries


class Queries(
    AgentQueries,
    ApprovalQueries,
    ArchivalMemoryQueries,
    BlockQueries,
    CallbackQueries,
    CalledRunQueries,
    ConversationQueries,
    FolderQueries,
    ConversationSearch,
    PauseQueries,
    RunQueries,
    CustomToolQueries,
    ToolRunQueries,
    Protocol,
):
    """All reads of the agent service."""


class PostgresQueries(
    PostgresBlockQueries,
    PostgresAgentQueries,
    PostgresApprovalQueries,
    PostgresArchivalMemoryQueries,
    PostgresCallbackQueries,
    PostgresCalledRunQueries,
    PostgresConversationQueries,
    PostgresFolderQueries,
    PostgresConversationSearch,
    PostgresPauseQueries,
    PostgresRunQueries,
    PostgresCustomToolQueries,
    PostgresToolRunQueries,
):
    """Keeps the contract of `Queries`."""

    def __init__(self, database: Database) -> None:
        PostgresBlockQueries.__init__(self, database)
        PostgresCustomToolQueries.__init__(self, database)
