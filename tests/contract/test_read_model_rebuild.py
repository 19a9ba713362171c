"""Read models are rebuilt from the events, byte-equal, also while commits go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from libs.contracts.bus_messages import Event
from libs.eventstore import read_model_rebuild
from libs.eventstore.event_decoding import UnknownEvent
from libs.eventstore.migrations import migrate, restore_missing
from libs.eventstore.ports import Commit, VersionConflict
from libs.eventstore.read_model_rebuild import SESSION_OPTIONS, Rebuild, RebuildFailed, Rebuilt
from libs.eventstore.read_model_replay import ReadModels
from libs.eventstore.read_model_rows import RowWrites
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import ACCOUNTS, Account, AccountOpened, context, opened, project
from tests.contract.worlds import PASSWORD, PostgresWorld

NAMES = [f"account-{number:02}" for number in range(30)]


def models(projection: Any = project) -> ReadModels:
    return ReadModels("ledger", projection, (ACCOUNTS,))


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_model_rebuild, "PAGE_EVENTS_MAX", 10)


@pytest.fixture
def admin(postgres: PostgresWorld) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(
        postgres.admin_url, autocommit=True, options=SESSION_OPTIONS
    ) as connection:
        yield connection


def rebuild(postgres: PostgresWorld, projection: Any = project, **options: Any) -> Rebuilt:
    """A rebuild on a connection of its own."""
    with psycopg.connect(
        postgres.admin_url, autocommit=True, options=SESSION_OPTIONS
    ) as connection:
        found = models(projection)
        return Rebuild(connection, postgres.ledger, found, found.tables, **options).run()


def dump(postgres: PostgresWorld, admin: psycopg.Connection[Any]) -> list[str]:
    """Every row with all its columns, in the order of the key."""
    query = f"select t::text from {postgres.ledger}.accounts t order by id"
    return [row for (row,) in admin.execute(query.encode())]


async def deposit(repository: Repository, name: str, cents: int) -> None:
    """One commit; tried again where somebody else was first."""
    for _ in range(20):
        work = repository.work(context(f"{name}-{cents}"))
        account = await work.load(Account, name)
        account.deposit(cents)
        try:
            await work.commit()
        except VersionConflict:
            continue
        return
    raise AssertionError("no commit in 20 tries")


async def accounts(postgres: PostgresWorld) -> Repository:
    """Thirty accounts with five events each."""
    repository = Repository(postgres.store(), "ledger", project)
    for cents in range(1, 5):
        for name in NAMES:
            await deposit(repository, name, cents)
    return repository


DAMAGES = {
    "emptied": "truncate {schema}.accounts",
    "rows are missing": "delete from {schema}.accounts where id > 'account-07'",
    "rows belong to nobody": "insert into {schema}.accounts values"
    " ('', 'x', 1, '{{}}'), ('account-05a', 'x', 1, null), ('zoë', 'x', 1, '{{}}')",
    "columns are wrong": "update {schema}.accounts set owner = 'x' where id < 'account-12'",
    "columns are lost": "update {schema}.accounts set fields = null, cents = null",
    "rows have other names": "update {schema}.accounts set id = 'other-' || id",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_read_model_is_rebuilt_byte_equal(
    damage: str, postgres: PostgresWorld, admin: psycopg.Connection[Any], small_pages: None
) -> None:
    await accounts(postgres)
    before = dump(postgres, admin)
    assert len(before) == len(NAMES)
    assert rebuild(postgres, only_compare=True).changed.total() == 0

    admin.execute(DAMAGES[damage].format(schema=postgres.ledger).encode())
    assert dump(postgres, admin) != before
    wrong = rebuild(postgres, only_compare=True)
    assert wrong.changed["accounts"] > 0
    rebuilt = rebuild(postgres)

    assert dump(postgres, admin) == before
    assert rebuilt.complete
    assert rebuilt.events == len(NAMES) * 5
    again = rebuild(postgres)
    assert (again.changed.total(), again.lock_seconds_max) == (0, 0.0), "it locks nothing then"


async def test_a_column_that_a_migration_adds_is_filled(
    postgres: PostgresWorld, admin: psycopg.Connection[Any], small_pages: None
) -> None:
    await accounts(postgres)

    def project_with_currency(event: Event, org: str, rows: RowWrites) -> None:
        project(event, org, rows)
        if event.topic == "money.deposited":
            currency = event.model_dump()["currency"]
            rows.patch(ACCOUNTS, {"id": event.originator_id, "currency": currency})

    admin.execute(f"alter table {postgres.ledger}.accounts add column currency text".encode())
    assert rebuild(postgres, project_with_currency).changed == {"accounts": len(NAMES)}
    found = admin.execute(f"select distinct currency from {postgres.ledger}.accounts".encode())
    assert found.fetchall() == [("EUR",)]


async def test_a_table_that_was_dropped_is_made_again_with_its_views_and_counts(
    postgres: PostgresWorld, admin: psycopg.Connection[Any], tmp_path: Path
) -> None:
    await accounts(postgres)
    viewed = tmp_path / "0002_view.sql"
    viewed.write_text(
        "create index accounts_owner on {schema}.accounts (owner);"
        "alter table {schema}.accounts add column org text default 'org-1';"
        "call {schema}.keep_count_of('accounts');"
        "create view {schema}.account_view as select id, owner from {schema}.accounts;"
        "grant select on {schema}.account_view to heeler_reader;"
    )
    files = [tmp_path / "0001_accounts.sql", viewed]
    migrate(admin, postgres.ledger, PASSWORD, files)
    before = dump(postgres, admin)
    admin.execute(f"drop table {postgres.ledger}.accounts cascade".encode())

    restored = restore_missing(admin, postgres.ledger, files, [ACCOUNTS])
    assert restored == ["account_view", "accounts"]
    assert restore_missing(admin, postgres.ledger, files, [ACCOUNTS]) == []
    rebuild(postgres)

    assert dump(postgres, admin) == before
    reader = postgres.databases["follower"]
    seen = await reader.fetch(f"select id from {postgres.ledger}.account_view order by id")
    assert [name for (name,) in seen] == NAMES
    await deposit(Repository(postgres.store(), "ledger", project), "account-00", 9)
    assert rebuild(postgres, only_compare=True).changed.total() == 0
    indexes = "select indexname from pg_indexes where schemaname = %s and tablename = 'accounts'"
    names = {name for (name,) in admin.execute(indexes, [postgres.ledger])}
    assert names == {"accounts_pkey", "accounts_owner"}
    counted = f"select org, sum(rows)::int from {postgres.ledger}.row_counts group by org".encode()
    assert admin.execute(counted).fetchall() == [("org-1", len(NAMES))]
    admin.execute(f"delete from {postgres.ledger}.accounts where id = 'account-07'".encode())
    assert admin.execute(counted).fetchall() == [("org-1", len(NAMES) - 1)]


async def test_commits_and_reads_go_on_while_it_is_rebuilt(
    postgres: PostgresWorld, admin: psycopg.Connection[Any], small_pages: None
) -> None:
    """Every row is wrong again and again, and commits change, add and patch rows meanwhile."""
    repository = await accounts(postgres)
    rebuilding = True
    commits = 0

    async def write(worker: int) -> None:
        nonlocal commits
        number = 0
        while rebuilding:
            number += 1
            await deposit(repository, NAMES[(number * 7 + worker) % len(NAMES)], number)
            await deposit(repository, f"account-{number % 31:02}-{worker}-{number}", number)
            commits += 2

    async def look() -> None:
        while rebuilding:
            rows = await postgres.rows()
            assert {row["id"] for row in rows} >= set(NAMES), "a row is gone for a moment"

    tasks = [asyncio.create_task(work) for work in (write(1), write(2), look())]
    for _ in range(3):
        admin.execute(f"update {postgres.ledger}.accounts set owner = 'x'".encode())
        rebuilt = await asyncio.to_thread(rebuild, postgres)
        assert rebuilt.changed["accounts"] >= len(NAMES)
    rebuilding = False
    await asyncio.gather(*tasks)

    assert commits > 20
    assert rebuild(postgres, only_compare=True).changed.total() == 0


async def test_what_is_committed_between_the_look_and_the_lock_is_kept(
    postgres: PostgresWorld, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await accounts(postgres)
    admin.execute(f"truncate {postgres.ledger}.accounts".encode())
    loop = asyncio.get_running_loop()
    real = Rebuild.write

    def write(self: Rebuild, *arguments: Any) -> None:
        for name in ("account-00", "account-99"):  # one that it replayed, and a new one
            asyncio.run_coroutine_threadsafe(deposit(repository, name, 77), loop).result(10)
        real(self, *arguments)

    monkeypatch.setattr(Rebuild, "write", write)
    await asyncio.to_thread(rebuild, postgres)
    rows = {row["id"]: row["fields"] for row in await postgres.rows()}
    assert len(rows) == len(NAMES) + 1
    assert rows["account-00"] == rows["account-99"] == {"org": "org-1", "last": 77}
    assert rebuild(postgres, only_compare=True).changed.total() == 0


async def test_a_table_that_cannot_be_locked_is_given_up_with_a_reason(
    postgres: PostgresWorld, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await accounts(postgres)
    monkeypatch.setattr(read_model_rebuild, "LOCK_TRIES_MAX", 2)
    monkeypatch.setattr(read_model_rebuild, "LOCK_WAIT_MILLISECONDS", 20)
    with admin.transaction():
        admin.execute(f"update {postgres.ledger}.accounts set owner = 'x'".encode())
        assert rebuild(postgres).changed.total() == 0, "nobody sees what is not committed"
    with admin.transaction():
        admin.execute(f"lock table {postgres.ledger}.accounts in row exclusive mode".encode())
        with pytest.raises(RebuildFailed, match="accounts could not be locked in 2 tries"):
            rebuild(postgres)
    assert rebuild(postgres).changed == {"accounts": len(NAMES)}


async def test_an_event_of_a_newer_version_is_not_passed_over(postgres: PostgresWorld) -> None:
    await postgres.store().commit(Commit([replace(opened("a"), topic="account.frozen")]))
    with pytest.raises(UnknownEvent, match=r"ledger\.account\.frozen version 1"):
        rebuild(postgres)


async def test_a_projection_that_writes_rows_of_other_aggregates_is_found_out(
    postgres: PostgresWorld,
) -> None:
    await accounts(postgres)

    def meddling(event: Event, org: str, rows: RowWrites) -> None:
        if isinstance(event, AccountOpened):
            rows.upsert(ACCOUNTS, {"id": "account-00", "owner": "x"})

    with pytest.raises(AssertionError, match="a row of another aggregate"):
        rebuild(postgres, meddling)
