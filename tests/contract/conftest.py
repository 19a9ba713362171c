"""Every test of a port runs in memory and on the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from libs.bus.nats_bus import NatsBus
from libs.bus.process_bus import ProcessBus
from libs.bus.process_router import ProcessRouter
from libs.contracts import service_registry
from libs.eventstore.connection_pool import Database, open_pool
from tests.contract.read_models import InMemoryRows, PostgresRows, Rows
from tests.contract.wires import MemoryWires, SimWires, Wires, nats_wires
from tests.contract.worlds import MemoryWorld, PostgresWorld, SimWorld, World, postgres_world
from tests.servers import NatsServer, PostgresServer

EMPTY_ALL_TABLES = f"""
do $$ declare name regclass; begin
    for name in select c.oid from pg_class c where relkind = 'r'
        and relname not in ('migrations', 'row_counts', 'block_agents') -- triggers write them
        and relnamespace::regnamespace::text in {(*service_registry.names(),)}
    loop execute 'delete from ' || name; end loop;
end $$"""


@pytest.fixture
async def postgres(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[PostgresWorld]:
    async with postgres_world(postgres_server, tmp_path) as world:
        yield world


@pytest.fixture(params=["memory", "sim", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param != "postgres":
        yield MemoryWorld() if request.param == "memory" else SimWorld()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    async with postgres_world(server, tmp_path) as world:
        yield world


@pytest.fixture(scope="session")
def migrated_url(postgres_server: PostgresServer) -> str:
    """A database with the tables of all services, shared by all tests that empty it."""
    return postgres_server.create_migrated_database("migrated")


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """The tables of all services, which are empty before and after the test."""
    async with open_pool(migrated_url) as pool:
        yield (database := Database(pool))
        await database.fetch(EMPTY_ALL_TABLES)


@pytest.fixture(params=["memory", "postgres"])
def rows(request: pytest.FixtureRequest) -> Rows:
    if request.param == "memory":
        return InMemoryRows()
    return PostgresRows(request.getfixturevalue("database"))


@pytest.fixture
def ledger_has_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy service is declared like any other."""
    monkeypatch.setattr(
        service_registry,
        "SERVICES",
        (*service_registry.SERVICES, service_registry.Service(name="ledger")),
    )


@pytest.fixture(params=["memory", "sim", "nats", "shared"])
async def wires(request: pytest.FixtureRequest, ledger_has_streams: None) -> AsyncIterator[Wires]:
    if request.param in ("memory", "sim"):
        yield MemoryWires() if request.param == "memory" else SimWires()
        return
    server: NatsServer = request.getfixturevalue("nats_server")
    shared = partial(ProcessBus, router=ProcessRouter())
    async with nats_wires(server.url, shared if request.param == "shared" else NatsBus) as wires:
        yield wires
