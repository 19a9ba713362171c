"""What a migration does to the rows that are there: a client reads the same before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg

from libs.contracts.letta.agent_state import agent_state
from libs.contracts.message import DEFAULT_ORG
from libs.eventstore.database import Database, open_pool
from libs.eventstore.migrations import migrate
from services.api.adapters.reads import Reads
from tests.contract.examples import AGENT, CONFIG, CONVERSATION
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
        read: Any = await Reads(Database(pool)).agent(DEFAULT_ORG, AGENT, frozenset())
    assert json.loads(read) == {**state, "message_ids": []}
