"""What only a real Postgres can show: rights, gaps, plans, and its own death."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from libs.contracts.service_registry import names
from libs.eventstore.aggregate_load_query import HISTORIES
from libs.eventstore.commit_statement import commit_statement
from libs.eventstore.connection_pool import Database
from libs.eventstore.failed_messages.ports import park
from libs.eventstore.log_queries import LOG_HEAD, NUMBER_LOG, READ_LOG
from libs.eventstore.migrations import RESTORED, migrate
from libs.eventstore.ports import Commit, DuplicateMessage, Fence, InboxEntry, StoreUnavailable
from libs.eventstore.postgres import FORGET_REPLIES, RENEW_LEASES, PostgresEventStore
from libs.eventstore.read_model_rows import RowWrites
from tests.chosen import new_postgres
from tests.contract.dead_letter_examples import LETTER
from tests.contract.ledger import ACCOUNTS, AT, opened
from tests.contract.plans import Plan, generic_plan, index_columns, reads_by_key, scans
from tests.contract.worlds import PASSWORD, PostgresWorld, postgres_world
from tests.servers import PostgresServer
from tests.waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]
MANY_EVENTS = """
insert into {schema}.events
    (aggregate_id, version, topic, schema_version, org, about, payload, metadata, occurred_at)
select 'a' || n % 1000, n, 'account.opened', 1, 'org-1', 'a', '{{"owner": "Ada"}}', '{{}}', now()
from generate_series(1, {count}) n
"""


async def test_erasure_removes_dead_letters_about_the_aggregate_and_no_others(
    postgres: PostgresWorld,
) -> None:
    store = postgres.store()
    about_a = replace(LETTER, id="about-a", message_id="m-a", subject="x.command.y.z.org-1.a")
    about_ab = replace(LETTER, id="about-ab", message_id="m-ab", subject="x.command.y.z.org-2.a-b")
    commit = Commit([opened("a")])
    for letter in (about_a, about_ab):
        park(letter, commit.rows)
    await store.commit(commit)
    assert await store.erase(["a", "command", "org-2"], [], AT) == 1
    assert await store.letters.find(about_a.id) is None
    assert await store.letters.find(about_ab.id) is not None


async def test_more_is_erased_than_one_statement_may(
    postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.eventstore.postgres.ERASED_AT_ONCE_MAX", 2)
    store = postgres.store()
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        await store.commit(Commit([opened(name)]))
    assert await store.erase(names[:4], [], AT) == 4
    assert await store.erase(names, [], AT) == 1
    for name in names:
        [event] = (await store.load(name)).events
        assert [*event.payload] == ["erased_at"], name


async def test_who_looks_for_rows_at_the_same_time_shares_a_statement(
    postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres.store()
    await store.commit(Commit([opened("a")]))
    asked: list[str] = []
    fetch_one = Database.fetch_one

    async def counted(self: Database, query: str, parameters: object = None) -> object:
        asked.append(query)
        return await fetch_one(self, query, parameters)

    monkeypatch.setattr(Database, "fetch_one", counted)
    events = f"{postgres.ledger}.events"
    found = await asyncio.gather(
        store.database.any_row(events),
        store.database.any_row(f"{events} where aggregate_id = 'b'"),
        store.database.any_row(f"{events} where aggregate_id = 'b'", events),
    )
    assert (found, len(asked)) == ([True, False, True], 1)


@pytest.mark.parametrize(
    "statement",
    [
        "update {}.events set payload = '{{}}'",
        "delete from {}.events",
        "truncate {}.events",
        "drop table {}.events",
        "alter table {}.events disable trigger all",
    ],
)
async def test_the_service_may_only_insert_and_select_events(
    postgres: PostgresWorld, statement: str
) -> None:
    store = postgres.store()
    await store.commit(Commit([opened("a")]))
    with pytest.raises(InsufficientPrivilege):
        await store.database.fetch(statement.format(postgres.ledger))
    [event] = (await store.load("a")).events
    assert event.payload == {"owner": "Ada"}


async def test_a_follower_sees_the_published_log_and_no_table(postgres: PostgresWorld) -> None:
    database = postgres.databases["follower"]
    for table in ("events", "log", "inbox", "leases", "accounts"):
        with pytest.raises(InsufficientPrivilege):
            await database.fetch(f"select * from {postgres.ledger}.{table}")
    assert await database.fetch(f"select * from {postgres.ledger}.event_log") == []


async def test_a_long_open_write_holds_the_log_back_and_nothing_is_missed(
    postgres: PostgresWorld,
) -> None:
    store = postgres.store()
    await store.commit(Commit([opened("before")]))
    async with await psycopg.AsyncConnection.connect(postgres.admin_url) as slow:
        await slow.execute(
            f"insert into {postgres.ledger}.events (aggregate_id, version, topic, schema_version,"
            " org, about, payload, metadata, occurred_at)"
            " values ('slow', 1, 'account.opened', 1, 'o', 'a', '{}', '{}', now())".encode()
        )
        for number in range(5):
            await store.commit(Commit([opened(f"after{number}")]))
        assert await store.number_log() == 1
        assert await store.number_log() == 0
        [seen] = await store.read_log(0)
        assert seen.aggregate_id == "before"
        await slow.commit()
    assert await store.number_log() == 6
    log = await store.read_log(0)
    assert [event.position for event in log] == [1, 2, 3, 4, 5, 6, 7]
    expected = ["before", "slow", *(f"after{number}" for number in range(5))]
    assert [event.aggregate_id for event in log] == expected


async def test_a_rolled_back_write_leaves_no_hole_in_the_log(postgres: PostgresWorld) -> None:
    store = postgres.store()
    await store.commit(Commit([opened("a")]))
    conflict = Commit([opened("b"), opened("a")])
    assert isinstance(await fails(store, conflict), Exception)
    await store.commit(Commit([opened("c")]))
    await store.number_log()
    log = await store.read_log(0)
    assert [(event.position, event.aggregate_id) for event in log] == [(1, "a"), (2, "c")]


async def test_a_log_that_was_restored_into_another_cluster_goes_on_where_it_was(
    postgres: PostgresWorld,
) -> None:
    """There the counter of transactions is behind those that the dump remembers."""
    store = postgres.store()
    schema = postgres.ledger
    await store.commit(Commit([opened("late")]))
    await store.commit(Commit([opened("numbered")]))
    # What was inserted first was committed last, and is not numbered yet.
    for statement in (
        "update {}.events set xid = (9000000000 - position)::text::xid8",
        "insert into {}.log values (1, 2)",
        "update {}.relay set xid = '8999999998', event_position = 2, position = 1",
    ):
        await postgres.admin(statement.format(schema))
    await store.commit(Commit([opened("new")]))
    assert await store.number_log() == 0, "the log stands still"

    def migrated() -> list[str]:
        with psycopg.connect(postgres.admin_url, autocommit=True) as connection:
            return migrate(connection, schema, PASSWORD, [])

    assert migrated() == [RESTORED]
    assert await store.number_log() == 2
    await store.commit(Commit([opened("newer")]))
    assert migrated() == []
    assert await store.number_log() == 1
    log = await store.read_log(0)
    assert [event.aggregate_id for event in log] == ["numbered", "late", "new", "newer"]


async def fails(store: PostgresEventStore, commit: Commit) -> Exception | None:
    try:
        await store.commit(commit)
    except Exception as problem:
        return problem
    return None


async def test_the_order_holds_where_positions_grow_a_digit(postgres: PostgresWorld) -> None:
    store = postgres.store()
    await postgres.admin(
        f"alter table {postgres.ledger}.events alter column position restart with 999995"
    )
    await postgres.admin(f"update {postgres.ledger}.relay set position = 999995")
    await store.commit(Commit([opened("a", version) for version in range(1, 11)]))
    while await store.number_log(limit=3):
        pass
    log = await store.read_log(999_995)
    assert [event.version for event in log] == list(range(1, 11))
    assert [event.position for event in log] == list(range(999_996, 1_000_006))


async def test_the_order_holds_where_transaction_ids_grow_a_digit(
    postgres: PostgresWorld,
) -> None:
    """The ids are rewritten here, since a cluster does not get that old in a test."""
    store = postgres.store()
    for version in range(1, 9):
        await store.commit(Commit([opened("a", version)]))
    await postgres.admin(
        f"update {postgres.ledger}.events set xid = (95 + version)::text::xid8, position = default"
    )
    while await store.number_log(limit=3):
        pass
    log = await store.read_log(0)
    assert [event.version for event in log] == list(range(1, 9))


async def nodes(postgres: PostgresWorld, statement: str, *names: str) -> list[Plan]:
    """The nodes of the plan that serves any values of the named parameters."""
    numbered = {name: f"${number}" for number, name in enumerate(names, start=1)}
    text = statement.format(schema=postgres.ledger) % numbered
    async with await psycopg.AsyncConnection.connect(postgres.admin_url) as connection:
        return await generic_plan(connection, text)


async def test_numbering_and_reading_the_log_use_their_indexes(postgres: PostgresWorld) -> None:
    store = postgres.store()
    await postgres.admin(MANY_EVENTS.format(schema=postgres.ledger, count=100_000))
    while await store.number_log(limit=10_000):
        pass
    await postgres.admin(f"analyze {postgres.ledger}.events, {postgres.ledger}.log")
    numbering = await nodes(postgres, NUMBER_LOG, "limit")
    [scan] = [node for node in numbering if node.get("Relation Name") == "events"]
    assert scan["Index Name"] == "events_log_order"
    assert 'ROW(xid, "position") > ROW(' in scan["Index Cond"]
    assert "pg_snapshot_xmin" in scan["Index Cond"]
    reading = await nodes(postgres, READ_LOG, "after", "limit", "topics", "bytes")
    used = {node.get("Index Name") for node in reading} - {None}
    assert used == {"log_pkey", "events_pkey"}, reading
    assert not {"Seq Scan", "Sort", "Hash Join"} & {n["Node Type"] for n in reading}


async def test_replies_are_forgotten_without_a_look_at_those_that_are_kept(
    postgres: PostgresWorld,
) -> None:
    """R43: the inbox keeps the replies of a week, and is purged every ten minutes."""
    await postgres.admin(
        f"insert into {postgres.ledger}.inbox select 'message-' || n, 'yes'"
        " from generate_series(1, 20000) n"
    )
    await postgres.admin(f"analyze {postgres.ledger}.inbox")
    forgetting = await nodes(postgres, FORGET_REPLIES.replace("%s", "$1", 1).replace("%s", "$2"))
    used = {node.get("Index Name") for node in forgetting} - {None}
    assert used == {"inbox_age", "inbox_message_key"}, forgetting
    assert not {"Seq Scan", "Sort", "Hash Join"} & {n["Node Type"] for n in forgetting}


async def test_the_head_of_a_log_is_one_row(postgres: PostgresWorld) -> None:
    """R43: it is asked for again and again, by every service that follows the log."""
    store = postgres.store()
    await store.commit(Commit([opened("a"), opened("b")]))
    await store.number_log()
    [read] = [
        node for node in await nodes(postgres, LOG_HEAD) if node.get("Relation Name") is not None
    ]
    assert read["Relation Name"] == "relay"
    assert (await postgres.follower().read_upstream(postgres.ledger, 0, [])).seen_up_to == 2


def noted(number: int) -> Commit:
    """A commit that changes a row, needs a lease, and relies on something."""
    rows = RowWrites()
    rows.patch(ACCOUNTS, {"id": f"a{number}", "fields": {"last": 1}})
    fence = Fence(f"a{number}", number)
    return Commit([opened(f"a{number}")], rows, fence=fence, release_lease=True)


def relying(number: int) -> Commit:
    """A commit that relies on what nothing happens to."""
    return Commit([opened(f"b{number}")], unchanged={f"a{number}": 1, f"c{number}": 1})


COMMITS = {
    "a commit": [noted(1)],
    "a crowd": [noted(1), noted(2)],
    "a relying commit": [relying(1)],
    "a relying crowd": [relying(1), relying(2)],
}
STATEMENTS = {
    "histories": (HISTORIES, ("ids", "afters", "states")),
    "leases": (RENEW_LEASES, ("seconds", "keys", "epochs")),
    "log": (READ_LOG, ("after", "topics", "limit", "bytes")),
}


def statement_named(name: str, store: PostgresEventStore) -> str:
    """A statement that is prepared once, with numbers for its parameters."""
    if name in COMMITS:
        text, values = commit_statement(store.schema, store.holder, COMMITS[name])
        parameters = tuple(values)
    else:
        text, parameters = STATEMENTS[name]
        text = store.sql(text)
    return text % {parameter: f"${number}" for number, parameter in enumerate(parameters, start=1)}


@pytest.mark.parametrize("rows", [0, 5, 20, 200, 2_000])
@pytest.mark.parametrize("name", [*COMMITS, *STATEMENTS])
async def test_a_plan_made_while_tables_are_small_does_not_read_all_of_them_later(
    postgres: PostgresWorld, name: str, rows: int
) -> None:
    store = postgres.store()
    if rows:
        await postgres.admin(MANY_EVENTS.format(schema=store.schema, count=rows))
        while await store.number_log(limit=10_000):
            pass
        for text in (
            "insert into {schema}.accounts (id) select 'a' || n from {numbers}",
            "insert into {schema}.leases select 'a' || n, 'h', n, now() from {numbers}",
            "insert into {schema}.snapshots select 'a' || n, 's', 1, 'org-1', '{{}}'"
            " from {numbers}",
        ):
            numbers = f"generate_series(1, {rows}) n"
            await postgres.admin(text.format(schema=store.schema, numbers=numbers))
        for table in ("events", "log", "accounts", "leases", "snapshots"):
            await postgres.admin(f"analyze {store.schema}.{table}")
    async with store.database.connection() as connection:
        columns = await index_columns(connection)
        reads = scans(await generic_plan(connection, statement_named(name, store)))
    assert reads
    for scan in reads:
        by_key = reads_by_key(scan, columns)
        assert by_key or (name == "head" and scan["Node Type"] != "Seq Scan"), scan


async def test_the_connection_that_was_used_last_is_used_next(postgres: PostgresWorld) -> None:
    database = postgres.databases["ledger"]
    all_in_use = asyncio.Barrier(4)

    async def use() -> None:
        async with database.connection():
            await all_in_use.wait()

    await asyncio.gather(*(use() for _ in range(4)))
    assert len(database.pool._pool) == 4
    backends = [await database.fetch_one("select pg_backend_pid()") for _ in range(8)]
    assert len(set(backends)) == 1


async def test_a_great_deletion_holds_nobody_up(postgres: PostgresWorld) -> None:
    store = postgres.store()
    rows = RowWrites()
    rows.delete(ACCOUNTS, "owner", "Ada")
    async with await psycopg.AsyncConnection.connect(postgres.admin_url) as slow:
        await slow.execute(f"lock table {postgres.ledger}.accounts in exclusive mode".encode())
        deletion = asyncio.create_task(store.commit(Commit([opened("a")], rows)))
        await asyncio.sleep(0.1)
        for number in range(3):
            await store.commit(Commit([opened(f"b{number}")]))
        assert not deletion.done()
    await deletion
    assert [event.version for event in (await store.load("a")).events] == [1]


async def test_a_lease_whose_taking_took_longer_than_it_lasts_is_given_back(
    postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.eventstore.postgres.LEASE_SECONDS", 0.05)
    store, other = postgres.store(), postgres.store("process-2")
    async with await psycopg.AsyncConnection.connect(postgres.admin_url) as slow:
        await slow.execute(f"lock table {postgres.ledger}.leases in exclusive mode".encode())
        late = asyncio.create_task(store.commit(Commit([opened("a")], take_lease="a")))
        await asyncio.sleep(0.1)  # so much is already too late

    assert await late is None
    assert store.held == {}
    assert await other.take_lease("a") is not None


async def test_migrating_twice_changes_nothing(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database("migrated_twice")
    passwords = {name: f"of {name}" for name in names()}
    environment = {
        **os.environ,
        "HEELER_ADMIN_DATABASE_URL": url,
        "HEELER_SERVICE_PASSWORDS": json.dumps(passwords),
    }

    def migrate() -> str:
        command = [sys.executable, "-m", "deploy.migrate"]
        return subprocess.run(
            command, cwd=CHECKOUT, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def tables() -> list[tuple[object, ...]]:
        query = (
            "select table_schema, table_name, column_name, data_type from"
            " information_schema.columns where table_schema = any(%s) order by 1, 2, 3"
        )
        with psycopg.connect(url) as connection:
            return connection.execute(query, [[*passwords]]).fetchall()

    assert "memory: store_0001_baseline.sql, 0001_baseline.sql" in migrate()
    first = tables()
    assert ("memory", "blocks", "label", "text") in first
    assert migrate() == "".join(f"{name}: up to date\n" for name in passwords)
    assert tables() == first


async def test_a_dead_postgres_is_unavailable_and_used_again_once_it_is_back(
    tmp_path: Path,
) -> None:
    server = new_postgres().start()
    try:
        async with postgres_world(server, tmp_path) as world:
            store = world.store()
            for number in range(20):
                await store.commit(Commit([opened(f"a{number}")]))
            await asyncio.gather(*(store.load(f"a{number}") for number in range(20)))
            server.kill9()
            with pytest.raises(StoreUnavailable):
                await store.load("a1")
            assert isinstance(await fails(store, Commit([opened("lost")])), StoreUnavailable)
            server.start()

            async def committed() -> bool:
                commit = Commit([opened("back")], inbox=InboxEntry("m", "r"))
                problem = await fails(store, commit)
                return problem is None or isinstance(problem, DuplicateMessage)

            await wait_for("a commit after the restart", committed, 30.0)
            kept = [(await store.load(f"a{number}")).events for number in range(20)]
            assert [len(events) for events in kept] == [1] * 20
            assert (await store.load("lost")).events == []
            await asyncio.gather(*(store.load(f"a{number}") for number in range(20)))
    finally:
        server.close()
