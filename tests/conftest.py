"""Real servers, started once for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chosen import new_nats, new_postgres
from tests.servers import NatsServer, PostgresServer

pytest_plugins = ["tests.compatibility_plugin"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = new_postgres().start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    server = new_nats().start()
    yield server
    server.close()
