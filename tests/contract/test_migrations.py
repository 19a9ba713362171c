"""What a migration does to the rows that are there: a client reads the same before and after."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from libs.contracts.bus_messages import DEFAULT_ORG
from libs.contracts.letta.agent_state import agent_state
from libs.contracts.letta.blocks import block_state
from libs.contracts.service_registry import names
from libs.eventstore import migrations as store_migrations
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.migrations import migrate
from libs.eventstore.postgres import PostgresEventStore
from services.api.adapters.message_queries import History, MessageQueries
from services.api.adapters.resource_query_builder import ResourceQueries, Slice
from services.api.resources.agents import AGENTS, document_with
from services.api.resources.blocks import BLOCKS
from services.api.resources.dead_letters import DEAD_LETTERS
from tests.contract.examples import AGENT, BLOCK, CONFIG, CONVERSATION, HUMAN
from tests.servers import PostgresServer

SERVICES = Path(__file__).resolve().parents[2] / "services"
PASSWORD = "secret"
OLD_AGENT = """
insert into agent.agents
    (id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, doc)
values (%s, %s, now(), now(), 'Ada', %s, '{}', '{}', '[]', %s)"""


def migrations(service: str) -> list[Path]:
    return sorted((SERVICES / service / "adapters" / "migrations").glob("*.sql"))


async def test_an_agent_of_the_first_release_reads_the_same_after_the_migration(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database("older")
    state = agent_state(CONFIG)
    first, *later = migrations("agent")
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection, "memory", PASSWORD, migrations("memory"))
        migrate(connection, "agent", PASSWORD, [first])
        connection.execute(OLD_AGENT, [AGENT, DEFAULT_ORG, CONVERSATION, json.dumps(state)])
        migrate(connection, "agent", PASSWORD, [first, *later])
    async with open_pool(url) as pool:
        reads = ResourceQueries(Database(pool))
        read: Any = await reads.one(AGENTS, DEFAULT_ORG, AGENT, document_with([]))
    assert json.loads(read) == {**state, "message_ids": []}


OLD_STORE = ("schema.sql", "store_0002_dead_letters.sql")
OLD_BLOCK = """
insert into memory.blocks (id, org, created_at, version, label, doc)
values (%s, %s, now(), 1, 'human', %s)"""
OLD_EVENT = """
insert into memory.events
    (aggregate_id, version, topic, schema_version, org, about, payload, metadata, occurred_at)
values (%s, 1, 'block.created', 1, %s, %s, %s, '{}', now())"""
OLD_SNAPSHOT = "insert into memory.snapshots values (%s, 1, %s)"
OLD_MESSAGE = """
insert into agent.messages (id, org, agent_id, conversation_id, position, role, created_at, sent,
    in_context, text, docs)
values ('message-1', %s, %s, %s, 1, 'user', now(), true, true, 'Hello', %s)"""
OLD_LETTER = """
insert into memory.dead_letters
values ('letter-1', %s, now(), 'memory', 'command', 'n', 's', 'm1', %s, null, '{}', 4, now(), now(),
    'c', 't', 'x', 'parked', null)"""


async def test_what_was_kept_before_json_reads_the_same_after_the_migration(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that clients wrote was jsonb, and the metadata of a block stood in its `doc`."""
    url = postgres_server.create_database("before_json")
    block = block_state(HUMAN)
    block["metadata"] = {"numbers": [1.5, 1], "deep": {"list": [None, "ä"]}}
    docs = [{"id": "message-1", "message_type": "user_message", "content": "Hello"}]
    event, payload = {"block": block}, {"block_id": BLOCK, "changes": {"limit": 5}}
    old = {one: [*migrations(one)] for one in ("memory", "agent")}
    newer = ("as_they_came", "as_it_came", "what_was_created")
    old = {
        one: [
            file
            for file in files
            if file.name < "0010" and not any(name in file.name for name in newer)
        ]
        for one, files in old.items()
    }
    with psycopg.connect(url, autocommit=True) as connection:
        with monkeypatch.context() as before:
            before.setattr(store_migrations, "STORE_FILES", OLD_STORE)
            for service, files in old.items():
                migrate(connection, service, PASSWORD, files)
        connection.execute(OLD_BLOCK, [BLOCK, DEFAULT_ORG, json.dumps(block)])
        connection.execute(OLD_EVENT, [BLOCK, DEFAULT_ORG, BLOCK, json.dumps(event)])
        connection.execute(OLD_SNAPSHOT, [BLOCK, json.dumps(event)])
        connection.execute(OLD_MESSAGE, [DEFAULT_ORG, AGENT, CONVERSATION, json.dumps(docs)])
        connection.execute(OLD_LETTER, [DEFAULT_ORG, json.dumps(payload)])
        for service in names():
            migrate(connection, service, PASSWORD, migrations(service))
    async with open_pool(url) as pool:
        database = Database(pool)
        reads = ResourceQueries(database)
        read: Any = await reads.one(BLOCKS, DEFAULT_ORG, BLOCK)
        history = History(DEFAULT_ORG, AGENT, CONVERSATION)
        [shown] = json.loads(await MessageQueries(database).messages(history, Slice()))
        letter: Any = await reads.one(DEAD_LETTERS, DEFAULT_ORG, "letter-1")
        store = PostgresEventStore(database, "memory", "m")
        assert await store.number_log() == 1
        [logged] = await store.read_log(0)
        [snapshot] = await database.fetch("select state from memory.snapshots", [])
        assert (await store.load(BLOCK, state_version="any")).snapshot is None
    assert json.loads(read) == block
    assert shown == docs[0]
    assert json.loads(letter)["payload"] == payload
    assert logged.payload == event
    assert snapshot == (event,)


NEXT_MESSAGE = """
insert into agent.messages (id, org, agent_id, conversation_id, position, role, created_at, sent,
    in_context, text, docs)
values (%s, 'org', 'agent', %s, %s, 'user', %s, true, true, 'Hello', '[]')"""


async def test_messages_are_in_the_order_of_an_agent_before_they_are_rebuilt(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database("listed")
    first = datetime(2026, 1, 1, tzinfo=UTC)
    before = [file for file in migrations("agent") if file.name < "0058"]
    # A conversation's second message was created before its first: its position says otherwise.
    told = [("one", "talk", 1, 5), ("two", "talk", 2, 1), ("beside", "other", 1, 3)]
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection, "memory", PASSWORD, migrations("memory"))
        migrate(connection, "agent", PASSWORD, before)
        for name, talk, position, seconds in told:
            at = first + timedelta(seconds=seconds)
            connection.execute(NEXT_MESSAGE, [name, talk, position, at])
        migrate(connection, "agent", PASSWORD, migrations("agent"))
        listed = connection.execute(
            "select id from agent.messages order by recorded_at, conversation_id, position"
        ).fetchall()
    assert [name for (name,) in listed] == ["beside", "one", "two"]
