"""What the services ask for by a key is found by an index, in plans made at any size of a table.

A connection keeps its plans: one that reads a whole table, or a whole index, is quick while the
table is small, and costs more with each row from then on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any

import psycopg
import pytest

from libs.agent_document.plan_parts import FleetPlan, Wanted
from libs.contracts.agent.summaries import SummarisedMessages
from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from libs.eventstore.connection_pool import Database, open_pool
from libs.work.agent_runs import PostgresAgentRunQueries
from services.agent.adapters.batch_queries import BatchQueries
from services.agent.adapters.block_queries import BlockQueries
from services.agent.adapters.conversation_queries import ConversationQueries
from services.agent.adapters.conversation_search import ConversationSearch, Search
from services.agent.adapters.folder_queries import FolderQueries as SeenFolderQueries
from services.agent.adapters.memory_queries import ArchivalMemoryQueries
from services.agent.adapters.reconciliation_queries import AgentQueries, MadeBlock
from services.agent.adapters.replay_queries import ReplayQueries as OwnReplayQueries
from services.agent.adapters.routed_message_queries import RoutedMessageQueries
from services.agent.adapters.run_queries import CallbackQueries, CalledRunQueries, RunQueries
from services.agent.adapters.summary_queries import SummaryQueries as OwnSummaryQueries
from services.agent.adapters.summary_queries import WantedMessages
from services.agent.adapters.tool_queries import CustomToolQueries, ToolRunQueries
from services.api.adapters.agents.agent_difference_queries import AgentDifferenceQueries
from services.api.adapters.agents.agent_event_queries import AgentEventQueries
from services.api.adapters.agents.agent_event_statement import EventFilter
from services.api.adapters.agents.attachment_queries import AttachmentQueries
from services.api.adapters.agents.configuration_queries import ConfigurationQueries
from services.api.adapters.agents.fleet_queries import FleetQueries, StoredPlan
from services.api.adapters.agents.project_queries import OF_AGENT as PROJECTS_OF_AGENT
from services.api.adapters.agents.project_queries import ProjectQueries
from services.api.adapters.agents.restore_queries import RestoreQueries
from services.api.adapters.agents.tag_queries import TagQueries, TagSlice
from services.api.adapters.conversations.context_message_queries import ContextMessageQueries
from services.api.adapters.conversations.conversation_run_queries import ConversationRunQueries
from services.api.adapters.conversations.message_queries import History, MessageQueries
from services.api.adapters.conversations.message_search_queries import (
    MessageSearchQueries,
    Searched,
)
from services.api.adapters.conversations.replay_queries import ReplayQueries
from services.api.adapters.conversations.run_follower_queries import (
    RunQueries as ApiRunQueries,
)
from services.api.adapters.conversations.step_sql_expressions import (
    RUN_METRICS,
    RUN_TRACE,
    RUN_USAGE,
    STEP_METRICS,
    STEP_TRACE,
)
from services.api.adapters.conversations.summary_queries import SummaryQueries
from services.api.adapters.groups.capability_queries import CapabilityQueries
from services.api.adapters.groups.sleeptime_queries import SleeptimeQueries
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries
from services.api.adapters.memory.block_history_queries import BlockHistoryQueries, VersionSlice
from services.api.adapters.memory.folder_queries import FolderQueries
from services.api.adapters.resource_query_builder import (
    Filter,
    Resource,
    ResourceQueries,
    Slice,
    UnknownCursor,
    filter_of,
)
from services.api.adapters.tools.tool_queries import TOOLS, ToolQueries, ToolUsageQueries
from services.api.http.request_parsing import Page
from services.api.resources.agents import fleets
from services.api.resources.agents.agent_configuration import CONFIGURATIONS
from services.api.resources.agents.agents import AGENTS
from services.api.resources.agents.identities import IDENTITIES, OF_IDENTITY
from services.api.resources.agents.projects import AGENTS_IN_PROJECT, PROJECTS
from services.api.resources.conversations.batches import BATCHES
from services.api.resources.conversations.conversations import CONVERSATIONS
from services.api.resources.conversations.runs import RUNS, RunPage
from services.api.resources.conversations.steps import STEPS, StepPage
from services.api.resources.groups.agent_groups import MEMBERS
from services.api.resources.groups.groups import GROUPS, OF_MEMBER
from services.api.resources.memory.agent_blocks import ATTACHED, IS_ATTACHED
from services.api.resources.memory.archives import ARCHIVES, SEARCHING
from services.api.resources.memory.blocks import BLOCKS
from services.api.resources.memory.folder_files import FILES
from services.api.resources.memory.folders import FOLDERS
from services.api.resources.memory.passages import OF_AGENT, PASSAGES
from services.api.resources.tools.direct_tool_execution import TOOL_RUNS
from services.api.resources.tools.mcp_discovery_waiting import MCP_SERVERS
from services.api.resources.tools.mcp_servers_by_name import by_name
from services.api.resources.tools.sandbox_configs import CONFIGS
from services.api.resources.tools.tool_runs_and_usage import CALLS, CallPage
from services.api.resources.tools.tools import ToolPage
from services.api.v1.agent_documents import TOOLS as AGENT_TOOLS
from services.groups.adapters.group_queries import PostgresGroupQueries
from services.groups.adapters.recipient_queries import PostgresRecipientQueries
from services.groups.adapters.sleeptime_queries import PostgresSleeptimeQueries
from services.memory.adapters.agent_attachments import PostgresAgentAttachments
from services.memory.adapters.archive_queries import PostgresArchiveQueries
from services.memory.adapters.file_processing_queries import PostgresFileProcessingQueries
from services.memory.adapters.file_texts import PostgresFileTexts
from services.memory.adapters.folder_queries import PostgresFolderQueries
from services.memory.adapters.message_vectors import (
    Backlog,
    MessageScope,
    NearestQuery,
    PostgresMessageVectors,
)
from services.memory.adapters.passage_search import (
    PassageQuery,
    PostgresPassageSearch,
    QueryVector,
    search_statement,
)
from services.memory.adapters.past_block_versions import PostgresPastBlockVersions
from services.scheduler.adapters.agent_tools import PostgresAgentTools
from services.scheduler.adapters.schedule_queries import PostgresScheduleQueries
from services.tools.adapters.agent_state_queries import PostgresAgentStates
from services.tools.adapters.deleted_agent_queries import DeletedAgents
from services.tools.adapters.mcp_server_queries import PostgresMcpServerQueries
from services.tools.adapters.sandbox_config_queries import PostgresSandboxConfigQueries
from services.tools.adapters.tool_counts import PostgresToolCounts, PostgresToolPermissionCounts
from services.tools.adapters.tool_run_queries import (
    PostgresToolRunQueries as PostgresOwnToolRunQueries,
)
from tests.contract.archive_examples import ARCHIVE, PASSAGE
from tests.contract.batch_examples import BATCH
from tests.contract.configuration_examples import CONFIGURATION
from tests.contract.examples import (
    AGENT,
    BESIDE,
    BLOCK,
    CONVERSATION,
    MCP_SERVER,
    RUN,
    SANDBOX_CONFIG,
    STEP,
    TOOL,
    TOOL_RUN,
)
from tests.contract.file_examples import FILE, FOLDER
from tests.contract.fleet_examples import APPLY, FLEET, PLAN
from tests.contract.group_examples import GROUP
from tests.contract.identity_examples import IDENTITY
from tests.contract.plans import generic_plan, index_columns, reads_by_key, scans, vacuum
from tests.contract.project_examples import PROJECT
from tests.contract.read_models import SEALER
from tests.contract.routing_examples import ROUTED
from tests.contract.sleeptime_examples import REVIEW
from tests.servers import PostgresServer

NOW = datetime.now(UTC)
SIZES = (0, 20, 2_000)
UNCOUNTED = -2_000  # as many rows, which Postgres has not counted yet
START = datetime(2026, 1, 1, tzinfo=UTC)
SUMMARISED = SummarisedMessages(
    conversation_id="conv-1", first=1, last=9, count=9, bytes=100, start=START, end=START
)
STARTED_BY_FIRINGS = ["run-1", "tool_run-1", "group_run-1", "summary-1"]
TABLES = {
    "memory.blocks": "'block-' || n, '{org}', now(), 1, 'human', '{{}}'",
    "memory.archives": "'archive-' || n, '{org}', now(), 1, 'Facts', '{{}}', null",
    "memory.archive_agents": "'archive-' || n || ' agent-' || n, 'archive-' || n, 'agent-' || n,"
    " '{org}', now()",
    "memory.archive_removals": "'archive-gone-' || n, '{org}', now()",
    "memory.archive_reembeddings": "'archive-' || n, '{org}', 'words', 2, null, now()",
    "memory.passages": "'passage-' || n, '{org}', 'archive-' || n % 50, 'passage-' || n, null,"
    " now(), 1, 'Likes tea', '{{}}', '{{}}', null, 'words', '[1,0]'",
    "memory.folders": "'source-' || n, '{org}', now(), now(), 'folder-' || n, '{{}}', null",
    "memory.files": "'file-' || n, '{org}', 'source-' || n % 50, now(), now(), 'a.txt', 'a.txt',"
    " 'completed', null, 'text/plain', 1, 'text-' || n, 1, 1, 1, 1, now()",
    "memory.file_texts": "'text-' || n, 0, '{org}', 'file-' || n, 1, 1, 0, 1, 'a', now()",
    "memory.message_vectors": "'message-' || n, '{org}', 'agent-' || n % 10, 'conv-' || n % 10,"
    " 'user', now(), 'words', '[1,0]'",
    "memory.message_backlog": "'{org}', 'agent-' || n, '', now(), now()",
    "memory.forgotten_conversations": "'conv-' || n, '{org}', now()",
    "api.restores": "'restore-' || n, '{org}', 'restores-' || n, 'agent-' || n, now(), now(),"
    " 'completed', null, null",
    "api.configurations": "'configuration-' || n, '{org}', 'agent-' || n, '{{}}', null",
    "api.fleets": "'fleet-' || n, '{org}', 'fleet-' || n, 'shop', '/srv/shop', now(), null, ''",
    "api.fleet_members": "'member-' || n, '{org}', 'fleet-' || n % 50, 'agent', n || '.toml',"
    " 'agent-' || n, 'ada', '{{}}', now()",
    "api.fleet_applies": "'apply-' || n, '{org}', 'fleet-' || n % 50, 'plan-' || n, 'ada', null, 1,"
    " 'completed', '{{}}', '', now(), now()",
    "api.fleet_units": "n / 10 || '.' || n % 10, '{org}', 'fleet-1', 'apply-' || n / 10,"
    " n % 10, '{{}}', '{{}}'",
    "api.fleet_plans": "'plan-' || n, '{org}', 'fleet-' || n, '{{}}', 'sealed:x', 1, now(),"
    " now() + interval '1 day'",
    "api.uploads": "'file-' || n, '{org}', 1, true, now()",
    "api.upload_parts": "'file-' || n, 0, '{org}', 'a'",
    "tools.tools": "'tool-' || n, '{org}', now(), now(), 'roll_' || n, 'custom', '{{}}', '{{}}'",
    "tools.events": "n, pg_current_xact_id(), 'tool-' || n, 1, 'tool.created', 1, '{org}',"
    " 'tool-' || n, '{{}}', '{{}}', now()",
    "tools.tool_runs": "'tool_run-' || n, '{org}', now(), 'tool-' || n, 'roll_dice',"
    " 'agent-1', 'run-1', 'call-' || n, 'success', null",
    "tools.tool_permissions": "'tool_permissions-' || n, '{org}', 'agent',"
    " 'agent-' || n, null, null, 1",
    "tools.mcp_servers": "'mcp_server-' || n, '{org}', now(), 'server-' || n, false, 1, '{{}}',"
    " '{{}}', '{{}}', null",
    "tools.sandbox_configs": "'sandbox-' || n, '{org}', now(), now(), 'local', '{{}}', 0",
    "tools.sandbox_variables": "'sandbox-env-' || n, '{org}', 'sandbox-' || n, now(), now(),"
    " 'KEY', 'sealed:x', null",
    "tools.leases": "'tool_run-' || n, 'process-1', n, now()",
    "agent.agents": "'agent-' || n, '{org}', now(), now(), 'Ada', 'conv-' || n,"
    " array['block-' || n], '{{}}', '[]', '{{}}', '\"a\": 1'",
    "agent.agent_tags": "'agent-' || n, 'tag-' || n % 7, '{org}'",
    "agent.messages": "'message-' || n, '{org}', 'agent-' || n % 10, 'conv-' || n % 10, n,"
    " 'run-' || n, 'step-' || n, 'user', now(), true, true, 'hello', '[]', null, null, null, now()",
    "agent.batches": "'batch-' || n, '{org}', 'agent-' || n % 10, now(), now(), 'completed', 5,"
    " false, '{{}}', null, 0, null",
    "agent.batch_items": "'batch_item-' || n, '{org}', 'batch-' || n / 10, n % 10, 'agent-' || n,"
    " 'conv-' || n, 'run-' || n, 'completed', '{{}}', null",
    "agent.runs": "'run-' || n, '{org}', 'agent-' || n % 10, 'conv-' || n % 10, now(),"
    " 'completed', 'end_turn', false, false, 'hash-' || n, null, null, '{{}}'",
    "agent.steps": "'step-' || n, '{org}', 'agent-' || n % 10, 'conv-' || n % 10, 'run-' || n, n,"
    " now(), 'success', 'openai/gpt-4o-mini', null, null, null",
    "agent.summaries": "'summary-' || n, '{org}', 'agent-' || n, 'summaries-' || n, now(),"
    " 'completed', null, '{{}}'",
    "agent.run_replays": "'replay-' || n, '{org}', 'agent-' || n, 'run-' || n, now(),"
    " 'completed', null, '{{}}'",
    "agent.run_replay_steps": "'replay-' || n / 10, n % 10, '{org}', null, null, '[]', '[]'",
    "agent.called_runs": "'run-' || n, '{org}', 'conv-' || n % 10, 'run-' || n + 1,"
    " 'conv-' || n % 10 + 1, true, '[]'",
    "agent.prices": "'openai/model-' || n, '-infinity', 'list', 1, 1, 1, 1",
    "agent.conversations": "'conv-b' || n, '{org}', 'agent-' || n % 10, now(), null, false, false,"
    " '{{}}', '{{}}'",
    "agent.approvals": "'conv-' || n, '{org}', 'agent-' || n % 10, 'message-' || n, now()",
    "agent.leases": "'conv-' || n, 'process-1', n, now()",
    "groups.groups": "'group-' || n, '{org}', now(), now(), 'group-' || n, 'supervisor',"
    " 'agent-' || n, array['agent-' || n + 1], null,"
    " '{{\"shared_block_ids\": [\"block-1\"]}}', '{{}}', '{{}}', 0",
    "groups.group_members": "'group-' || n || ' agent-' || n + 1, 'group-' || n,"
    " 'agent-' || n + 1, '{org}', now()",
    "groups.shared_blocks": "'group-' || n || ' agent-' || n || ' block-1', 'group-' || n,"
    " 'agent-' || n, 'block-1', 'shared', '{org}'",
    "agent.agent_capabilities": "'agent-' || n, 'skill-' || n % 500, '{org}', null, 0",
    "groups.routed_messages": "'routed_message-' || n, '{org}', now(), 'one', '{{}}', 'completed',"
    " now(), null, now(), '[]', null",
    "groups.routed_deliveries": "'routed_message-' || n, 1, '{org}', 'agent-' || n, 'run-' || n,"
    " 'answer', 0, 'delivered', now(), now(), null, null",
    "groups.subscribers": "'topic-' || n % 50 || '/agent-' || n, 'topic-' || n % 50, '{org}',"
    " 'news-' || n % 50, 'agent-' || n, now()",
    "groups.reviews": "'group-' || n || ' run-' || n, 'group-' || n, '{org}', now()",
    "scheduler.schedules": "'schedule-' || n, '{org}', 'agent-' || n % 10, now(),"
    " now() + interval '1 day', 'active', '{{}}'",
    "scheduler.firings": "'firing-' || n, '{org}', 'schedule-' || n, 'agent-' || n % 10, now(),"
    " now(), 'run-' || n, 'completed', 1, null, null, '{{}}'",
    "api.identities": "'identity-' || n, '{org}', now(), 'key-' || n, 'Ada', 'user', null, '[]'",
    "api.projects": "'project-' || n, '{org}', now(), now(), 'project-' || n, null, '{{}}', 'ada',"
    " 'ada', 'ada'",
    "api.attachments": "'attachment-' || n, '{org}', case when n % 2 = 0 then 'identity-'"
    " else 'project-' end || n, 'agent-' || n, now()",
    "memory.events": "n, pg_current_xact_id(), 'block-' || n, 1, 'block.created', 1, '{org}',"
    " 'block-' || n, '{{}}', '{{}}', now()",
    "agent.events": "n, pg_current_xact_id(), 'conv-' || n % 10, n, 'run.accepted', 1, '{org}',"
    " 'run-' || n, '{{}}', '{{}}', now()",
}


# The agents of runs and messages: those of other agents are not shown.
TEN_AGENTS = (
    f"insert into agent.agents select {TABLES['agent.agents'].format(org=ORG)}"
    " from generate_series(0, 9) n"
).encode()


# By which it is looked whether the agent of a row is there.
AGENTS_KEY = "agents_pkey"


def indexes_of(explained: Explained) -> list[str]:
    """The indexes that were read."""
    return [scan["Index Name"] for scan in explained.scans]


class Explained(Database):
    """Runs every statement, and keeps the plan for it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.pool)
        self.scans: list[dict[str, Any]] = []
        self.columns: dict[str, list[str]] = {}

    async def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        await self.explain(query, parameters)
        return await super().fetch(query, parameters)

    async def fetch_one(self, query: str, parameters: Any = None) -> tuple[Any, ...] | None:
        await self.explain(query, parameters)
        return await super().fetch_one(query, parameters)

    async def fetch_text(self, query: str, parameters: Any = None) -> bytes | None:
        await self.explain(query, parameters)
        return await super().fetch_text(query, parameters)

    async def explain(self, query: str, parameters: Any) -> None:
        assert re.search(r"\borg\b", query), f"names no organisation: {query}"
        if isinstance(parameters, dict):
            named = {name: f"${number}" for number, name in enumerate(parameters, start=1)}
            text = query % named
        else:
            text = query % tuple(f"${number}" for number in range(1, len(parameters) + 1))
        async with self.connection() as connection:
            self.columns = self.columns or await index_columns(connection)
            self.scans += scans(await generic_plan(connection, text))

    def without_key(self) -> list[tuple[str, ...]]:
        """What was read without a key: how, which index, under which condition."""
        told = ("Node Type", "Index Name", "Index Cond", "Filter")
        read = (scan for scan in self.scans if not reads_by_key(scan, self.columns))
        return [tuple(scan.get(name, "") for name in told) for scan in read]


async def listed_messages(reads: MessageQueries) -> None:
    for conversation in (CONVERSATION, None):
        await reads.messages(History(ORG, AGENT, conversation, ["user_message"]), Slice())
        await reads.messages(History(ORG, AGENT, conversation, group_id="group-1"), Slice())


EVENT_FILTERS = (
    EventFilter(ORG, AGENT),
    EventFilter(ORG, AGENT, ["block.changed", "context.cleared", "passage.created"]),
    EventFilter(ORG, AGENT, run_id=RUN, since=NOW, until=NOW),
    EventFilter(ORG, AGENT, service="agent", tool_call_id="call-1"),
)


async def listed_events(reads: AgentEventQueries) -> None:
    for wanted in EVENT_FILTERS:
        for order in ("asc", "desc"):
            with suppress(UnknownCursor):
                await reads.events(wanted, Slice(after="block-1.1", order=order))
            await reads.events(wanted, Slice(order=order), payloads=True)


async def placed_event(reads: AgentEventQueries) -> None:
    with suppress(UnknownCursor):
        await reads.place_of(ORG, "after", "block-1.1")


SEARCH = Search(ORG, AGENT, "cat", ["user"], NOW, NOW, 10)


OF_AGENT_1 = MessageScope(ORG, "agent-1")
SCOPES = (OF_AGENT_1, MessageScope(ORG), MessageScope(ORG, "", CONVERSATION))


async def unembedded(vectors: PostgresMessageVectors) -> None:
    for scope in SCOPES:
        await vectors.unembedded_messages(scope, "words", 10)


async def nearest(vectors: PostgresMessageVectors) -> None:
    for scope in SCOPES:
        near = NearestQuery(scope=scope, model="words", vector=[1, 0], project_id="a", after=NOW)
        await vectors.nearest(near)


async def worked_on(vectors: PostgresMessageVectors) -> None:
    for done in (True, False):
        await vectors.worked_on(Backlog(OF_AGENT_1, NOW), done=done)


async def kept_plan(queries: FleetQueries) -> None:
    stored = StoredPlan(id="plan-new", fleet_id=FLEET, wanted=Wanted(), plan=FleetPlan())
    await queries.keep_plan(ORG, stored, "{}")


NEAREST = PassageQuery(
    org=ORG,
    collection_ids=[ARCHIVE],
    vectors=(QueryVector("words", [1.0, 0.0]),),
    text="tea",
    tags=["a"],
    after=NOW,
)
ASKED: dict[type, dict[str, Callable[[Any], Awaitable[Any]]]] = {
    BlockQueries: {
        "seen_blocks": lambda queries: queries.seen_blocks(ORG, [BLOCK]),
        "seen_by_many": lambda queries: queries.seen_by_many([(ORG, [BLOCK]), (ORG, [BLOCK])]),
        "labels": lambda queries: queries.labels(ORG, [BLOCK]),
        "attached_block": lambda queries: queries.attached_block(ORG, AGENT, "human"),
    },
    ArchivalMemoryQueries: {
        "archival_memory": lambda queries: queries.archival_memory(ORG, AGENT),
        "archive_owner": lambda queries: queries.archive_owner(ORG, AGENT),
    },
    SeenFolderQueries: {
        "seen_folders": lambda queries: queries.seen_folders(ORG, AGENT, 1_000),
        "files_named": lambda queries: queries.files_named(ORG, AGENT, ["a/b.txt"]),
        "files_of_agent": lambda queries: queries.files_of_agent(ORG, AGENT, 10),
        "folder_ids": lambda queries: queries.folder_ids(ORG, AGENT),
        "file_segments": lambda queries: queries.file_segments(
            ORG, FILE, first_line=1, after=-1, segments=2
        ),
    },
    AgentFolderQueries: {
        "unknown_folders": lambda reads: reads.unknown_folders(ORG, [FOLDER]),
        "visible_contents": lambda reads: reads.visible_contents(
            ORG, [({"file_id": FILE, "lines": 1, "start_line": 1, "end_line": None}, 1_000)]
        ),
        "names_of_files": lambda reads: reads.names_of_files(ORG, [FILE]),
        "folders_of_agent": lambda reads: reads.folders_of_agent(ORG, AGENT),
        "files_of_agents": lambda reads: reads.files_of_agents(ORG, [AGENT]),
    },
    AgentQueries: {
        "agents_attached_to": lambda queries: queries.agents_attached_to(ORG, BLOCK),
        "lost_blocks": lambda queries: queries.lost_blocks([AGENT]),
        "agents_with_tool": lambda queries: queries.agents_with_tool(ORG, TOOL),
        "lost_tools": lambda queries: queries.lost_tools([AGENT]),
        "configuration_at": lambda queries: queries.configuration_at(ORG, AGENT, 3),
        "unclaimed_blocks": lambda queries: queries.unclaimed_blocks(
            [MadeBlock(AGENT, BLOCK, ORG)]
        ),
    },
    RunQueries: {
        "latest_run": lambda queries: queries.latest_run(
            ORG, AGENT, CONVERSATION, "hash", NOW, ["run"]
        ),
        "cancelled_runs": lambda queries: queries.cancelled_runs([ORG], [RUN]),
        "active_runs": lambda queries: queries.active_runs([ORG], [RUN]),
        "origin_of_run": lambda queries: queries.origin_of_run(ORG, CONVERSATION, RUN),
        "run_of_step": lambda queries: queries.run_of_step(ORG, CONVERSATION, STEP),
        "has_run": lambda queries: queries.has_run(ORG, CONVERSATION, RUN),
    },
    BatchQueries: {
        "batch_items": lambda queries: queries.batch_items(ORG, BATCH, [1, 2]),
        "busy_agents": lambda queries: queries.busy_agents(ORG, BATCH),
        "left_conversations": lambda queries: queries.left_conversations(ORG, BATCH, None),
    },
    PostgresAgentRunQueries: {
        "run_progress": lambda queries: queries.run_progress(ORG, RUN),
        "run_messages": lambda queries: queries.run_messages(ORG, RUN),
    },
    CalledRunQueries: {
        "call_chain": lambda queries: queries.call_chain(ORG, RUN),
        "waiting_calls": lambda queries: queries.waiting_calls(ORG, RUN),
        "agents_with_tags": lambda queries: queries.agents_with_tags(ORG, ["a"], ["b"], 10),
    },
    CustomToolQueries: {
        "custom_tools": lambda queries: queries.custom_tools(ORG, [TOOL]),
        "tools_of_many": lambda queries: queries.tools_of_many([(ORG, [TOOL])]),
        "custom_tools_named": lambda queries: queries.custom_tools_named(ORG, ["roll_dice"]),
    },
    PostgresToolCounts: {
        "tools_of": lambda queries: queries.tools_of(ORG),
    },
    PostgresOwnToolRunQueries: {
        "runs_of_deleted_agents": lambda queries: queries.runs_of_deleted_agents([AGENT]),
        "stopped_runs": lambda queries: queries.stopped_runs([ORG], [TOOL_RUN]),
        "run_result": lambda queries: queries.run_result(ORG, TOOL_RUN),
    },
    PostgresToolPermissionCounts: {
        "lists_of": lambda queries: queries.lists_of(ORG),
    },
    PostgresAgentStates: {
        "agent_state": lambda queries: queries.agent_state(ORG, AGENT, [BLOCK]),
    },
    PostgresSandboxConfigQueries: {"of": lambda queries: queries.of(ORG)},
    PostgresMcpServerQueries: {
        "versions": lambda queries: queries.versions([ORG], [MCP_SERVER]),
        "declared_servers": lambda queries: queries.declared_servers(ORG),
    },
    ToolRunQueries: {
        "tool_run": lambda queries: queries.tool_run(ORG, TOOL_RUN),
    },
    ConversationSearch: {
        "search_messages": lambda queries: queries.search_messages(SEARCH),
        "messages_named": lambda queries: queries.messages_named(SEARCH, ["message-1"]),
    },
    OwnSummaryQueries: {
        "summarised_messages": lambda queries: queries.summarised_messages(
            ORG, CONVERSATION, WantedMessages(10, since=START)
        ),
        "history_page": lambda queries: queries.history_page(ORG, SUMMARISED, 3, 10),
    },
    RestoreQueries: {
        "context": lambda queries: queries.context(ORG, AGENT),
        "memory": lambda queries: queries.memory(ORG, AGENT),
        "present_blocks": lambda queries: queries.present_blocks(ORG, [BLOCK]),
        "created_blocks": lambda queries: queries.created_blocks(ORG, [BLOCK]),
        "commit_of": lambda queries: queries.commit_of(ORG, "restores-1", 1),
        "outcome": lambda queries: queries.outcome(ORG, "restore-1"),
    },
    FleetQueries: {
        "count_fleets": lambda queries: queries.count_fleets(ORG),
        "newest_apply": lambda queries: queries.newest_apply(ORG, FLEET),
        "members": lambda queries: queries.members(ORG, FLEET),
        "owners": lambda queries: queries.owners(ORG, [AGENT]),
        "ended_units": lambda queries: queries.ended_units(ORG, APPLY),
        "apply": lambda queries: queries.apply(ORG, APPLY),
        "plan": lambda queries: queries.plan(ORG, PLAN),
        "shown_plan": lambda queries: queries.shown_plan(ORG, PLAN),
        "keep_plan": lambda queries: kept_plan(queries),
        "keep_longer": lambda queries: queries.keep_longer(ORG, PLAN),
        "forget_plans": lambda queries: queries.forget_plans(ORG, FLEET),
    },
    ConfigurationQueries: {
        "abandoned_configurations": lambda queries: queries.abandoned_configurations([AGENT]),
    },
    AgentDifferenceQueries: {
        "conversations": lambda reads: reads.conversations(ORG, AGENT),
        "messages_after": lambda reads: reads.messages_after(ORG, [CONVERSATION], 10),
        "message_count": lambda reads: reads.message_count(ORG, [CONVERSATION]),
        "first_messages": lambda reads: reads.first_messages(ORG, [CONVERSATION]),
        "archives": lambda reads: reads.archives(ORG, AGENT),
        "passages_of": lambda reads: reads.passages_of(ORG, [ARCHIVE]),
        "changed_passages": lambda reads: reads.changed_passages(
            ORG, [ARCHIVE], 1, 9, deleted=True
        ),
        "count_and_list": lambda reads: reads.passages_of(ORG, [ARCHIVE]),
    },
    AgentEventQueries: {
        "events": listed_events,
        "was_created": lambda reads: reads.was_created(ORG, AGENT),
        "bounds_of": lambda reads: reads.bounds_of(EVENT_FILTERS[2], Slice()),
        "runs_of": lambda reads: reads.runs_of(EVENT_FILTERS[3]),
        "place_of": placed_event,
    },
    OwnReplayQueries: {
        "run_to_replay": lambda queries: queries.run_to_replay(ORG, "run-1"),
        "history_page_of": lambda queries: queries.history_page_of(ORG, CONVERSATION, 3),
        "custom_tools_at": lambda queries: queries.custom_tools_at(ORG, [TOOL], 10),
    },
    ReplayQueries: {
        "replay_status": lambda reads: reads.replay_status(ORG, "run-1", "replay-1"),
    },
    SummaryQueries: {"summary": lambda reads: reads.summary(ORG, "summary-1")},
    MessageQueries: {
        "messages": listed_messages,
        "system_message": lambda reads: reads.system_message(ORG, CONVERSATION),
        "messages_of_run": lambda reads: reads.messages_of_run(ORG, RUN, ["user_message"], Slice()),
        "all_messages": lambda reads: reads.all_messages(ORG, None, ["user_message"], Slice()),
        "message": lambda reads: reads.message(ORG, "message-1"),
        "messages_of_step": lambda reads: reads.messages_of_step(ORG, RUN, STEP, Slice()),
    },
    ConversationQueries: {
        "block_states": lambda queries: queries.block_states(ORG, [BLOCK]),
        "isolated_blocks": lambda queries: queries.isolated_blocks(ORG, CONVERSATION),
        "conversations_of": lambda queries: queries.conversations_of(ORG, AGENT, 10),
        "lost_conversations": lambda queries: queries.lost_conversations([AGENT]),
        "recorded_messages": lambda queries: queries.recorded_messages(ORG, CONVERSATION, ["m"]),
    },
    ConversationRunQueries: {
        "conversation_of_run": lambda reads: reads.conversation_of_run(ORG, RUN),
        "run_of_otid": lambda reads: reads.run_of_otid(ORG, CONVERSATION, "otid", RUN),
        "active_run": lambda reads: reads.active_run(ORG, CONVERSATION),
        "conversations_with_runs": lambda reads: reads.conversations_with_runs(ORG, AGENT, 10),
        "conversations_of_runs": lambda reads: reads.conversations_of_runs(ORG, AGENT, [RUN]),
    },
    AttachmentQueries: {
        "first_missing": lambda reads: reads.first_missing(ORG, [AGENT, BLOCK]),
        "first_missing_identity": lambda reads: reads.first_missing_identity(ORG, [IDENTITY]),
        "identities_of": lambda reads: reads.identities_of(ORG, AGENT),
        "targets_of": lambda reads: reads.targets_of(ORG, IDENTITY, "agent-", 10),
    },
    ProjectQueries: {
        "projects_of": lambda reads: reads.projects_of(ORG, AGENT),
        "agents_only_in": lambda reads: reads.agents_only_in(ORG, PROJECT, 10),
    },
    TagQueries: {
        "tags": lambda reads: reads.tags(TagSlice(ORG, "a", after="b")),
    },
    BlockHistoryQueries: {
        "versions": lambda reads: reads.versions(VersionSlice(ORG, BLOCK, after=1, before=9)),
        "newest_version": lambda reads: reads.newest_version(ORG, BLOCK),
        "fields_at": lambda reads: reads.fields_at(ORG, BLOCK, 1),
        "values": lambda reads: reads.values(ORG, BLOCK, 10),
    },
    PostgresPastBlockVersions: {
        "fields_at": lambda history: history.fields_at(ORG, BLOCK, 1),
    },
    ContextMessageQueries: {
        "in_context": lambda reads: reads.in_context(ORG, AGENT, CONVERSATION),
        "message_count": lambda reads: reads.message_count(ORG, AGENT, CONVERSATION),
    },
    ApiRunQueries: {
        "run_answer": lambda reads: reads.run_answer(ORG, RUN),
        "run_end": lambda reads: reads.run_end(ORG, RUN),
    },
    ToolUsageQueries: {"usage": lambda reads: reads.usage(ORG, AGENT)},
    DeletedAgents: {"deleted_agents": lambda reads: reads.deleted_agents(ORG, [AGENT])},
    PostgresArchiveQueries: {
        "agent": lambda archives: archives.agent(ORG, AGENT),
        "orphaned_attachments": lambda archives: archives.orphaned_attachments([AGENT]),
        "collections_of": lambda archives: archives.collections_of(ORG, AGENT),
        "collections": lambda archives: archives.collections(ORG, [ARCHIVE]),
        "named_collections": lambda archives: archives.named_collections(ORG, [ARCHIVE, FOLDER]),
        "passages_left": lambda archives: archives.passages_left(ORG, ARCHIVE, 10),
        "passage_count": lambda archives: archives.passage_count(ORG, ARCHIVE),
        "archive_count": lambda archives: archives.archive_count(ORG),
        "all_collections": lambda archives: archives.all_collections(ORG),
        "passages_to_embed": lambda archives: archives.passages_to_embed(
            ORG, ARCHIVE, "words", 2, 10
        ),
    },
    PostgresPassageSearch: {
        "search": lambda passages: passages.search(NEAREST),
    },
    PostgresMessageVectors: {
        "unembedded_messages": lambda vectors: unembedded(vectors),
        "keep": lambda vectors: vectors.keep(OF_AGENT_1, "words", {"message-1": [1, 0]}),
        "nearest": lambda vectors: nearest(vectors),
        "put_off": lambda vectors: vectors.put_off(OF_AGENT_1),
        "worked_on": lambda vectors: worked_on(vectors),
    },
    PostgresFolderQueries: {
        "folders_of": lambda queries: queries.folders_of(ORG),
        "readable_files": lambda queries: queries.readable_files(ORG, FOLDER, 10),
        "files_of": lambda queries: queries.files_of(ORG, FOLDER),
        "same_name": lambda queries: queries.same_name(ORG, FOLDER, "a.txt"),
        "unfinished_files": lambda queries: queries.unfinished_files(ORG, FOLDER),
    },
    PostgresGroupQueries: {
        "facts": lambda queries: queries.facts(ORG, [AGENT], [BLOCK]),
        "lost_members": lambda queries: queries.lost_members([AGENT]),
        "group_count": lambda queries: queries.group_count(ORG),
        "shared_by_others": lambda queries: queries.shared_by_others(ORG, GROUP, [AGENT]),
    },
    PostgresRecipientQueries: {
        "lost_subscriptions": lambda queries: queries.lost_subscriptions([AGENT]),
        "with_capability": lambda queries: queries.with_capability(ORG, "paint", ["a"], "s", 8),
        "with_tags": lambda queries: queries.with_tags(ORG, ["a"], "s", 8),
        "present": lambda queries: queries.present(ORG, [AGENT], "s", 8),
        "subscribers": lambda queries: queries.subscribers(ORG, "news", "s", 8),
        "callers_of": lambda queries: queries.callers_of(ORG, RUN),
    },
    RoutedMessageQueries: {
        "routed_progress": lambda queries: queries.routed_progress(ORG, ROUTED),
    },
    CapabilityQueries: {
        "agents": lambda reads: reads.agents(ORG, "paint", 10),
    },
    PostgresSleeptimeQueries: {
        "reviewed_agent": lambda queries: queries.reviewed_agent(ORG, AGENT),
        "sleeptime_groups": lambda queries: queries.sleeptime_groups(ORG, AGENT),
        "sleeptime_agents": lambda queries: queries.sleeptime_agents(ORG, [AGENT]),
        "own_sleeptime_agents": lambda queries: queries.own_sleeptime_agents(ORG, AGENT, [AGENT]),
        "last_answer": lambda queries: queries.last_answer(ORG, RUN, "message-1", None),
        "unreviewed_messages": lambda queries: queries.unreviewed_messages(
            ORG, AGENT, "message-1", None
        ),
        "reviewed_messages": lambda queries: queries.reviewed_messages(ORG, AGENT, REVIEW),
    },
    SleeptimeQueries: {
        "sleeptime_groups": lambda reads: reads.sleeptime_groups(ORG, AGENT),
        "sleeptime_agents_of": lambda reads: reads.sleeptime_agents_of(ORG, AGENT),
        "manager_of_sleeptime": lambda reads: reads.manager_of_sleeptime(ORG, AGENT),
        "are_accepted": lambda reads: reads.are_accepted(ORG, [RUN]),
    },
    PostgresScheduleQueries: {
        "abandoned_schedules": lambda queries: queries.abandoned_schedules(10, [AGENT]),
        "outdated_schedules": lambda queries: queries.outdated_schedules(1, 10, ["schedule-1"]),
        "find_progress": lambda queries: queries.find_progress(ORG, STARTED_BY_FIRINGS),
        "counts": lambda queries: queries.counts(ORG, AGENT),
        "has_agent": lambda queries: queries.has_agent(ORG, AGENT),
        "has_conversation": lambda queries: queries.has_conversation(ORG, AGENT, CONVERSATION),
        "has_group": lambda queries: queries.has_group(ORG, GROUP),
    },
    PostgresAgentTools: {
        "tool_of_agent": lambda queries: queries.tool_of_agent(ORG, AGENT, "roll"),
    },
    PostgresFileTexts: {
        "lines": lambda texts: texts.lines(ORG, FILE, 1, 10),
    },
    FolderQueries: {
        "statistics": lambda reads: reads.statistics(ORG, detailed=True),
        "id_of_name": lambda reads: reads.id_of_name(ORG, "folder-1"),
        "chars": lambda reads: reads.chars(ORG, FOLDER),
    },
    PostgresAgentAttachments: {
        "blocks_without_holder": lambda holders: holders.blocks_without_holder(ORG, [BLOCK]),
        "same_label": lambda attached: attached.same_label(ORG, BLOCK, "human"),
        "agent_exists": lambda attached: attached.agent_exists(ORG, AGENT),
        "has_folders": lambda attached: attached.has_folders(ORG, AGENT),
        "agents_with_folder": lambda attached: attached.agents_with_folder(ORG, FOLDER, 10),
    },
}
# What is made from more than a database.
MAKING: dict[type, Callable[[Database], Any]] = {
    FleetQueries: lambda database: FleetQueries(database, SEALER)
}
# What goes through all that there is, on purpose: it works on what lies about, and that is little.
WHOLE: dict[type, set[str]] = {
    RestoreQueries: {"due_restores", "versions_at"},
    FleetQueries: {"due_fleets", "sweep"},
    BatchQueries: {
        *("due_batches", "has_open_batches", "open_batches", "due_batch_callbacks"),
    },
    CallbackQueries: {"due_callbacks"},
    ConversationQueries: {"waiting_approvals", "paused_conversations"},
    OwnSummaryQueries: {"due_summaries"},
    OwnReplayQueries: {"due_replays", "open_replays", "lost_replays"},
    RunQueries: {"orphaned_runs"},
    PostgresOwnToolRunQueries: {"orphaned_runs"},
    DeletedAgents: {"last_event"},
    PostgresMcpServerQueries: {"due_discoveries"},
    PostgresFileProcessingQueries: {"due_files", "orphans"},
    PostgresMessageVectors: {"backlog", "remove_forgotten", "forget"},
    AttachmentQueries: {"count_identities"},
    ProjectQueries: {"count_projects", "left_by_projects"},
    PostgresGroupQueries: {"lost_blocks", "unequal_groups"},
    PostgresRecipientQueries: {"due_messages", "find_ranked"},
    CapabilityQueries: {"names"},
    PostgresSleeptimeQueries: {"due_reviews", "lost_groups", "agents_without_group"},
    PostgresScheduleQueries: {
        *("now", "due_schedules"),
    },
    PostgresFileTexts: {"unnamed_texts", "remove", "write", "with_chunk"},
    PostgresAgentAttachments: {"lost_folders", "lost_files"},
    PostgresArchiveQueries: {"removals", "reembeddings"},
}
# Resources are read in these ways, each by its key.
RESOURCES: dict[str, tuple[Resource, str]] = {
    "agent": (AGENTS, AGENT),
    "archive": (ARCHIVES, ARCHIVE),
    "block": (BLOCKS, BLOCK),
    "folder": (FOLDERS, FOLDER),
    "file": (FILES, FILE),
    "conversation": (CONVERSATIONS, BESIDE),
    "batch": (BATCHES, BATCH),
    "run": (RUNS, RUN),
    "step": (STEPS, STEP),
    "tool": (TOOLS, TOOL),
    "tool_run": (CALLS, TOOL_RUN),
    "mcp_server": (MCP_SERVERS, MCP_SERVER),
    "group": (GROUPS, GROUP),
    "sandbox": (CONFIGS, SANDBOX_CONFIG),
    "fleet": (fleets.FLEETS, FLEET),
    "identity": (IDENTITIES, IDENTITY),
    "project": (PROJECTS, PROJECT),
}
READS: dict[str, Callable[[ResourceQueries, Resource, str], Awaitable[Any]]] = {
    "one": lambda reads, resource, key: reads.one(resource, ORG, key),
    "exists": lambda reads, resource, key: reads.exists(resource, ORG, key),
    "page": lambda reads, resource, _: reads.page(resource, filter_of(Page(), ORG), Slice()),
    "page after a deleted row": lambda reads, resource, _: after_deleted(reads, resource),
}


# What a fleet has, by its id, or by that of an apply of it.
OF_FLEETS: tuple[tuple[Resource, str, str], ...] = (
    (fleets.MEMBERS, fleets.OF_FLEET, "id"),
    (fleets.APPLIES, fleets.OF_FLEET, "created_at"),
    (fleets.UNITS, fleets.OF_APPLY, "number"),
)


async def fleets_have_keys(explained: Explained) -> None:
    """The same for what a fleet has, and for the fleet of an agent."""
    reads = ResourceQueries(explained)
    for resource, condition, key in OF_FLEETS:
        explained.scans = []
        found = filter_of(Page(), ORG).by_key(condition, fleet=FLEET, apply=APPLY)
        await reads.page(resource, found, Slice(), key=key)
        assert explained.without_key() == [], resource.kind
    explained.scans = []
    await reads.one(fleets.APPLIES, ORG, APPLY)
    await explained.fetch_one(fleets.OWNER_OF, {"agent": AGENT, "org": ORG})
    assert explained.without_key() == []


async def after_deleted(reads: ResourceQueries, resource: Resource) -> None:
    with pytest.raises(UnknownCursor):
        await reads.page(resource, filter_of(Page(), ORG), Slice(after="unknown"))


@pytest.mark.parametrize("reader", ASKED)
def test_every_query_of_a_service_is_looked_at(reader: type) -> None:
    there = {name for name, variable in vars(reader).items() if iscoroutinefunction(variable)}
    assert there == ASKED[reader].keys() | WHOLE.get(reader, set())


@pytest.fixture(params=(*SIZES, UNCOUNTED), ids=lambda rows: f"{rows} rows")
async def explained(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> AsyncIterator[Explained]:
    """A database with so many rows in each table, which Postgres has counted or not: one that
    never had a row it does not count."""
    rows, counted = abs(request.param), request.param > 0
    url = postgres_server.create_migrated_database(f"plans_{rows}_{counted}".lower())
    with psycopg.connect(url, autocommit=True) as connection:
        for table, row in TABLES.items():
            values = row.format(org=ORG)
            made = f"select {values} from generate_series(1, {rows}) n"
            connection.execute(f"insert into {table} overriding system value {made}".encode())
            if counted:
                connection.execute(f"analyze {table}".encode())
    async with open_pool(url) as pool:
        yield Explained(Database(pool))


async def resources_have_keys(explained: Explained) -> None:
    """The same for what the declarations of resources are made into."""
    reads = ResourceQueries(explained)
    for kind, (resource, key) in RESOURCES.items():
        for name, read in READS.items():
            explained.scans = []
            await read(reads, resource, key)
            assert explained.scans, name
            assert explained.without_key() == [], f"{kind}, {name}"
    for document in (RUN_METRICS, RUN_TRACE, RUN_USAGE):
        explained.scans = []
        await reads.one(RUNS, ORG, RUN, document)
        assert explained.without_key() == []
    explained.scans = []
    await reads.one(TOOL_RUNS, ORG, TOOL_RUN)
    assert explained.without_key() == []
    explained.scans = []
    await reads.one(CONFIGURATIONS, ORG, CONFIGURATION)
    assert explained.without_key() == []
    explained.scans = []
    await reads.one(AGENTS, ORG, AGENT, AGENT_TOOLS)
    assert explained.without_key() == []
    for document in (STEP_METRICS, STEP_TRACE):
        explained.scans = []
        await reads.one(STEPS, ORG, STEP, document)
        assert explained.without_key() == []
    for asked in (
        StepPage(agent_id=AGENT),
        StepPage(feedback="positive"),
        StepPage(tags=["a"]),
        StepPage(trace_ids=["a"]),
    ):
        explained.scans = []
        await reads.page(STEPS, filter_of(asked, ORG), Slice())
        assert explained.without_key() == []
    explained.scans = []
    await reads.page(CALLS, filter_of(CallPage(agent_id=AGENT), ORG), Slice())
    assert explained.without_key() == []
    for condition, agent_or_archive in ((OF_AGENT, AGENT), (SEARCHING, ARCHIVE)):
        explained.scans = []
        resource = PASSAGES if condition == OF_AGENT else AGENTS
        found = filter_of(Page(), ORG).by_key(
            condition, agent=agent_or_archive, archive=agent_or_archive
        )
        await reads.page(resource, found, Slice(), bytes_max=1_000)
        assert explained.without_key() == []
    explained.scans = []
    found = Filter(["v.org = %(org)s", "v.id = any(%(ids)s)"], {"org": ORG, "ids": [PASSAGE]})
    await reads.page(PASSAGES, found, Slice())
    assert explained.without_key() == []
    queries, page = ToolQueries(reads, "user-1"), ToolPage(name="roll_1")
    for tools in (
        queries.page(filter_of(page, ORG), page.fits, Slice()),
        queries.by_ids(ORG, [TOOL]),
        queries.search(["dice"], filter_of(ToolPage(), ORG), page.fits, 10),
    ):
        explained.scans = []
        await tools
        assert explained.without_key() == []
    explained.scans = []
    found = filter_of(Page(), ORG).by_key(OF_MEMBER, agent=AGENT)
    await reads.page(GROUPS, found, Slice())
    members = Filter(["v.group_id = %(group)s", "v.org = %(org)s"], {"org": ORG, "group": GROUP})
    await reads.all(MEMBERS, members, order="v.position")
    assert explained.without_key() == []
    for condition, owner_id in ((OF_IDENTITY, IDENTITY), (AGENTS_IN_PROJECT, PROJECT)):
        explained.scans = []
        found = filter_of(Page(), ORG).by_key(condition, identity=owner_id, project=owner_id)
        await reads.page(AGENTS, found, Slice())
        assert explained.without_key() == []
    explained.scans = []
    found = filter_of(Page(), ORG).by_key(PROJECTS_OF_AGENT, agent=AGENT)
    await reads.page(PROJECTS, found, Slice())
    assert explained.without_key() == []
    explained.scans = []
    await reads.first(MCP_SERVERS, by_name(ORG, "weather"))
    assert explained.without_key() == []
    explained.scans = []
    attached = filter_of(Page(), ORG).by_key(IS_ATTACHED, agent=AGENT).add("v.label = 'human'")
    await reads.first(BLOCKS, attached, order=f"array_position({ATTACHED}, v.id)")
    assert explained.without_key() == []


async def test_what_has_a_key_is_found_by_it(explained: Explained) -> None:
    for reader, calls in ASKED.items():
        for name, call in calls.items():
            explained.scans = []
            await call(MAKING.get(reader, reader)(explained))
            assert explained.scans, name
            assert explained.without_key() == [], name
    await resources_have_keys(explained)
    await fleets_have_keys(explained)


async def test_runs_that_go_on_are_found_among_very_many_that_have_ended(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_migrated_database("plans_active_runs")
    row = TABLES["agent.runs"].format(org=ORG)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TEN_AGENTS)
        for numbers, status in (("1, 100000", "completed"), ("100001, 100060", "running")):
            values = row.replace("completed", status)
            connection.execute(
                f"insert into agent.runs select {values} from generate_series({numbers}) n".encode()
            )
        connection.execute(b"analyze agent.runs")
    async with open_pool(url) as pool:
        explained = Explained(Database(pool))
        for agent_id in (None, "agent-1"):
            found = filter_of(RunPage(agent_id=agent_id, active=True), ORG)
            page = await ResourceQueries(explained).page(RUNS, found, Slice(limit=50))
            assert page.count(b"{}") == (6 if agent_id else 50)
            read = [scan for scan in explained.scans if scan.get("Relation Name") != "agents"]
            # Of one agent, the index of its runs may be used beside it, as the sample has it.
            assert "runs_active" in [scan.get("Index Name") for scan in read]
            assert "Seq Scan" not in [scan["Node Type"] for scan in read]
            explained.scans = []


async def test_words_are_looked_up_in_their_index_once_there_are_many_messages(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_migrated_database("plans_message_words")
    row = TABLES["agent.messages"].format(org=ORG)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TEN_AGENTS)
        for numbers, word in (("1, 3", "'rare'"), ("4, 20000", "'hello'")):
            text = row.replace("'hello'", word)
            rows = f"select {text} from generate_series({numbers}) n"
            connection.execute(f"insert into agent.messages {rows}".encode())
        connection.execute(b"analyze agent.messages")
    async with open_pool(url) as pool:
        explained = Explained(Database(pool))
        search = MessageSearchQueries(explained)
        roles = ["user"]
        assert len(await search.search(Searched(ORG, "hello", roles, 10))) == 10
        assert {*indexes_of(explained)} == {"messages_recent", AGENTS_KEY}
        explained.scans = []
        assert len(await search.search(Searched(ORG, "rare", roles, 10))) == 3
        assert {*indexes_of(explained)} == {
            AGENTS_KEY,
            "messages_recent",
            "messages_words",
        }


@pytest.mark.parametrize(
    ("dimensions", "index"), [(768, "passages_vectors"), (1_536, "passages_signs")]
)
async def test_the_vectors_of_a_collection_are_read_where_they_lie_together(
    postgres_server: PostgresServer, dimensions: int, index: str
) -> None:
    url = postgres_server.create_migrated_database(f"plans_{index}")
    row = TABLES["memory.passages"].format(org=ORG)
    one = QueryVector("words", [1.0] + [0.0] * (dimensions - 1))
    near = PassageQuery(org=ORG, collection_ids=["archive-1"], vectors=(one,))
    with psycopg.connect(url, autocommit=True) as connection:
        vector = f"array_append(array_fill(0.0, array[{dimensions - 1}]), 1.0)::real[]::halfvec"
        values = row.replace("'[1,0]'", vector).replace("'archive-' || n % 50", "collection")
        connection.execute(
            f"insert into memory.passages select {values} from generate_series(1, 4000) n,"
            f" lateral (select 'archive-' || n % 10 as collection) c".encode()
        )
    async with open_pool(url) as pool:
        explained = Explained(Database(pool))
        await vacuum(Database(pool), "memory.passages")
        for query in (near, replace(near, after=NOW)):
            explained.scans = []
            await explained.fetch(*search_statement(query))
            assert {(scan["Node Type"], scan["Index Name"]) for scan in explained.scans} == {
                ("Index Only Scan", index),
                ("Index Scan", "passages_pkey"),
            }
