"""What a search among passages finds and what never, on Postgres and in memory (MEM-14, S03)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from libs.contracts.bus_messages import JsonObject
from libs.contracts.memory.archives import FoundPassage
from libs.embeddings.ports import Vector
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.read_model_rows import RowWrites
from services.memory.adapters.passage_search import (
    PassageQuery,
    QueryVector,
    search_statement,
)
from services.memory.projections.passages import embedding_columns, passage_row
from services.memory.projections.tables import PASSAGES
from tests.contract.plans import generic_plan
from tests.contract.read_models import START, PostgresRows, Rows
from tests.hash_embedder import MODEL, word_vector
from tests.servers import PostgresServer
from tests.unit.passage_search import passage_doc

FACTS = ("Bob likes hiking in the Alps", "Eve grows tomatoes", "Ada plays the violin at night")


def row(
    name: str,
    text: str,
    *,
    org: str = "org-1",
    collection: str = "archive-1",
    day: int = 0,
    tags: Sequence[str] = (),
    model: str = MODEL,
    vector: Vector | None = None,
    file_id: str | None = None,
) -> JsonObject:
    fields = passage_doc(f"passage-{name}", text, collection, org=org, tags=tags, file_id=file_id)
    return passage_row(
        fields | {"metadata": {"big": 1e308}},
        created_at=START + timedelta(days=day),
        version=1,
        embedding_model=model,
        embedding=pack_vector(vector or word_vector(text, 128)),
    )


async def put(rows: Rows, *given: JsonObject) -> None:
    writes = RowWrites()
    for passage in given:
        writes.upsert(PASSAGES, passage)
    await rows.write("memory", writes)


def like(text: str, **given: object) -> PassageQuery:
    vector = QueryVector(MODEL, word_vector(text, 128))
    return replace(
        PassageQuery(org="org-1", collection_ids=["archive-1"], vectors=(vector,), text=text),
        **given,  # type: ignore[arg-type]
    )


def names(found: list[FoundPassage]) -> list[str]:
    return [passage.id.removeprefix("passage-") for passage in found]


async def test_the_nearest_come_first_as_clients_read_them(rows: Rows) -> None:
    await put(rows, *(row(str(n), text) for n, text in enumerate(FACTS)))
    found = await rows.passages.search(like("hiking Alps"))
    assert names(found) == ["0", *sorted(names(found)[1:], key=names(found).index)]
    assert len(found) == 3, "what is far is found too, behind"
    fields = passage_doc("passage-0", FACTS[0], "archive-1")
    assert found[0].fields == fields | {"metadata": {"big": 1e308}}
    assert found[0].collection_id == "archive-1"
    assert found[0].score > found[1].score > found[2].score
    assert names(await rows.passages.search(like("hiking Alps", limit=1))) == ["0"]
    words = await rows.passages.search(like("violin or tomatoes", vectors=()))
    assert sorted(names(words)) == ["1", "2"], "without a vector any word is enough"
    assert await rows.passages.search(like("tomatoes", collection_ids=[])) == []


async def test_filters_are_applied_before_the_limit(rows: Rows) -> None:
    """Letta dropped what a filter excludes from the first few, and found too little."""
    await put(
        rows,
        *(row(f"near{n}", "hiking Alps", day=n, tags=["old", "a"]) for n in range(10)),
        row("far", "Eve grows tomatoes", day=20, tags=["new", "a"], file_id="file-1"),
        row("both", "Ada plays", day=21, tags=["new", "b"], file_id="file-2"),
    )

    async def found(**given: object) -> list[str]:
        return sorted(names(await rows.passages.search(like("hiking Alps", limit=2, **given))))

    assert await found(tags=["new"]) == ["both", "far"]
    assert await found(tags=["b", "missing"]) == ["both"]
    assert await found(tags=["new", "a"], tag_match="all") == ["far"]
    assert await found(after=START + timedelta(days=20)) == ["both", "far"]
    assert await found(before=START) == ["near0"]
    assert await found(file_ids=["file-1"]) == ["far"]
    newest = PassageQuery(org="org-1", collection_ids=["archive-1"], limit=3)
    assert names(await rows.passages.search(newest)) == ["both", "far", "near9"]


async def test_vectors_of_two_models_are_never_compared(rows: Rows) -> None:
    """While a collection is embedded anew it has both, maybe of different lengths."""
    await put(
        rows,
        row("old", "hiking Alps", model="old/model", vector=word_vector("hiking Alps", 16)),
        row("new", "Alps at night", model="new/model", vector=word_vector("Alps at night", 32)),
        row("none", "Eve"),
    )
    asked = (
        QueryVector("old/model", word_vector("hiking", 16)),
        QueryVector("new/model", word_vector("hiking", 32)),
    )
    assert sorted(names(await rows.passages.search(like("zzz", vectors=asked)))) == ["new", "old"]
    writes = RowWrites()
    vector = pack_vector(word_vector("hiking Alps", 32))
    writes.patch(PASSAGES, {"id": "passage-old", **embedding_columns("new/model", vector)})
    await rows.write("memory", writes)
    found = await rows.passages.search(like("zzz", vectors=asked[1:]))
    assert names(found) == ["old", "new"]


async def test_what_a_search_reads_of_each_row_stays_in_it_beside_a_long_vector(
    database: Database,
) -> None:
    """The organisation and the model of each of a thousand passages, looked up elsewhere, took
    longer than to compare their vectors."""
    rows = PostgresRows(database)
    chance = random.Random(5)
    long = [chance.gauss() for _ in range(1_536)]
    await put(rows, row("long", "Eve grows tomatoes. " * 400, tags=["new"], vector=long))
    columns = ["id", "org", "collection_id", "tags", "embedding_model", "embedding", "text"]
    elsewhere = ", ".join(f"pg_column_toast_chunk_id({column}) is not null" for column in columns)
    [found] = await database.fetch(f"select {elsewhere} from memory.passages")
    assert [name for name, moved in zip(columns, found, strict=True) if moved] == ["text"]


async def test_the_words_of_a_query_are_made_once_and_not_for_each_passage(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_migrated_database("words_once")
    async with open_pool(url) as pool, Database(pool).connection() as connection:
        statement, parameters = search_statement(like("hiking Alps"))
        places = {name: f"${number}" for number, name in enumerate(parameters, start=1)}
        plan = await generic_plan(connection, statement % places)
    assert not [
        node for node in plan if "to_tsquery" in f"{node.get('Filter')}{node.get('Recheck Cond')}"
    ]


async def test_nobody_finds_what_another_has_by_a_thousand_random_queries(rows: Rows) -> None:
    """S03: neither another organisation's passages, nor those of another collection."""
    chance = random.Random(7)
    words = [f"word{n}" for n in range(40)]
    owners = [(f"org-{o}", f"archive-{o}-{a}") for o in range(3) for a in range(3)]
    await put(
        rows,
        *(
            row(f"{n}", " ".join(chance.choices(words, k=6)), org=org, collection=archive)
            for n, (org, archive) in enumerate(owners * 30)
        ),
    )
    for _ in range(1_000):
        org, archive = chance.choice(owners)
        theirs = [passage_id for _, passage_id in owners]
        asked = chance.choice([[archive], chance.sample(theirs, 3), theirs])
        query = like(" ".join(chance.choices(words, k=2)), org=org, collection_ids=asked, limit=20)
        if chance.random() < 0.3:
            query = replace(query, vectors=())
        found = {passage.collection_id for passage in await rows.passages.search(query)}
        assert found <= {
            passage_id for owner, passage_id in owners if owner == org and passage_id in asked
        }
        assert found or archive not in asked or not query.vectors
