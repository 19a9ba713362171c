"""The worlds that the store's contract is tested in: memory, simulation, a real Postgres."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol

import psycopg

from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.migrations import migrate
from libs.eventstore.ports import LEASE_SECONDS, EventStore
from libs.eventstore.postgres import PostgresEventStore
from tests.contract.ledger import TABLES
from tests.servers import PostgresServer
from tests.sim.network import Network
from tests.sim.store import Client, Server, SimStore

PASSWORD = "secret"
DATABASE = "contract"
SCHEMAS = count(1)


class World(Protocol):
    """A database with two services, `ledger` and one that follows it."""

    ledger: str

    def store(self, holder: str = "process-1") -> EventStore:
        """The ledger's store, as one process has it."""
        ...

    def follower(self, holder: str = "follower-1") -> EventStore:
        """The store of the service that follows the ledger."""
        ...

    async def rows(self, table: str = "accounts") -> list[dict[str, Any]]:
        """The rows of a read model of the ledger, by id."""
        ...

    async def pass_time(self) -> None:
        """Let eleven seconds pass: every lease that is not renewed runs out."""
        ...


class MemoryWorld:
    ledger = "ledger"

    def __init__(self) -> None:
        self.now = 0.0
        self.database = InMemoryDatabase(lambda: self.now)

    def store(self, holder: str = "process-1") -> EventStore:
        return InMemoryEventStore(self.database, "ledger", holder)

    def follower(self, holder: str = "follower-1") -> EventStore:
        return InMemoryEventStore(self.database, "follower", holder)

    async def rows(self, table: str = "accounts") -> list[dict[str, Any]]:
        rows = self.database.schema("ledger").rows(table)
        return sorted(json.loads(json.dumps(rows)), key=lambda row: row["id"])

    async def pass_time(self) -> None:
        self.now += LEASE_SECONDS + 1


class SimWorld(MemoryWorld):
    """The store of the simulator, when nothing goes wrong in it."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self.database, Network(Random(1)))

    def store(self, holder: str = "process-1") -> EventStore:
        return SimStore(Client(self.server, holder, None), "ledger", holder)

    def follower(self, holder: str = "follower-1") -> EventStore:
        return SimStore(Client(self.server, holder, None), "follower", holder)


class PostgresWorld:
    """Fresh schemas, used by the roles that the services have."""

    def __init__(self, admin_url: str, ledger: str, pools: dict[str, Database]) -> None:
        self.admin_url = admin_url
        self.ledger = ledger
        self.databases = pools

    def store(self, holder: str = "process-1") -> PostgresEventStore:
        return PostgresEventStore(self.databases["ledger"], self.ledger, holder)

    def follower(self, holder: str = "follower-1") -> EventStore:
        return PostgresEventStore(self.databases["follower"], f"follower_of_{self.ledger}", holder)

    async def rows(self, table: str = "accounts") -> list[dict[str, Any]]:
        found = await self.admin(f"select to_jsonb(t) from {self.ledger}.{table} t order by id")
        return [{k: v for k, v in row.items() if v is not None} for (row,) in found]

    async def pass_time(self) -> None:
        await self.admin(
            f"update {self.ledger}.leases set expires_at = expires_at - interval '11 s'"
        )
        await self.admin(
            f"update {self.ledger}.inbox set handled_at = handled_at - interval '11 s'"
        )
        await self.admin(
            f"update {self.ledger}.attempts set free_at = free_at - interval '11 s',"
            " last_at = last_at - interval '11 s'"
        )

    async def admin(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement as superuser."""
        async with await psycopg.AsyncConnection.connect(
            self.admin_url, autocommit=True
        ) as connection:
            cursor = await connection.execute(statement.encode(), parameters or None)
            return await cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def postgres_world(server: PostgresServer, folder: Path) -> AsyncIterator[PostgresWorld]:
    """A migrated database of a running server, with connections as the services' roles."""
    admin_url = server.create_database(DATABASE)
    ledger = f"ledger_{next(SCHEMAS)}"
    tables = folder / "0001_accounts.sql"
    tables.write_text(TABLES)
    with psycopg.connect(admin_url, autocommit=True) as connection:
        migrate(connection, ledger, PASSWORD, [tables])
        migrate(connection, f"follower_of_{ledger}", PASSWORD, [])
    pools = {
        name: open_pool(server.server.url(DATABASE, user=f"heeler_{schema}", password=PASSWORD))
        for name, schema in {"ledger": ledger, "follower": f"follower_of_{ledger}"}.items()
    }
    try:
        for pool in pools.values():
            await pool.open()
        databases = {name: Database(pool) for name, pool in pools.items()}
        yield PostgresWorld(admin_url, ledger, databases)
    finally:
        for pool in pools.values():
            await pool.close()
