"""Every store test runs in both worlds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.worlds import MemoryWorld, PostgresWorld, World, postgres_world
from tests.servers import PostgresServer


@pytest.fixture
async def postgres(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[PostgresWorld]:
    async with postgres_world(postgres_server, tmp_path) as world:
        yield world


@pytest.fixture(params=["memory", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    async with postgres_world(server, tmp_path) as world:
        yield world
