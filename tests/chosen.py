"""The servers that the tests run against: from wheels, or from images: TEST_SERVERS=containers.

What tests the launcher itself, or hurts what it runs, asks `tests.servers` for its own.
"""

from __future__ import annotations

import os
from typing import Any

from tests.servers import HeelerInstance, NatsServer, PostgresServer


def in_containers() -> bool:
    where = os.environ.get("TEST_SERVERS") or "embedded"
    assert where in ("embedded", "containers"), f"TEST_SERVERS={where}: embedded or containers"
    return where == "containers"


def new_postgres() -> PostgresServer:
    if in_containers():
        from tests.containers import PostgresContainer

        return PostgresContainer()
    return PostgresServer()


def new_nats() -> NatsServer:
    if in_containers():
        from tests.containers import NatsContainer

        return NatsContainer()
    return NatsServer()


def new_heeler(**options: Any) -> HeelerInstance:
    """A whole Heeler; takes what HeelerInstance takes."""
    if in_containers():
        from tests.containers import ContainersInstance

        return ContainersInstance(**options)
    return HeelerInstance(**options)
