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
