"""All that the agent service reads in SQL, in one object on one database. Who reads only a part
takes the Protocol of that part."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.agent.adapters.approval_queries import ApprovalQueries, PostgresApprovalQueries
from services.agent.adapters.archive_queries import ArchiveQueries, PostgresArchiveQueries
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
from services.agent.adapters.folder_queries import FolderQueries, PostgresFolderQueries
from services.agent.adapters.heartbeat_pause_queries import PauseQueries, PostgresPauseQueries
from services.agent.adapters.message_search import MessageSearch, PostgresMessageSearch
from services.agent.adapters.reconciliation_queries import AgentQueries, PostgresAgentQueries
from services.agent.adapters.run_and_step_queries import PastRunQueries, PostgresPastRunQueries
from services.agent.adapters.run_recovery_queries import PostgresRunQueries, RunQueries
from services.agent.adapters.tool_queries import PostgresToolQueries, ToolQueries
from services.agent.adapters.tool_run_queries import PostgresToolRunQueries, ToolRunQueries


class Queries(
    AgentQueries,
    ApprovalQueries,
    ArchiveQueries,
    BlockQueries,
    CallbackQueries,
    CalledRunQueries,
    ConversationQueries,
    FolderQueries,
    MessageSearch,
    PastRunQueries,
    PauseQueries,
    RunQueries,
    ToolQueries,
    ToolRunQueries,
    Protocol,
):
    """All reads of the agent service."""


class PostgresQueries(
    PostgresBlockQueries,
    PostgresAgentQueries,
    PostgresApprovalQueries,
    PostgresArchiveQueries,
    PostgresCallbackQueries,
    PostgresCalledRunQueries,
    PostgresConversationQueries,
    PostgresFolderQueries,
    PostgresMessageSearch,
    PostgresPastRunQueries,
    PostgresPauseQueries,
    PostgresRunQueries,
    PostgresToolQueries,
    PostgresToolRunQueries,
):
    """Keeps the contract of `Queries`."""

    def __init__(self, database: Database) -> None:
        PostgresBlockQueries.__init__(self, database)
        PostgresToolQueries.__init__(self, database)
