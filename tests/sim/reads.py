"""What the services read in SQL, from in-memory tables, over the simulated wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any

from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.archives import FoundPassage
from libs.embeddings.ports import Vector
from services.agent.adapters.approval_queries import WaitingApproval
from services.agent.adapters.callback_queries import DueCallback
from services.agent.adapters.called_run_queries import CallChain, CalledRun
from services.agent.adapters.conversation_queries import LostConversation
from services.agent.adapters.conversation_search_queries import FoundMessage, Search
from services.agent.adapters.custom_tool_queries import custom_tool
from services.agent.adapters.heartbeat_pause_queries import PausedConversation
from services.agent.adapters.reconciliation_queries import LostPart, MadeBlock
from services.agent.adapters.run_queries import Orphan
from services.agent.adapters.tool_run_queries import ToolRunProgress
from services.agent.domain.agents.archival_memory_metadata import ArchivalMemory
from services.agent.domain.agents.attached_folders import AttachedFile, AttachedFolder
from services.agent.domain.prompts.model_context import AttachedBlock
from services.agent.domain.runs.agent_call_deadlocks import WaitingCall
from services.agent.domain.tools.custom_tools import CustomTool
from services.api.adapters.run_follower_queries import AnswerPart, RunRow
from services.memory.adapters.agent_attachments import AttachedAgent, LostFiles, LostFolder
from services.memory.adapters.archive_queries import (
    Attachment,
    Collection,
    Reembedding,
    RememberingAgent,
    Removal,
)
from services.memory.adapters.folder_queries import Chunk
from services.memory.adapters.message_vectors import Backlog, MessageScope, NearestQuery
from services.memory.adapters.passage_search import PassageQuery
from services.memory.domain.block import SameLabel
from tests.sim.file_rows import READS, WRITES
from tests.sim.store import Client, finished
from tests.unit.agent.in_memory_queries import InMemoryQueries
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.allowed import ToolPermissionRows
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import InMemoryFolderQueries
from tests.unit.message_vectors import InMemoryMessageVectors
from tests.unit.passage_search import InMemoryPassageSearch


class SimDatabase:
    """Stands where `postgres.Database` does. The only SQL that reaches it is about bytes and texts
    of files, where there are any, and the catalogue's, which publishes the models and their prices
    for the api."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def fetch(self, query: str, parameters: Any = None) -> list[Any]:
        if name := READS.get(query) or WRITES.get(query):
            rows = self.client.server.file_rows
            if rows is None:
                return []
            execute = partial(getattr(rows, name), parameters)
            return await self.client.ask(execute, write=query in WRITES)
        assert "agent.models" in query or "agent.prices" in query, query
        return await self.client.ask(list)

    async def fetch_one(self, query: str, parameters: Any = None) -> Any:
        return next(iter(await self.fetch(query, parameters)), None)

    async def any_row(self, *sources: str) -> bool:
        """There may be: the query that follows says."""
        return True


class SimQueries:
    """Keeps the contract of `Queries`."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client
        self.data = InMemoryQueries(self.client.server.database)

    async def seen_blocks(self, org: str, block_ids: list[str]) -> list[AttachedBlock]:
        return await self.client.ask(lambda: finished(self.data.seen_blocks(org, block_ids)))

    async def archival_memory(self, org: str, agent_id: str) -> ArchivalMemory:
        return await self.client.ask(lambda: finished(self.data.archival_memory(org, agent_id)))

    async def seen_folders(self, org: str, agent_id: str, chars_max: int) -> list[AttachedFolder]:
        asked = (org, agent_id, chars_max)
        return await self.client.ask(lambda: finished(self.data.seen_folders(*asked)))

    async def folder_ids(self, org: str, agent_id: str) -> list[str]:
        return await self.client.ask(lambda: finished(self.data.folder_ids(org, agent_id)))

    async def files_of_agent(self, org: str, agent_id: str, limit: int) -> list[AttachedFile]:
        asked = (org, agent_id, limit)
        return await self.client.ask(lambda: finished(self.data.files_of_agent(*asked)))

    async def files_named(self, org: str, agent_id: str, names: list[str]) -> list[AttachedFile]:
        asked = (org, agent_id, names)
        return await self.client.ask(lambda: finished(self.data.files_named(*asked)))

    async def file_segments(
        self, org: str, file_id: str, *, first_line: int, after: int, segments: int
    ) -> list[tuple[int, int, str]]:
        asked = {"first_line": first_line, "after": after, "segments": segments}
        return await self.client.ask(
            lambda: finished(self.data.file_segments(org, file_id, **asked))
        )

    async def labels(self, org: str, block_ids: list[str]) -> dict[str, str]:
        return await self.client.ask(lambda: finished(self.data.labels(org, block_ids)))

    async def attached_block(self, org: str, agent_id: str, label: str) -> str | None:
        return await self.client.ask(
            lambda: finished(self.data.attached_block(org, agent_id, label))
        )

    async def agents_attached_to(self, org: str, block_id: str) -> list[str]:
        return await self.client.ask(lambda: finished(self.data.agents_attached_to(org, block_id)))

    async def lost_blocks(self, agent_ids: list[str] | None) -> list[LostPart]:
        return await self.client.ask(lambda: finished(self.data.lost_blocks(agent_ids)))

    async def agents_with_tool(self, org: str, tool_id: str) -> list[str]:
        return await self.client.ask(lambda: finished(self.data.agents_with_tool(org, tool_id)))

    async def lost_tools(self, agent_ids: list[str] | None) -> list[LostPart]:
        return await self.client.ask(lambda: finished(self.data.lost_tools(agent_ids)))

    async def latest_run(
        self,
        org: str,
        agent_id: str,
        conversation_id: str,
        request_hash: str,
        since: datetime,
        excluded: list[str],
    ) -> str | None:
        asked = (org, agent_id, conversation_id, request_hash, since, excluded)
        return await self.client.ask(lambda: finished(self.data.latest_run(*asked)))

    async def cancelled_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        return await self.client.ask(lambda: finished(self.data.cancelled_runs(orgs, run_ids)))

    async def active_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        return await self.client.ask(lambda: finished(self.data.active_runs(orgs, run_ids)))

    async def run_of_step(self, org: str, conversation_id: str, step_id: str) -> str | None:
        asked = (org, conversation_id, step_id)
        return await self.client.ask(lambda: finished(self.data.run_of_step(*asked)))

    async def due_callbacks(self, of_org: int, limit: int) -> list[DueCallback]:
        return await self.client.ask(lambda: finished(self.data.due_callbacks(of_org, limit)))

    async def messages_of_run(self, org: str, run_id: str) -> list[dict[str, Any]]:
        return await self.client.ask(lambda: finished(self.data.messages_of_run(org, run_id)))

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        return await self.client.ask(
            lambda: finished(self.data.has_run(org, conversation_id, run_id))
        )

    async def origin_of_run(self, org: str, conversation_id: str, run_id: str) -> str:
        return ""

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        return await self.client.ask(lambda: finished(self.data.search_messages(search)))

    async def messages_named(self, search: Search, ids: list[str]) -> list[FoundMessage]:
        return await self.client.ask(lambda: finished(self.data.messages_named(search, ids)))

    async def orphaned_turns(self, but: list[str]) -> list[Orphan]:
        return await self.client.ask(lambda: finished(self.data.orphaned_turns(but)))

    async def block_states(self, org: str, block_ids: list[str]) -> list[BlockState]:
        return await self.client.ask(lambda: finished(self.data.block_states(org, block_ids)))

    async def isolated_blocks(self, org: str, conversation_id: str) -> dict[str, str]:
        return await self.client.ask(
            lambda: finished(self.data.isolated_blocks(org, conversation_id))
        )

    async def conversations_of(self, org: str, agent_id: str, limit: int) -> list[str]:
        return await self.client.ask(
            lambda: finished(self.data.conversations_of(org, agent_id, limit))
        )

    async def lost_conversations(self, agent_ids: list[str] | None) -> list[LostConversation]:
        return await self.client.ask(lambda: finished(self.data.lost_conversations(agent_ids)))

    async def paused_conversations(self) -> list[PausedConversation]:
        return await self.client.ask(lambda: finished(self.data.paused_conversations()))

    async def waiting_approvals(self, seconds_max: float) -> list[WaitingApproval]:
        return await self.client.ask(lambda: finished(self.data.waiting_approvals(seconds_max)))

    async def unclaimed_blocks(self, blocks: list[MadeBlock]) -> list[MadeBlock]:
        return await self.client.ask(lambda: finished(self.data.unclaimed_blocks(blocks)))

    async def custom_tools(self, org: str, tool_ids: list[str]) -> list[CustomTool]:
        return await self.client.ask(lambda: [one for one in self.tools(org) if one.id in tool_ids])

    async def custom_tools_named(self, org: str, names: list[str]) -> list[CustomTool]:
        return await self.client.ask(lambda: [one for one in self.tools(org) if one.name in names])

    def tools(self, org: str) -> list[CustomTool]:
        """The tools that the tools service has."""
        rows: list[Any] = self.client.server.database.schema("tools").rows("tools")
        return [
            custom_tool(
                [
                    *(row[name] for name in ("id", "revision", "name", "tool_type", "json_schema")),
                    row["fields"].get("description"),
                    row["fields"].get("enable_parallel_execution"),
                    row["fields"].get("default_requires_approval"),
                    row["fields"].get("return_char_limit"),
                ]
            )
            for row in rows
            if row["org"] == org
        ]

    async def tool_run(self, org: str, tool_run_id: str) -> ToolRunProgress | None:
        def execute() -> ToolRunProgress | None:
            database = self.client.server.database
            schema = database.schema("tools")
            rows: list[Any] = [one for one in schema.rows("tool_runs") if one["id"] == tool_run_id]
            lease = schema.leases.get(tool_run_id)
            alive = lease is not None and lease.expires_at > database.clock()
            found = [one for one in rows if one["org"] == org]
            return (
                ToolRunProgress(found[0].get("result"), alive and found[0]["status"] == "running")
                if found
                else None
            )

        return await self.client.ask(execute)

    async def call_chain(self, org: str, run_id: str) -> CallChain | None:
        return await self.client.ask(lambda: finished(self.data.call_chain(org, run_id)))

    async def called_run(self, org: str, run_id: str) -> CalledRun | None:
        return await self.client.ask(lambda: finished(self.data.called_run(org, run_id)))

    async def waiting_calls(self, org: str, run_id: str) -> list[WaitingCall]:
        return await self.client.ask(lambda: finished(self.data.waiting_calls(org, run_id)))

    async def agents_with_tags(
        self, org: str, every: list[str], some: list[str], limit: int
    ) -> list[str]:
        return await self.client.ask(
            lambda: finished(self.data.agents_with_tags(org, every, some, limit))
        )


class SimView:
    """Keeps the contract of `ViewReader`: which tools may be called."""

    def __init__(self, database: SimDatabase, *, source: str, rows: str, fingerprint: str) -> None:
        self.client = database.client
        self.view = ToolPermissionRows(self.client.server.database)

    async def fingerprint(self) -> str:
        return await self.client.ask(lambda: finished(self.view.fingerprint()))

    async def rows(self) -> Sequence[tuple[Any, ...]]:
        return await self.client.ask(lambda: finished(self.view.rows()))


class SimHolders:
    """Keeps the contract of `AgentAttachments`."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client
        self.attached = InMemoryAgentAttachments(self.client.server.database)

    async def blocks_without_holder(self, org: str, block_ids: list[str]) -> list[str]:
        return await self.client.ask(
            lambda: finished(self.attached.blocks_without_holder(org, block_ids))
        )

    async def same_label(self, org: str, block_id: str, label: str) -> SameLabel | None:
        return await self.client.ask(
            lambda: finished(self.attached.same_label(org, block_id, label))
        )

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        return await self.client.ask(lambda: finished(self.attached.agent_exists(org, agent_id)))

    async def has_folders(self, org: str, agent_id: str) -> bool:
        return await self.client.ask(lambda: finished(self.attached.has_folders(org, agent_id)))

    async def agents_with_folder(self, org: str, folder_id: str, limit: int) -> list[AttachedAgent]:
        asked = (org, folder_id, limit)
        return await self.client.ask(lambda: finished(self.attached.agents_with_folder(*asked)))

    async def lost_folders(self, limit: int) -> list[LostFolder]:
        return await self.client.ask(lambda: finished(self.attached.lost_folders(limit)))

    async def lost_files(self, limit: int) -> list[LostFiles]:
        return await self.client.ask(lambda: finished(self.attached.lost_files(limit)))


class SimArchiveQueries:
    """Keeps the contract of `ArchiveQueries`."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client
        self.data = InMemoryArchiveQueries(self.client.server.database)

    async def agent(self, org: str, agent_id: str) -> RememberingAgent | None:
        return await self.client.ask(lambda: finished(self.data.agent(org, agent_id)))

    async def collections_of(self, org: str, agent_id: str) -> list[Collection]:
        return await self.client.ask(lambda: finished(self.data.collections_of(org, agent_id)))

    async def collections(self, org: str, ids: list[str]) -> list[Collection]:
        return await self.client.ask(lambda: finished(self.data.collections(org, ids)))

    async def named_collections(self, org: str, ids: list[str]) -> list[Collection]:
        return await self.client.ask(lambda: finished(self.data.named_collections(org, ids)))

    async def all_collections(self, org: str) -> list[Collection]:
        return await self.client.ask(lambda: finished(self.data.all_collections(org)))

    async def passages_to_embed(
        self, org: str, archive_id: str, model: str, dimensions: int, limit: int
    ) -> list[tuple[str, str]]:
        return await self.client.ask(
            lambda: finished(self.data.passages_to_embed(org, archive_id, model, dimensions, limit))
        )

    async def reembeddings(self) -> list[Reembedding]:
        return await self.client.ask(lambda: finished(self.data.reembeddings()))

    async def passages_left(self, org: str, archive_id: str, limit: int) -> list[str]:
        return await self.client.ask(
            lambda: finished(self.data.passages_left(org, archive_id, limit))
        )

    async def passage_count(self, org: str, archive_id: str) -> int:
        return await self.client.ask(lambda: finished(self.data.passage_count(org, archive_id)))

    async def archive_count(self, org: str) -> int:
        return await self.client.ask(lambda: finished(self.data.archive_count(org)))

    async def removals(self, settled_seconds: float) -> list[Removal]:
        return await self.client.ask(lambda: finished(self.data.removals(settled_seconds)))

    async def orphaned(self) -> list[Attachment]:
        return await self.client.ask(lambda: finished(self.data.orphaned()))


class SimLargeCollections:
    """There is no index of vectors in memory, however many there are."""

    def __init__(self, database: SimDatabase, clock: object) -> None:
        pass

    async def turn(self) -> None:
        """Nothing to look after."""


class SimPassageSearch:
    """Keeps the contract of `PassageSearch`."""

    def __init__(self, database: SimDatabase, large: object) -> None:
        self.client = database.client
        self.data = InMemoryPassageSearch(self.client.server.database)

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        return await self.client.ask(lambda: finished(self.data.search(query)))


class SimMessageVectors:
    """Keeps the contract of `MessageVectors`; each process has its own, and embeds for itself."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client
        self.data = InMemoryMessageVectors(self.client.server.database)

    async def unembedded(
        self, scope: MessageScope, model: str, limit: int
    ) -> list[tuple[str, str]]:
        return await self.client.ask(lambda: finished(self.data.unembedded(scope, model, limit)))

    async def keep(self, scope: MessageScope, model: str, vectors: Mapping[str, Vector]) -> None:
        await self.client.ask(lambda: finished(self.data.keep(scope, model, vectors)))

    async def nearest(self, query: NearestQuery) -> list[tuple[str, float]]:
        return await self.client.ask(lambda: finished(self.data.nearest(query)))

    async def put_off(self, scope: MessageScope) -> None:
        await self.client.ask(lambda: finished(self.data.put_off(scope)))

    async def backlog(self) -> list[Backlog]:
        return await self.data.backlog()

    async def worked_on(self, one: Backlog, *, done: bool) -> None:
        await self.client.ask(lambda: finished(self.data.worked_on(one, done=done)))

    async def forget(self, org: str, conversation_id: str) -> None:
        await self.client.ask(lambda: finished(self.data.forget(org, conversation_id)))

    async def remove_forgotten(self, settled_seconds: float) -> bool:
        return await self.data.remove_forgotten(settled_seconds)


class SimRunQueries:
    """Keeps the contract of `RunQueries`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def rows(self, table: str) -> list[Any]:
        return self.client.server.database.schema("agent").rows(table)

    async def ask[T](self, execute: Callable[[], T]) -> T:
        return await self.client.ask(execute)

    async def run_answer(self, org: str, run_id: str) -> list[AnswerPart]:
        def execute() -> list[AnswerPart]:
            mine = [
                row for row in self.rows("messages") if (row["run_id"], row["org"]) == (run_id, org)
            ]
            mine.sort(key=lambda row: row["position"])
            return [
                AnswerPart(row["v1_messages"], row["number"], row["chunks"])
                for row in mine
                if not row["sent"]
            ]

        return await self.ask(execute)

    async def run_end(self, org: str, run_id: str) -> RunRow | None:
        def execute() -> RunRow | None:
            names = [field.name for field in fields(RunRow)]
            found = [row for row in self.rows("runs") if (row["id"], row["org"]) == (run_id, org)]
            return RunRow(*(found[0].get(name) for name in names)) if found else None

        return await self.ask(execute)


class SimFolderQueries:
    """Keeps the contract of `FolderQueries`."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client
        self.data = InMemoryFolderQueries(self.client.server.database)

    async def folders_of(self, org: str) -> int:
        return await self.client.ask(lambda: finished(self.data.folders_of(org)))

    async def files_of(self, org: str, folder_id: str) -> int:
        return await self.client.ask(lambda: finished(self.data.files_of(org, folder_id)))

    async def same_name(self, org: str, folder_id: str, original_name: str) -> int:
        asked = (org, folder_id, original_name)
        return await self.client.ask(lambda: finished(self.data.same_name(*asked)))

    async def readable_files(self, org: str, folder_id: str, limit: int) -> list[str]:
        asked = (org, folder_id, limit)
        return await self.client.ask(lambda: finished(self.data.readable_files(*asked)))

    async def chunks_to_embed(
        self, org: str, folder_id: str, model: str, dimensions: int, limit: int
    ) -> list[Chunk]:
        asked = (org, folder_id, model, dimensions, limit)
        return await self.client.ask(lambda: finished(self.data.chunks_to_embed(*asked)))

    async def unfinished_files(self, org: str, folder_id: str) -> int:
        return await self.client.ask(lambda: finished(self.data.unfinished_files(org, folder_id)))
