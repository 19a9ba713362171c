"""Real servers, started once for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.chosen import new_nats, new_postgres
from tests.servers import NatsServer, PostgresServer

pytest_plugins = ["tests.compatibility_plugin", "tests.quick_plugin"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What `--dist loadfile` means here."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import SharedHeelers

    return SharedHeelers(config, log)


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
