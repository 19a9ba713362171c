"""Each event that is listed of an agent names a moment of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import psycopg
import pytest
from pydantic_core import to_json

from libs.bus.ports import Bus
from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from libs.eventstore.connection_pool import Database, open_pool
from services.api.adapters.agents.agent_event_queries import AgentEventQueries
from services.api.adapters.agents.agent_event_statement import EventFilter
from services.api.adapters.agents.past_reads import NoSuchMoment, PastReads
from services.api.adapters.resource_query_builder import Slice
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.examples import AGENT
from tests.servers import PostgresServer

INSERT = """insert into {service}.events (aggregate_id, version, topic, schema_version, org, about,
 payload, metadata, occurred_at, commit_order)
 values (%(id)s, %(version)s, %(topic)s, 1, %(org)s, %(id)s, %(payload)s, '{{}}', '2026-01-01',
  %(n)s)"""
OWN = {"config": {"agent_id": AGENT, "isolated_blocks": {"human": "block-copy"}}}
HISTORY: list[tuple[str, str, int, str, dict[str, Any]]] = [
    ("agent", AGENT, 1, "agent.created", {"block_ids": ["block-1"], "tool_ids": []}),
    ("memory", "block-1", 1, "block.created", {"block": {"label": "human", "value": "x"}}),
    ("agent", "conv-1", 1, "conversation.created", OWN),
    ("memory", "block-copy", 1, "block.created", {"block": {"label": "human", "value": "x"}}),
    ("memory", "block-copy", 2, "block.changed", {"changes": {"value": "y"}}),
    ("groups", "group-1", 1, "group.created", {"config": {"manager_agent_id": None}}),
    ("groups", "group-1", 2, "group.updated", {"changes": {"manager_agent_id": AGENT}}),
]
OTHERS = ("memory", "block-2", 1, "block.created", {"block": {"label": "human", "value": "x"}})


@pytest.fixture
async def database(postgres_server: PostgresServer) -> AsyncIterator[Database]:
    url = postgres_server.create_migrated_database("listed_events")
    with psycopg.connect(url, autocommit=True) as connection:
        for n, (service, name, version, topic, payload) in enumerate([*HISTORY, OTHERS], start=1):
            values = {"id": name, "version": version, "topic": topic, "org": ORG, "n": n}
            said = {"payload": to_json(payload).decode()}
            connection.execute(INSERT.format(service=service).encode(), {**values, **said})
    async with open_pool(url) as pool:
        yield Database(pool)


async def test_each_event_that_is_listed_names_a_moment(database: Database) -> None:
    past = PastReads(database, cast(Bus, None), ManualClock(), CountingIds())

    listed = await AgentEventQueries(database).events(
        EventFilter(ORG, AGENT), Slice(limit=50, order="asc")
    )

    names = [f"{event.aggregate_id}.{event.version}" for event in listed]
    assert names == [f"{name}.{version}" for _, name, version, *_ in HISTORY]
    cuts = [(await past.resolve(ORG, AGENT, name)).commit_order for name in names]
    assert cuts == [*range(1, len(HISTORY) + 1)]
    with pytest.raises(NoSuchMoment):
        await past.resolve(ORG, AGENT, "block-2.1")
