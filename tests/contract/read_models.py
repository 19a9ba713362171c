"""Rows of the services' read models, in memory and in Postgres, and the queries that read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from cryptography.fernet import Fernet

from libs.contracts.agent.conversations import main_conversation
from libs.encryption.sealer import Sealer
from libs.eventstore.commit_statement import commit_statement
from libs.eventstore.connection_pool import Database
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit
from libs.eventstore.read_model_rows import RowWrites, Table
from services.agent.adapters.all_queries import Queries
from services.agent.projections import tables as agent
from services.api.adapters.agents.fleet_queries import FleetQueries
from services.api.projections import tables as api
from services.memory.adapters.archive_queries import ArchiveQueries, PostgresArchiveQueries
from services.memory.adapters.message_vectors import MessageVectors, PostgresMessageVectors
from services.memory.adapters.passage_search import PassageSearch, PostgresPassageSearch
from services.memory.projections import tables as memory
from tests.fleet_queries import InMemoryFleetQueries
from tests.unit.agent.in_memory_queries import InMemoryQueries
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.message_vectors import InMemoryMessageVectors
from tests.unit.passage_search import InMemoryPassageSearch

ORG = "org-1"
SEALER = Sealer([Fernet.generate_key().decode()])
ADA = "agent-ada"
START = datetime(2026, 1, 1, tzinfo=UTC)
SERVICES = {
    table: service
    for service, tables in {
        "agent": agent.READ_MODELS,
        "api": api.READ_MODELS,
        "memory": memory.READ_MODELS,
    }.items()
    for table in tables
}
# What every row of these has, as far as no test says otherwise.
USUAL: dict[Table, dict[str, Any]] = {
    agent.AGENTS: {
        **{"updated_at": START.isoformat(), "name": "Ada", "conversation_id": "", "body": ""},
        **{"block_ids": [], "custom_tool_ids": [], "tags": [], "tools": [], "fields": {}},
        "hidden": False,
    },
    agent.RUNS: {
        **{"agent_id": ADA, "conversation_id": "conv-1", "status": "running"},
        **{"background": False, "request_hash": "hash", "fields": {}},
    },
    agent.CALLED_RUNS: {"waits": True, "callers": []},
    agent.CONVERSATIONS: {
        **{"agent_id": ADA, "archived": False, "hidden": False},
        **{"isolated_blocks": {}, "fields": {}},
    },
    agent.MESSAGES: {
        **{"agent_id": ADA, "conversation_id": main_conversation(ADA), "run_id": None},
        **{"role": "user", "sent": True, "in_context": True, "text": "tea", "v1_messages": []},
        "recorded_at": START.isoformat(),
    },
    agent.STEPS: {"position": 1, "status": "success"},
    agent.CALLBACKS: {"conversation_id": "conv-1", "attempts": 0},
    api.FLEETS: {
        "key": "shop",
        "name": "shop",
        "origin": "/srv/shop",
        "applying": None,
        "newest_apply": "",
    },
    api.FLEET_MEMBERS: {"applied": {}, "applied_at": START.isoformat()},
    api.FLEET_APPLIES: {
        **{"plan_id": "plan-1", "by": "ada", "undoes": None, "units": 2, "counts": {}},
        **{"status": "running", "reason": "", "completed_at": None},
    },
    api.FLEET_UNITS: {"fields": {}, "ids": {}},
    memory.BLOCKS: {"version": 1, "label": "human", "changed_by": None, "metadata": None},
    memory.FOLDERS: {"updated_at": START.isoformat(), "name": "papers", "metadata": None},
    memory.FILES: {
        **{"updated_at": START.isoformat(), "original_name": "a.txt", "status": "completed"},
        **{"file_type": "text/plain", "file_size": 1, "lines": 3, "due_at": START.isoformat()},
    },
    memory.PASSAGES: {
        **{"version": 1, "text": "tea", "tags": [], "fields": {}, "metadata": None},
        **{"embedding_model": "words", "owner_id": "passage", "file_id": None},
    },
}
WITHOUT_TIME = (
    *(agent.CALLED_RUNS, agent.HEARTBEAT_PAUSES, agent.APPROVALS),
    *(api.FLEET_MEMBERS, api.FLEET_UNITS),
    *(agent.BATCH_ITEMS, agent.CALLBACKS, memory.ARCHIVE_AGENTS, memory.OPEN_FILES),
)


class Rows(Protocol):
    """Where rows are, and what reads them."""

    database: Any
    queries: Queries
    archives: ArchiveQueries
    passages: PassageSearch
    vectors: MessageVectors
    fleets: FleetQueries

    async def write(self, service: str, rows: RowWrites) -> None:
        """Write rows of tables of a service."""
        ...

    async def take_lease(self, service: str, key: str) -> None:
        """Have a process of a service hold a lease."""
        ...


class InMemoryRows:
    def __init__(self) -> None:
        self.database = InMemoryDatabase(lambda: 0.0)
        self.queries: Queries = InMemoryQueries(self.database)
        self.archives: ArchiveQueries = InMemoryArchiveQueries(self.database)
        self.passages: PassageSearch = InMemoryPassageSearch(self.database)
        self.vectors: MessageVectors = InMemoryMessageVectors(self.database)
        self.fleets: FleetQueries = InMemoryFleetQueries(self.database)

    async def write(self, service: str, rows: RowWrites) -> None:
        rows.apply(self.database.schema(service).tables)

    async def take_lease(self, service: str, key: str) -> None:
        await InMemoryEventStore(self.database, service, "test").take_lease(key)


class PostgresRows:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.queries: Queries = Queries(database)
        self.archives: ArchiveQueries = PostgresArchiveQueries(database)
        self.passages: PassageSearch = PostgresPassageSearch(database)
        self.vectors: MessageVectors = PostgresMessageVectors(database)
        self.fleets: FleetQueries = FleetQueries(database, SEALER)

    async def write(self, service: str, rows: RowWrites) -> None:
        await self.database.fetch(*commit_statement(service, "test", [Commit(rows=rows)]))

    async def take_lease(self, service: str, key: str) -> None:
        await self.database.fetch(*commit_statement(service, "test", [Commit(take_lease=key)]))


async def put(rows: Rows, table: Table, *given: dict[str, Any]) -> None:
    """Write rows of a table: those of an organisation, each a second after the one before."""
    writes = RowWrites()
    for number, row in enumerate(given):
        time = {} if table in WITHOUT_TIME else {"created_at": at(number)}
        writes.upsert(table, {"org": ORG, **time, **USUAL.get(table, {}), **row})
    await rows.write(SERVICES[table], writes)


def at(seconds: int) -> str:
    """So many seconds after all began."""
    return (START + timedelta(seconds=seconds)).isoformat()
