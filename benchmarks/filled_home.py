"""Fill a home with many agents: one is made by the API, and SQL copies its events and rows.

    prototype = make_prototype(base_url, database_url)
    prototype.fill(20_000)

The prototype has what agents have: tags, blocks, tools, messages with a call of a tool, a second
conversation, a passage, a run of a tool, an identity, a group and a schedule. A copy is every event
and every row that making it wrote, in each service's schema, with other ids: the first 8 digits of
each UUID are the number of the copy, so copies refer to each other as the originals do. Tools and
organisations are shared. Times move back by a second for each copy.

The server goes on meanwhile. The relays leave the copied events out: nothing of them is published,
as with a log that was published long ago. An agent is deleted before the prototype is made: its
deletion is the oldest that erasure still has to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
from psycopg import sql

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.memory.archives import own_archive_id
from libs.contracts.service_registry import names

COPIES_AT_ONCE = 1_000  # in one statement
REQUEST_SECONDS_MAX = 60.0
SETTLE_SECONDS_MAX = 120.0
OFFLINE = "demo/offline"
# Events are, apart; and what triggers count is counted of copies, too.
NOT_COPIED = [
    *("events", "log", "relay", "positions", "leases", "rebuilds"),
    *("row_counts", "block_agents"),
]
SHARED_IDS = ("org", "tool", "user")  # what copies refer to as the prototype does
ROLL = '''
def roll(sides: int) -> int:
    """Roll a die.

    Args:
        sides (int): how many sides it has
    """
    return sides
'''

# The rows that making the prototype wrote, as text with places for the ids of copies.
TEMPLATES = """
create temporary table templates on commit drop as
select row_number() over ({order}) as nth, regexp_replace(
    replace(replace(t::text, {conversation}, '@conversation@'), {archive}, '@archive@'),
    {uuid}, '@number@', 'g') as row
from {table} t
where t.xmin::text::bigint between {since} and {until}"""
COPY = """
insert into {table} ({columns})
select {values}
from unnest({numbers}::int[], {conversations}::text[], {archives}::text[])
    as o(number, conversation, archive)
cross join templates t cross join lateral (
    select replace(replace(replace(t.row,
        '@conversation@', o.conversation), '@archive@', o.archive),
        '@number@', lpad(to_hex(o.number), 8, '0'))::{table} as made offset 0
) r order by number, nth"""
UUID = (
    f"(?<!{'|'.join(f'{kind}-' for kind in SHARED_IDS)})"
    "[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
)
COLUMNS = """
select column_name, data_type from information_schema.columns
where table_schema = %s and table_name = %s and is_generated = 'NEVER' and is_identity = 'NO'
  and column_name not in ('xid', 'commit_order')
order by ordinal_position"""
TABLES = """
select table_name from information_schema.tables
where table_schema = %s and table_type = 'BASE TABLE' and table_name <> all(%s) order by 1"""
# As the relay does it; and all of it counts as published.
NUMBER_COPIES = """
with numbered as (
    insert into {schema}.log (position, event_position)
    select r.position + row_number() over (order by e.position), e.position
    from {schema}.relay r join {schema}.events e on e.position > r.event_position
    returning position, event_position
)
update {schema}.relay r
set xid = pg_current_xact_id(), position = n.position, published = n.position,
    event_position = n.event_position
from (select * from numbered order by position desc limit 1) n"""
# The relay takes its lease anew, and reads again how far it is.
GIVE_LEASE_AWAY = """
update {schema}.leases
set epoch = nextval('{schema}.epochs'), expires_at = '-infinity' where key = 'relay'"""
LEASE_IS_TAKEN = "select expires_at > now() from {schema}.leases where key = 'relay'"
IS_PUBLISHED = """
select r.published = r.position and not exists (
    select from {schema}.events e where (e.xid, e.position) > (r.xid, r.event_position))
from {schema}.relay r"""
THIS_TRANSACTION = "select pg_current_xact_id()::text::bigint"


@dataclass(slots=True)
class Prototype:
    """An agent to be copied, and the transactions between which all of it was written."""

    agent_id: str
    tool_id: str
    database_url: str
    since: int
    until: int
    copies: int = 0

    def agent(self, number: int) -> str:
        """The id of an agent that is a copy; the first is number 1."""
        kind, _, uuid = self.agent_id.partition("-")
        return f"{kind}-{number:08x}{uuid[8:]}"

    def fill(self, count: int) -> None:
        """Copy it until there are so many copies in all; every table is vacuumed then."""
        numbers = range(self.copies + 1, count + 1)
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute("set synchronous_commit = off")
            if numbers:
                with (
                    connection.transaction()
                ):  # a service that saw a part would add what is missing
                    self.fill_schemas(connection, numbers)
            self.copies = max(self.copies, count)
            for schema in names():
                until_true(connection, LEASE_IS_TAKEN.format(schema=schema))
            connection.execute("vacuum (analyze, skip_database_stats)")

    def fill_schemas(self, connection: psycopg.Connection, numbers: range) -> None:
        """Copy what it has in each schema; what holds up the relays is the last."""
        for schema in names():
            for (table,) in connection.execute(TABLES, [schema, NOT_COPIED]).fetchall():
                self.fill_table(connection, schema, table, numbers)
        for schema in names():
            self.fill_table(connection, schema, "events", numbers)
        for schema in names():
            for statement in (NUMBER_COPIES, GIVE_LEASE_AWAY):
                connection.execute(statement.format(schema=schema).encode())

    def fill_table(
        self, connection: psycopg.Connection, schema: str, table: str, numbers: range
    ) -> None:
        """Copy its rows of one table."""
        columns = connection.execute(COLUMNS, [schema, table]).fetchall()
        parts: dict[str, sql.Composable] = {
            "table": sql.Identifier(schema, table),
            "order": sql.SQL("order by position" if table == "events" else ""),
            "conversation": sql.Literal(main_conversation(self.agent_id)),
            "archive": sql.Literal(own_archive_id(self.agent_id)),
            "uuid": sql.Literal(UUID),
            "since": sql.Literal(self.since),
            "until": sql.Literal(self.until),
            "columns": sql.SQL(", ").join(sql.Identifier(name) for name, _ in columns),
            "values": sql.SQL(", ").join(value_of(*column) for column in columns),
        }
        connection.execute(sql.SQL(TEMPLATES).format(**parts))
        for begin in range(0, len(numbers), COPIES_AT_ONCE):
            some = numbers[begin : begin + COPIES_AT_ONCE]
            agents = [self.agent(number) for number in some]
            parts |= {
                "numbers": sql.Literal([*some]),
                "conversations": sql.Literal([main_conversation(agent) for agent in agents]),
                "archives": sql.Literal([own_archive_id(agent) for agent in agents]),
            }
            connection.execute(sql.SQL(COPY).format(**parts))
        connection.execute("drop table templates")


def value_of(column: str, data_type: str) -> sql.Composable:
    """A column of a copy: times are earlier by a second for each copy."""
    value = sql.SQL("(r.made).{}").format(sql.Identifier(column))
    if data_type.startswith("timestamp"):
        return sql.SQL("{} - number * interval '1 second'").format(value)
    return value


def make_prototype(base_url: str, database_url: str, *, model: str = OFFLINE) -> Prototype:
    """Make the agent that is copied, behind the deletion of another one."""
    with (
        httpx.Client(base_url=base_url, timeout=REQUEST_SECONDS_MAX) as client,
        psycopg.connect(database_url, autocommit=True) as connection,
    ):
        ask = asking(client)
        tool_id = ask("POST", "/v1/tools/", source_code=ROLL)["id"]
        lost = ask("POST", "/v1/agents/", name="deleted", model=model)["id"]
        ask("DELETE", f"/v1/agents/{lost}")
        until_published(connection)
        since = this_transaction(connection)
        agent_id = make_agent(ask, model, tool_id)
        until_published(connection)
        until = this_transaction(connection)
    return Prototype(agent_id, tool_id, database_url, since, until)


type Ask = Callable[..., Any]


def asking(client: httpx.Client) -> Ask:
    """Sends a request with these fields in its body; returns the answer, which is a success."""

    def ask(method: str, path: str, **body: Any) -> Any:
        answer = client.request(method, path, json=body or None, follow_redirects=True)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return answer.json()

    return ask


def make_agent(ask: Ask, model: str, tool_id: str) -> str:
    """Make one agent and what belongs to it; returns its id."""
    unique = "11111111-1111-4111-8111-111111111111"  # becomes another one in each copy
    agent_id = ask(
        *("POST", "/v1/agents/"),
        name=f"Ada {unique}",
        description="Answers letters",
        model=model,
        tags=["letters", "team-a", f"owner-{unique}"],
        tool_ids=[tool_id],
        memory_blocks=[
            {"label": "human", "value": "The user is called Sam."},
            {"label": "persona", "value": "I answer letters, briefly."},
        ],
    )["id"]
    agent = f"/v1/agents/{agent_id}"
    hello = [{"role": "user", "content": "Hello"}]
    for text in ("My cat is called Whiskers", "Who are you?", "What is my cat called?"):
        ask("POST", f"{agent}/messages", messages=[{"role": "user", "content": text}])
    beside = ask("POST", f"/v1/conversations/?agent_id={agent_id}")["id"]
    ask("POST", f"/v1/conversations/{beside}/messages", messages=hello, streaming=False)
    ask("POST", f"{agent}/archival-memory", text="Whiskers likes tuna")
    ask("POST", f"{agent}/tools/roll/run", args={"sides": 6})
    sam = {"identifier_key": unique, "name": "Sam", "identity_type": "user"}
    ask("POST", "/v1/identities/", agent_ids=[agent_id], **sam)
    ask("POST", "/v1/groups/", agent_ids=[agent_id], description="Letters")
    far = {"type": "one-time", "scheduled_at": 4_083_000_000_000}
    ask("POST", f"{agent}/schedule", messages=hello, schedule=far)
    return str(agent_id)


def this_transaction(connection: psycopg.Connection) -> int:
    """The number of a transaction that is made now."""
    row = connection.execute(THIS_TRANSACTION).fetchone()
    assert row is not None, "a select without a table has a row"
    return int(row[0])


def until_published(connection: psycopg.Connection) -> None:
    """Return when the relays have published the events of all services."""
    for schema in names():
        until_true(connection, IS_PUBLISHED.format(schema=schema))


def until_true(connection: psycopg.Connection, question: str) -> None:
    """Return when a question is answered with yes."""
    began = time.monotonic()
    while connection.execute(question.encode()).fetchone() != (True,):
        if time.monotonic() - began > SETTLE_SECONDS_MAX:
            raise TimeoutError(f"not within {SETTLE_SECONDS_MAX:g} s: {question}")
        time.sleep(0.1)
