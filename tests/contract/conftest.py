"""Every test of a port runs on the twin and on the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.contracts import service_registry
from tests.contract.wires import MemoryWires, SimWires, Wires, nats_wires
from tests.contract.worlds import MemoryWorld, PostgresWorld, SimWorld, World, postgres_world
from tests.servers import NatsServer, PostgresServer


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


@pytest.fixture
def ledger_has_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy service is declared like any other."""
    monkeypatch.setattr(
        service_registry,
        "SERVICES",
        (*service_registry.SERVICES, service_registry.Service(name="ledger")),
    )


@pytest.fixture(params=["memory", "sim", "nats"])
async def wires(request: pytest.FixtureRequest, ledger_has_streams: None) -> AsyncIterator[Wires]:
    if request.param != "nats":
        yield MemoryWires() if request.param == "memory" else SimWires()
        return
    server: NatsServer = request.getfixturevalue("nats_server")
    async with nats_wires(server.url) as wires:
        yield wires
