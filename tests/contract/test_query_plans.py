"""What the services ask for by a key is found by an index, in plans made at any size of a table.

A connection keeps its plans: one that reads a whole table, or a whole index, is quick while the
table is small, and costs more with each row from then on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any

import psycopg
import pytest

from deploy.migrate import migrate_all
from libs.contracts.message import DEFAULT_ORG as ORG
from libs.eventstore.database import Database, open_pool
from services.agent.adapters.queries import PostgresQueries, Search
from services.api.adapters.reads import ALL_RELATIONSHIPS, Filter, Reads, Slice
from services.api.http.runs import ACTIVE
from services.memory.adapters.holders import PostgresHolders
from tests.contract.examples import AGENT, BLOCK, CONVERSATION, RUN
from tests.contract.plans import generic_plan, reads_by_key, scans
from tests.servers import PostgresServer

NOW = datetime.now(UTC)
PASSWORDS = dict.fromkeys(("memory", "agent", "api"), "secret")
SIZES = (0, 20, 2_000)
TABLES = {
    "memory.blocks": "'block-' || n, '{org}', now(), 1, 'human', '{{}}'",
    "agent.agents": "'agent-' || n, '{org}', now(), now(), 'Ada', 'conv-' || n,"
    " array['block-' || n], '{{}}', '[]', '{{}}', '\"a\": 1'",
    "agent.messages": "'message-' || n, '{org}', 'agent-' || n % 10, 'conv-' || n % 10, n,"
    " 'run-' || n, 'step-' || n, 'user', now(), true, true, 'hello', '[]'",
    "agent.runs": "'run-' || n, '{org}', 'agent-' || n % 10, 'conv-' || n % 10, now(),"
    " 'completed', 'end_turn', false, 'hash-' || n, null, null, '{{}}', false",
    "agent.leases": "'conv-' || n, 'process-1', n, now()",
    "agent.events": "n, pg_current_xact_id(), 'conv-' || n % 10, n, 'run.accepted', 1, '{org}',"
    " 'run-' || n, '{{}}', '{{}}', now()",
}


class Explained(Database):
    """Runs every statement, and keeps the plan for it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.pool)
        self.scans: list[dict[str, Any]] = []

    async def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        await self.explain(query, parameters)
        return await super().fetch(query, parameters)

    async def fetch_one(self, query: str, parameters: Any = None) -> tuple[Any, ...] | None:
        await self.explain(query, parameters)
        return await super().fetch_one(query, parameters)

    async def explain(self, query: str, parameters: Any) -> None:
        if isinstance(parameters, dict):
            named = {name: f"${number}" for number, name in enumerate(parameters, start=1)}
            text = query % named
        else:
            text = query % tuple(f"${number}" for number in range(1, len(parameters) + 1))
        async with self.connection() as connection:
            self.scans += scans(await generic_plan(connection, text))


def of_conversation() -> Filter:
    """What the api asks of the messages of one conversation."""
    found = Filter(["m.conversation_id = %(conversation)s"], {"conversation": CONVERSATION})
    found.add("m.agent_id = %(agent)s", "agent", AGENT)
    return found


SEARCH = Search(AGENT, "cat", ["user"], NOW, NOW, 10)
ASKED: dict[type, dict[str, Callable[[Any], Awaitable[Any]]]] = {
    PostgresQueries: {
        "seen_blocks": lambda queries: queries.seen_blocks([BLOCK]),
        "seen_by_many": lambda queries: queries.seen_by_many([[BLOCK], [BLOCK]]),
        "labels": lambda queries: queries.labels([BLOCK]),
        "agents_seeing": lambda queries: queries.agents_seeing(BLOCK),
        "lost_blocks": lambda queries: queries.lost_blocks([AGENT]),
        "latest_run": lambda queries: queries.latest_run(AGENT, "hash", NOW, ["run"]),
        "cancelled_runs": lambda queries: queries.cancelled_runs([RUN]),
        "search_messages": lambda queries: queries.search_messages(SEARCH),
        "origin_of_run": lambda queries: queries.origin_of_run(CONVERSATION, RUN),
    },
    Reads: {
        "agent": lambda reads: reads.agent(ORG, AGENT, ALL_RELATIONSHIPS),
        "agents": lambda reads: reads.agents(
            Filter(["a.org = %(org)s"], {"org": ORG}), Slice(), ALL_RELATIONSHIPS
        ),
        "agent_exists": lambda reads: reads.agent_exists(ORG, AGENT),
        "agent_memory": lambda reads: reads.agent_memory(ORG, AGENT),
        "agent_tools": lambda reads: reads.agent_tools(ORG, AGENT),
        "agent_block": lambda reads: reads.agent_block(ORG, AGENT, "human"),
        "messages": lambda reads: reads.messages(
            AGENT, of_conversation(), Slice(), ["user_message"]
        ),
        "run_answer": lambda reads: reads.run_answer(RUN),
        "run": lambda reads: reads.run(ORG, RUN),
        "run_end": lambda reads: reads.run_end(RUN),
    },
    PostgresHolders: {
        "blocks_without_holder": lambda holders: holders.blocks_without_holder([BLOCK]),
    },
}
# What goes through all that there is, on purpose: it works on what lies about, and that is little;
# or it is a helper, which has the key of whoever calls it.
WHOLE = {
    PostgresQueries: {"orphaned_turns", "unfinished_creations"},
    Reads: {"one", "page", "place_cursors", "count"},
    PostgresHolders: set[str](),
}


@pytest.mark.parametrize("reader", ASKED)
def test_every_query_of_a_service_is_looked_at(reader: type) -> None:
    there = {name for name, one in vars(reader).items() if iscoroutinefunction(one)}
    assert there == ASKED[reader].keys() | WHOLE[reader]


@pytest.fixture(params=SIZES, ids=lambda rows: f"{rows} rows")
async def explained(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> AsyncIterator[Explained]:
    """A database with so many rows in each table, which Postgres has counted."""
    url = postgres_server.create_database(f"plans_{request.param}")
    migrate_all(url, PASSWORDS)
    with psycopg.connect(url, autocommit=True) as connection:
        for table, row in TABLES.items():
            values = row.format(org=ORG)
            numbers = f"generate_series(1, {request.param}) n"
            rows = f"select {values} from {numbers}"
            connection.execute(f"insert into {table} overriding system value {rows}".encode())
            connection.execute(f"analyze {table}".encode())
    async with open_pool(url) as pool:
        yield Explained(Database(pool))


async def test_what_has_a_key_is_found_by_it(explained: Explained) -> None:
    for reader, calls in ASKED.items():
        for name, call in calls.items():
            explained.scans = []
            await call(reader(explained))
            assert explained.scans, name
            for scan in explained.scans:
                assert reads_by_key(scan), f"{name}: {scan}"


async def test_runs_that_go_on_are_found_among_very_many_that_have_ended(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database("plans_active_runs")
    migrate_all(url, PASSWORDS)
    row = TABLES["agent.runs"].format(org=ORG)
    with psycopg.connect(url, autocommit=True) as connection:
        for numbers, status in (("1, 100000", "completed"), ("100001, 100060", "running")):
            values = row.replace("completed", status)
            connection.execute(
                f"insert into agent.runs select {values} from generate_series({numbers}) n".encode()
            )
        connection.execute(b"analyze agent.runs")
    async with open_pool(url) as pool:
        explained = Explained(Database(pool))
        for agent_id in (None, "agent-1"):
            found = Filter(["v.org = %(org)s", ACTIVE], {"org": ORG})
            found.add("v.agent_id = any(%(agents)s)", "agents", agent_id and [agent_id])
            page = await Reads(explained).page("agent.run_view", "v.doc", found, Slice(limit=50))
            assert page.count(b"{}") == (6 if agent_id else 50)
    assert [scan["Index Name"] for scan in explained.scans] == ["runs_active"] * 2
