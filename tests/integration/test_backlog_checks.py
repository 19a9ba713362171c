"""The doctor tells of events that really wait for a consumer, and of no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from deploy.doctor.examined import Examined
from deploy.doctor.server_checks import LAG_EVENTS_LOW, check_backlog
from libs.contracts.service_registry import SERVICES
from tests.servers import PostgresServer

EVENTS = LAG_EVENTS_LOW + 500
FILL = f"""
insert into agent.events (aggregate_id, version, topic, schema_version, org, about, payload,
                          metadata, occurred_at)
select 'agent-' || n, 1, 'agent.created', 1, 'org-1', 'agent-' || n, '{{}}', '{{}}', now()
from generate_series(1, {EVENTS}) n;
insert into agent.log select n, n from generate_series(1, {EVENTS}) n;
update agent.relay
set position = {EVENTS}, published = {EVENTS}, event_position = {EVENTS},
    xid = pg_current_xact_id()"""


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    """A database with many events of agents, all of them published."""
    url = postgres_server.create_migrated_database("backlog_checks")
    execute(url, "truncate agent.events, agent.log")
    for service in SERVICES:
        execute(url, f"truncate {service.name}.positions")
    execute(url, "alter table agent.events alter column position restart")
    execute(url, FILL)
    return url


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def told(url: str) -> list[tuple[str, str]]:
    """The states of what the doctor finds, and what it says."""
    examined = SimpleNamespace(database_url=url, command=lambda words: words, restart="up")
    found: Any = check_backlog(cast(Examined, examined))
    return [(each.state, each.message) for each in found]


def test_a_quiet_server_with_many_events_is_content(database: str) -> None:
    """No event waits for a service that only hears events: it has stored no position."""
    execute(database, f"insert into memory.positions values ('agent', {EVENTS})")
    execute(database, "insert into tools.positions values ('erasure', 0)")
    assert [state for state, _ in told(database)] == ["ok"]


def test_a_consumer_that_stands_still_is_named(database: str) -> None:
    execute(database, f"insert into memory.positions values ('agent', {EVENTS})")
    execute(database, "insert into groups.positions values ('agent', 7)")
    [(state, message)] = told(database)
    assert state == "warning"
    assert message == f"{EVENTS - 7:,} events wait for groups, which follows agent"
