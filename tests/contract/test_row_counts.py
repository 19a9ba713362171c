"""What is counted as rows come and go is what a count of them all would say."""

from __future__ import annotations

from typing import Any

import psycopg

from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from tests.contract.many_agents import make_agents
from tests.servers import PostgresServer

COUNTED = (
    *("agent.agents", "memory.blocks", "memory.folders", "tools.tools", "groups.groups"),
    "api.identities",
)
AGENTS = 20
# Blocks whose number is not that of the agents which have them.
WRONG = """
select coalesce(c.block_id, b.id) from agent.block_agents c full join (
    select unnest(block_ids) as id, count(*) as agents from agent.agents group by 1) b
on b.id = c.block_id where coalesce(b.agents, 0) <> coalesce(c.agents, 0)"""


def counts_are_right(connection: psycopg.Connection[Any]) -> bool:
    """Whether each table has as many rows as are counted, and each block as many agents."""
    for table in COUNTED:
        schema, _, name = table.partition(".")
        counted = (
            f"select coalesce(sum(rows), 0) from {schema}.row_count_view"
            f" where name = '{name}' and org = '{ORG}'"
        )
        same = f"select (select count(*) from {table}) = ({counted})"
        if connection.execute(same.encode()).fetchone() != (True,):
            return False
    return connection.execute(WRONG).fetchall() == []


def test_counts_follow_rows_that_come_change_and_go(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_migrated_database("row_counts")
    with psycopg.connect(url, autocommit=True) as connection:
        assert counts_are_right(connection)
        make_agents(connection, AGENTS)
        assert connection.execute("select sum(rows) from agent.row_counts").fetchone() == (AGENTS,)
        assert counts_are_right(connection)
        with psycopg.connect(url, autocommit=True) as other:
            for table in COUNTED:
                other.execute(f"delete from {table} where id ~ '[05]-0000-4000-'".encode())
        connection.execute(
            "update agent.agents set block_ids = block_ids[2:2] || array['block-new']"
        )
        connection.execute("update agent.agents set name = 'Another'")
        assert counts_are_right(connection)
        for table in COUNTED:
            connection.execute(f"truncate {table}".encode())
        assert counts_are_right(connection)
        assert connection.execute("select count(*) from agent.row_counts").fetchone() == (0,)
