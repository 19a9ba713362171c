"""What the services read in SQL, from the tables of the twin, over the simulated wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from typing import Any

from services.agent.adapters.queries import FoundMessage, LostBlock, Orphan, Search
from services.agent.domain.context import SeenBlock
from services.api.adapters.reads import AnswerPart, RunRow
from tests.sim.store import Client, finished
from tests.unit.agent.world import TwinQueries


class SimDatabase:
    """Stands where `postgres.Database` does. The only SQL that reaches it is the catalogue's,
    which publishes the models for the api to list."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def fetch(self, query: str, parameters: Any = None) -> list[Any]:
        assert "agent.models" in query, query
        return await self.client.ask(list)


class SimQueries:
    """Keeps the contract of `Queries`."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client
        self.twin = TwinQueries(self.client.server.database)

    async def seen_blocks(self, block_ids: list[str]) -> list[SeenBlock]:
        return await self.client.ask(lambda: finished(self.twin.seen_blocks(block_ids)))

    async def labels(self, block_ids: list[str]) -> dict[str, str]:
        return await self.client.ask(lambda: finished(self.twin.labels(block_ids)))

    async def agents_seeing(self, block_id: str) -> list[str]:
        return await self.client.ask(lambda: finished(self.twin.agents_seeing(block_id)))

    async def lost_blocks(self, agent_ids: list[str] | None) -> list[LostBlock]:
        return await self.client.ask(lambda: finished(self.twin.lost_blocks(agent_ids)))

    async def latest_run(
        self, agent_id: str, request_hash: str, since: datetime, excluded: list[str]
    ) -> str | None:
        return await self.client.ask(
            lambda: finished(self.twin.latest_run(agent_id, request_hash, since, excluded))
        )

    async def cancelled_runs(self, run_ids: list[str]) -> list[str]:
        return await self.client.ask(lambda: finished(self.twin.cancelled_runs(run_ids)))

    async def origin_of_run(self, conversation_id: str, run_id: str) -> str:
        return ""

    async def search_messages(self, search: Search) -> list[FoundMessage]:
        return await self.client.ask(lambda: finished(self.twin.search_messages(search)))

    async def orphaned_turns(self) -> list[Orphan]:
        return await self.client.ask(lambda: finished(self.twin.orphaned_turns()))

    async def unfinished_creations(self) -> list[Orphan]:
        return await self.client.ask(lambda: finished(self.twin.unfinished_creations()))


class SimHolders:
    """Keeps the contract of `Holders`."""

    def __init__(self, database: SimDatabase) -> None:
        self.client = database.client

    async def blocks_without_holder(self, block_ids: list[str]) -> list[str]:
        def execute() -> list[str]:
            agents: list[Any] = self.client.server.database.schema("agent").rows("agents")
            seen = {block_id for row in agents for block_id in row["block_ids"]}
            return [one for one in block_ids if one not in seen]

        return await self.client.ask(execute)


class SimReads:
    """What the api reads of a run."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def rows(self, table: str) -> list[Any]:
        return self.client.server.database.schema("agent").rows(table)

    async def ask[T](self, execute: Callable[[], T]) -> T:
        return await self.client.ask(execute)

    async def run_answer(self, run_id: str) -> list[AnswerPart]:
        def execute() -> list[AnswerPart]:
            mine = [row for row in self.rows("messages") if row["run_id"] == run_id]
            mine.sort(key=lambda row: row["position"])
            return [
                AnswerPart(row["docs"], row["number"], row["pieces"])
                for row in mine
                if not row["sent"]
            ]

        return await self.ask(execute)

    async def run_end(self, run_id: str) -> RunRow | None:
        def execute() -> RunRow | None:
            names = [field.name for field in fields(RunRow)]
            found = [row for row in self.rows("runs") if row["id"] == run_id]
            return RunRow(*(found[0].get(name) for name in names)) if found else None

        return await self.ask(execute)
