"""Rows are the same whether their commit is made alone, with parameters, or in a crowd, as JSON."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.bus_messages import Json, JsonObject
from libs.eventstore.failed_messages.ports import park
from libs.eventstore.ports import Commit, StoreRefused
from libs.eventstore.read_model_rows import RowWrites, Table
from libs.eventstore.row_write_parts import texts_of
from tests.contract.dead_letter_examples import LETTER
from tests.contract.ledger import ACCOUNTS, opened
from tests.contract.worlds import PostgresWorld

THINGS = Table("things", json_strings=("raw",))
TABLE = """
create table {schema}.things (id text primary key, words text, number int, large bigint,
    share float8, yes bool, at timestamptz, fields jsonb, raw json, items json, names text[],
    missing text)
"""
WRITTEN: JsonObject = {
    "words": 'with "quotes", \\ and %s, %(id)s, {braces} and \u20ac',
    "number": -5,
    "large": 2**53 + 1,
    "share": 0.1,
    "yes": False,
    "at": "2026-11-25T20:54:45.780313+01:00",
    "fields": {"a": 1, "b": [1, "two"], "c": None},
    "raw": {"huge": 1e308, "b": 2, "a": 1},
    "items": [{"one": "\u00e9"}, {"two": True}],
    "names": ["a", "b, c", '"d"', ""],
    "missing": None,
}
EMPTY: JsonObject = {"fields": {}, "raw": {}, "items": [], "names": [], "words": "", "yes": True}
PATCHED: JsonObject = {"words": "new", "fields": {"b": 2, "d": {}}, "items": [{}], "names": ["x"]}


@pytest.fixture
async def with_things(postgres: PostgresWorld) -> PostgresWorld:
    schema = postgres.ledger
    await postgres.admin(TABLE.format(schema=schema))
    await postgres.admin(f"grant all on {schema}.things to public")
    return postgres


async def write(world: PostgresWorld, rows: list[JsonObject], *, patch: bool) -> None:
    """Write rows in one statement, or in one for each of its commits."""
    commits = []
    for row in rows:
        writes = RowWrites()
        (writes.patch if patch else writes.upsert)(THINGS, row)
        commits.append(Commit(rows=writes))
    await world.store().commit_together(commits)


async def stored(world: PostgresWorld) -> dict[str, Any]:
    """What stands in each row."""
    found = await world.store().database.fetch(
        f"select id, words, number, large, share, yes, at, fields, raw::text, items::text, names,"
        f" missing from {world.ledger}.things"
    )
    return {row[0]: row[1:] for row in found}


STRINGS: JsonObject = {"raw": "5", "words": "5"}


@pytest.mark.parametrize("fields", [WRITTEN, EMPTY, STRINGS, {"words": "alone"}])
async def test_a_row_is_the_same_alone_and_in_a_crowd(
    with_things: PostgresWorld, fields: JsonObject
) -> None:
    world = with_things
    for patched in (False, True):
        written = {**PATCHED, "number": 7} if patched else fields
        await write(world, [{"id": "alone", **written}], patch=patched)
        crowd: list[JsonObject] = [{"id": "one", **written}, {"id": "other", **written}]
        await write(world, crowd, patch=patched)
        found = await stored(world)
        assert found["alone"] == found["one"] == found["other"]
    assert found["alone"][0:2] == ("new", 7)
    assert found["alone"][9] == ["x"]


async def test_what_is_written_alone_reads_back(with_things: PostgresWorld) -> None:
    await write(with_things, [{"id": "a", **WRITTEN}], patch=False)
    words, number, large, share, yes, at, fields, raw, items, names, missing = (
        await stored(with_things)
    )["a"]
    assert (words, number, large, share) == (WRITTEN["words"], -5, 2**53 + 1, 0.1)
    assert (yes, at.isoformat()) == (False, "2026-11-25T19:54:45.780313+00:00")
    assert (fields, names, missing) == (WRITTEN["fields"], WRITTEN["names"], None)
    # As it was written, in its order, and no number has become longer.
    assert raw == '{"huge":1e+308,"b":2,"a":1}'
    assert items == '[{"one":"\u00e9"},{"two":true}]'


@pytest.mark.parametrize("events", [1, 2, 4, 5, 9])
async def test_events_are_the_same_however_many_there_are(
    postgres: PostgresWorld, events: int
) -> None:
    store = postgres.store()
    written = [
        replace(opened("a", n), payload_json=f'{{"owner":"%s {n}"}}') for n in range(1, events + 1)
    ]
    await store.commit(Commit(written))
    found = (await store.load("a")).events
    assert [(event.version, event.payload_json) for event in found] == [
        (event.version, event.payload_json) for event in written
    ]
    assert {(event.topic, event.org, event.about, event.occurred_at) for event in found} == {
        (event.topic, event.org, event.about, event.occurred_at) for event in written
    }
    assert [event.metadata for event in found] == [event.metadata for event in written]


async def test_a_text_that_postgres_cannot_keep_is_refused_for_what_it_is(
    postgres: PostgresWorld,
) -> None:
    store = postgres.store()

    def commit(name: str, owner: str) -> Commit:
        rows = RowWrites()
        rows.upsert(ACCOUNTS, {"id": name, "owner": owner})
        return Commit([opened(name)], rows)

    bad, good = await asyncio.gather(
        store.commit(commit("a", "NUL: \x00")),
        store.commit(commit("b", "")),
        return_exceptions=True,
    )
    assert isinstance(bad, StoreRefused)
    assert bad.by_data
    assert not isinstance(good, BaseException)
    with pytest.raises(StoreRefused) as alone:
        await store.commit(commit("a", "NUL: \x00"))
    assert alone.value.by_data
    assert not (await store.load("a")).events


@pytest.mark.parametrize("payload", ["no object", "5", "", 5, None, [1], [{}], True, {"a": 1}])
async def test_a_dead_letter_keeps_any_payload(postgres: PostgresWorld, payload: Json) -> None:
    store = postgres.store()
    letter = replace(LETTER, payload=payload)
    rows = RowWrites()
    park(letter, rows)
    await store.commit(Commit(rows=rows))
    assert await store.letters.find("letter-1") == letter


def test_only_a_column_says_what_a_list_is() -> None:
    texts, listed = texts_of(
        THINGS, {"b": [], "a": ["x"], "c": [{}], "d": True, "e": None, "f": {"x": 1}}
    )
    assert listed == {"a": ["x"], "b": []}
    assert texts == {"c": "[{}]", "d": "true", "e": None, "f": '{"x":1}'}
