"""What the services read in SQL, from in-memory tables, over the simulated wire."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar

from services.agent.adapters.tool_queries import ToolRunProgress, custom_tool
from services.agent.domain.tools.custom_tools import CustomTool
from services.api.adapters.conversations.run_follower_queries import AnswerPart, RunRow
from services.memory.adapters.message_vectors import Backlog
from tests.sim.file_rows import READS, WRITES
from tests.sim.store import Client, finished
from tests.unit.agent.in_memory_queries import InMemoryQueries
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.allowed import ToolPermissionRows
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import InMemoryFolderQueries
from tests.unit.message_vectors import InMemoryMessageVectors
from tests.unit.passage_search import InMemoryPassageSearch
from tests.unit.scheduler.in_memory_queries import InMemoryScheduleQueries


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


class OverTheWire:
    """A port of a service, asked over the simulated wire. A subclass says what answers in memory
    and gets every coroutine of that class, unless it has its own."""

    reads: ClassVar[type]

    def __init_subclass__(cls, *, reads: type) -> None:
        cls.reads = reads
        for name, _ in inspect.getmembers(reads, inspect.iscoroutinefunction):
            if name not in vars(cls):
                setattr(cls, name, asked_over_the_wire(name))

    def __init__(self, database: SimDatabase, *_: object, **__: object) -> None:
        self.client = database.client
        self.data = self.reads(self.client.server.database)


def asked_over_the_wire(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A method that asks for what the in-memory port has by this name."""

    async def ask(self: OverTheWire, *arguments: Any, **options: Any) -> Any:
        read = getattr(self.data, name)
        return await self.client.ask(lambda: finished(read(*arguments, **options)))

    return ask


class SimQueries(OverTheWire, reads=InMemoryQueries):
    """Keeps the contract of `Queries`."""

    async def custom_tools(self, org: str, tool_ids: list[str]) -> list[CustomTool]:
        return await self.client.ask(
            lambda: [tool for tool in self.tools(org) if tool.id in tool_ids]
        )

    async def custom_tools_named(self, org: str, names: list[str]) -> list[CustomTool]:
        return await self.client.ask(
            lambda: [tool for tool in self.tools(org) if tool.name in names]
        )

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
            rows: list[Any] = [row for row in schema.rows("tool_runs") if row["id"] == tool_run_id]
            lease = schema.leases.get(tool_run_id)
            alive = lease is not None and lease.expires_at > database.clock()
            found = [row for row in rows if row["org"] == org]
            return (
                ToolRunProgress(found[0].get("result"), alive and found[0]["status"] == "running")
                if found
                else None
            )

        return await self.client.ask(execute)


class SimView(OverTheWire, reads=ToolPermissionRows):
    """Keeps the contract of `ViewReader`: which tools may be called."""


class SimHolders(OverTheWire, reads=InMemoryAgentAttachments):
    """Keeps the contract of `AgentAttachments`."""


class SimArchiveQueries(OverTheWire, reads=InMemoryArchiveQueries):
    """Keeps the contract of `ArchiveQueries`."""


class SimFolderQueries(OverTheWire, reads=InMemoryFolderQueries):
    """Keeps the contract of `FolderQueries`."""


class SimPassageSearch(OverTheWire, reads=InMemoryPassageSearch):
    """Keeps the contract of `PassageSearch`."""


class SimScheduleQueries(OverTheWire, reads=InMemoryScheduleQueries):
    """Keeps the contract of `ScheduleQueries`."""


class SimMessageVectors(OverTheWire, reads=InMemoryMessageVectors):
    """Keeps the contract of `MessageVectors`; each process has its own, and embeds for itself."""

    async def backlog(self) -> list[Backlog]:
        return await self.data.backlog()

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
