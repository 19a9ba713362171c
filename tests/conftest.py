"""Real servers, started once for the whole test run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.chosen import new_nats, new_postgres
from tests.servers import NatsServer, PostgresServer

pytest_plugins = ["tests.compatibility_plugin", "tests.quick_plugin", "tests.workers_plugin"]

# How long a value takes to be made or tried says how busy the machine is.
settings.register_profile("timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("timeless")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is imported stays, so nobody looks through it for garbage: neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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
