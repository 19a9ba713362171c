"""A page of an agent's events costs the same however many there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from libs.eventstore.connection_pool import Database, open_pool
from services.api.adapters.agents.agent_event_queries import AgentEventQueries
from services.api.adapters.agents.agent_event_statement import EventFilter
from services.api.adapters.resource_query_builder import Slice
from tests.contract.examples import AGENT
from tests.servers import PostgresServer

MAIN = main_conversation(AGENT)
RUNS = 20_000
EVENTS = 5 * RUNS
PASSAGES = 5_000
BLOCKS_READ_MAX = 8_000  # of 8 kB each, of some 20,000 that there are
COLUMNS = """(aggregate_id, version, topic, schema_version, org, about, payload, metadata,
 occurred_at, commit_order)"""
STEPS = "'{run.accepted,run.started,message.appended,model.replied,run.completed}'::text[]"
PADDING = "x" * 500
START = "timestamptz '2026-01-01'"
HISTORY = {
    "agent": f"""
select '{MAIN}', n, ({STEPS})[(n - 1) % 5 + 1], 1, '{ORG}',
 case when (n - 1) % 5 = 2 then '{MAIN}' else 'run-' || (n - 1) / 5 end,
 json_build_object('run_id', 'run-' || (n - 1) / 5, 'padding', '{PADDING}'), '{{}}'::jsonb,
 {START} + n * interval '1 second', n from generate_series(1, {EVENTS}) n
union all select '{AGENT}', 1, 'agent.created', 1, '{ORG}', '{AGENT}',
 json_build_object('block_ids', array['block-1'], 'tool_ids', array['tool-1']), '{{}}', {START}, 0
union all select 'conv-' || n, 1, 'conversation.created', 1, '{ORG}', 'conv-' || n,
 json_build_object('config', json_build_object('agent_id', '{AGENT}')), '{{}}',
 {START} + n * interval '1 second', n from generate_series(1, 200) n""",
    "memory": f"""
select 'block-1', n, case n when 1 then 'block.created' else 'block.changed' end, 1, '{ORG}',
 'block-1', json_build_object('changes', json_build_object('value', n)), '{{}}'::jsonb,
 {START} + n * interval '50 seconds', n * 50 from generate_series(1, {EVENTS // 50}) n
union all select 'archive-1', 1, 'archive.created', 1, '{ORG}', 'archive-1',
 json_build_object('agent_id', '{AGENT}'), '{{}}', {START}, 1
union all select 'passage-' || n, 1, 'passage.created', 1, '{ORG}', 'passage-' || n,
 json_build_object('archive_id', 'archive-1', 'text', n, 'padding', '{PADDING}'), '{{}}',
 {START} + n * interval '20 seconds', n * 20 from generate_series(1, {PASSAGES}) n""",
    "tools": f"""
select 'tool-1', 1, 'tool.created', 1, '{ORG}', 'tool-1', '{{}}'::json, '{{}}'::jsonb,
 {START}, 1""",
}


class Counting(Database):
    """Counts the pages of Postgres that the queries of a test read, in the cache or not, by the
    plans that a service has: made whatever the values of the parameters."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.pool)
        self.read = 0

    async def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        numbered = query % {name: f"${number}" for number, name in enumerate(parameters, start=1)}
        values = sql.SQL(", ").join(map(sql.Literal, parameters.values()))
        explain = sql.SQL("explain (analyze, buffers, format json) execute counted ({})")
        async with self.connection() as connection:
            await connection.execute(f"prepare counted as {numbered}".encode())
            ran = await connection.execute(explain.format(values))
            [[document]] = await ran.fetchall()
            await connection.execute("deallocate counted")
        plan = document[0]["Plan"]
        self.read += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return await super().fetch(query, parameters)


@pytest.fixture(scope="module")
def filled(postgres_server: PostgresServer) -> str:
    """A database in which an agent has 100,000 events and more."""
    url = postgres_server.create_migrated_database("agent_events")
    with psycopg.connect(url, autocommit=True) as connection:
        for service, rows in HISTORY.items():
            connection.execute(f"insert into {service}.events {COLUMNS} {rows}".encode())
    return url


@pytest.fixture
async def counting(filled: str) -> AsyncIterator[Counting]:
    async with open_pool(filled) as pool:
        yield Counting(Database(pool))


WANTED = {
    "all": (EventFilter(ORG, AGENT), 50),
    "of a rare topic": (EventFilter(ORG, AGENT, ["context.cleared"]), 0),
    "of topics": (EventFilter(ORG, AGENT, ["passage.created", "block.changed"]), 50),
    "of a run": (EventFilter(ORG, AGENT, run_id="run-12345"), 5),
    "of a call that never was": (EventFilter(ORG, AGENT, tool_call_id="call-1"), 0),
    "of a service": (EventFilter(ORG, AGENT, service="tools"), 1),
}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(("wanted", "found"), WANTED.values(), ids=WANTED)
async def test_a_page_reads_little_of_a_hundred_thousand_events(
    counting: Counting, wanted: EventFilter, found: int, order: Any
) -> None:
    page = await AgentEventQueries(counting).events(wanted, Slice(limit=50, order=order))

    assert len(page) == found
    assert counting.read < BLOCKS_READ_MAX


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_page_from_the_middle_reads_as_little(counting: Counting, order: Any) -> None:
    cursor = f"{MAIN}.{EVENTS // 2}"
    reads = AgentEventQueries(counting)
    after = await reads.events(EventFilter(ORG, AGENT), Slice(after=cursor, limit=50, order=order))
    before = await reads.events(
        EventFilter(ORG, AGENT), Slice(before=cursor, limit=50, order=order)
    )

    assert counting.read < 2 * BLOCKS_READ_MAX
    times = [event.occurred_at for event in [*before, *after]]
    assert times == sorted(times, reverse=order == "desc")
    assert len(times) == 100
    own = [event.version for event in [*before, *after] if event.aggregate_id == MAIN]
    assert EVENTS // 2 not in own
    assert max(own) - min(own) == len(own), "none is left out but the cursor"


async def test_moments_bound_what_is_read(counting: Counting) -> None:
    reads = AgentEventQueries(counting)
    [first] = await reads.events(EventFilter(ORG, AGENT), Slice(limit=1, order="asc"))
    middle = first.occurred_at.replace(day=1, hour=12, minute=0, second=0)
    wanted = EventFilter(ORG, AGENT, service="agent", since=middle, until=middle.replace(minute=1))
    counting.read = 0

    page = await reads.events(wanted, Slice(limit=500))

    assert [event.version for event in page if event.aggregate_id == MAIN] == [
        *range(12 * 3600 + 59, 12 * 3600 - 1, -1)
    ]
    assert counting.read < BLOCKS_READ_MAX


async def test_pages_of_passages_and_blocks_meet_without_a_gap(counting: Counting) -> None:
    wanted = EventFilter(ORG, AGENT, service="memory")
    reads, seen, after = AgentEventQueries(counting), [], None
    while page := await reads.events(wanted, Slice(after=after, limit=500)):
        seen += [f"{event.aggregate_id}.{event.version}" for event in page]
        after = seen[-1]

    assert len(seen) == len(set(seen)) == EVENTS // 50 + 1 + PASSAGES
