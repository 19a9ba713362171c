"""A search by meaning finds what is nearest, however much else is there that is alike."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from libs.contracts.bus_messages import JsonObject
from libs.embeddings.ports import Vector
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.connection_pool import Database
from libs.eventstore.read_model_rows import RowWrites
from services.memory.adapters import passage_search
from services.memory.adapters.passage_search import PassageQuery, QueryVector, search_statement
from services.memory.projections.passages import embedding_columns
from services.memory.projections.tables import PASSAGES
from tests.contract.plans import vacuum
from tests.contract.read_models import START, PostgresRows, Rows
from tests.contract.test_passage_search import names, put, row
from tests.hash_embedder import MODEL

LENGTHS = pytest.mark.parametrize("length", [64, 800])  # compared by numbers, and by signs first
PLAIN = PassageQuery(org="org-1", collection_ids=["archive-1"])
GRAPH = """
set local hnsw.ef_search = 10; set local enable_sort = off;
create index passages_graph on memory.passages
    using hnsw ((embedding::halfvec(64)) halfvec_ip_ops) with (m = 2, ef_construction = 4)
    where vector_dims(embedding) = 64"""
BY_GRAPH = """
select id from memory.passages where vector_dims(embedding) = 64
order by embedding::halfvec(64) <#> %s::halfvec(64) limit 10"""


class Texts:
    """Vectors as texts have them: of few kinds that are alike, and each on a subject of its own."""

    def __init__(self, length: int) -> None:
        self.chance = random.Random(length)
        self.length = length
        self.kinds = [self.other() for _ in range(3)]

    def other(self) -> Vector:
        """A vector on another subject than all before."""
        return unit([self.chance.gauss() for _ in range(self.length)])

    def beside(self, vector: Vector, distance: float) -> Vector:
        """A vector that is not far from another."""
        return unit([a + distance * b for a, b in zip(vector, self.other(), strict=True)])

    def alike(self, count: int) -> list[Vector]:
        """Vectors of the few kinds, by turns."""
        return [self.beside(self.kinds[n % 3], 0.3) for n in range(count)]


def unit(numbers: Sequence[float]) -> Vector:
    """The vector of length 1 in the same direction."""
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def like(vector: Vector, query: PassageQuery = PLAIN) -> PassageQuery:
    """A search for a vector."""
    return replace(query, vectors=(QueryVector(MODEL, vector),))


def rows_of(
    vectors: Sequence[Vector], name: str, collection: str = "archive-1"
) -> list[JsonObject]:
    """A passage for each vector."""
    return [
        row(f"{name}{n}", "text", vector=vector, collection=collection)
        for n, vector in enumerate(vectors)
    ]


@LENGTHS
async def test_few_passages_on_other_subjects_are_found_among_many_that_are_alike(
    database: Database, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Logs and tickets, and a recipe: a graph, which leads from each to what is like it, has no way
    to the recipe."""
    monkeypatch.setattr(passage_search, "COMPARED_MIN", 60)
    monkeypatch.setattr(passage_search, "BOUNDING_MAX", 100)
    texts, rows = Texts(length), PostgresRows(database)
    others = [texts.other() for _ in range(12)]
    await put(rows, *rows_of(others, "other"), *rows_of(texts.alike(1_500), "alike"))
    questions = [texts.beside(vector, 0.8) for vector in others]
    for n, question in enumerate(questions):
        assert names(await rows.passages.search(like(question)))[0] == f"other{n}"
    if length == 64:
        assert await found_by_graph(database, questions) < 0.95 * len(others), "the set is easy"


async def found_by_graph(database: Database, questions: Sequence[Vector]) -> int:
    """How many of the others a graph with small settings finds."""
    found = 0
    async with database.connection() as connection, connection.transaction(force_rollback=True):
        for statement in GRAPH.split(";"):
            await connection.execute(statement.encode())
        for n, question in enumerate(questions):
            cursor = await connection.execute(BY_GRAPH.encode(), [str(question)])
            found += (f"passage-other{n}",) in await cursor.fetchall()
    return found


async def test_what_is_nearest_is_found_of_all_that_filters_leave(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly: what is beyond the bound that the first few set is not needed. Vectors of another
    length are not compared, though their model has the same name."""
    monkeypatch.setattr(passage_search, "CANDIDATES_MIN", 5)
    monkeypatch.setattr(passage_search, "BOUNDING_MAX", 20)
    texts = Texts(64)
    vectors = [*texts.alike(200), *(texts.other() for _ in range(20))]
    given = [
        row(
            str(n),
            "text",
            vector=vector,
            collection=f"archive-{n % 3}",
            day=n % 30,
            tags=[f"half-{n % 2}"],
            file_id=f"file-{n % 4}",
        )
        for n, vector in enumerate(vectors)
    ]
    await put(rows, *rows_of([Texts(16).other() for _ in range(30)], "short"), *given)

    async def search(query: PassageQuery, fits: Callable[[int], bool]) -> None:
        question = texts.beside(texts.chance.choice(vectors), 0.8)
        near = {str(n): math.sumprod(vectors[n], question) for n in filter(fits, numbers)}
        found = names(await rows.passages.search(like(question, query)))
        # Numbers of a vector are kept with three digits.
        nearest = sorted(near.values(), reverse=True)[:10]
        assert [near[name] for name in found] == pytest.approx(nearest, abs=0.002)

    numbers = range(len(vectors))
    two = ["archive-1", "archive-2"]
    for _ in range(5):
        await search(PLAIN, lambda n: n % 3 == 1)
        await search(replace(PLAIN, collection_ids=two), lambda n: n % 3 > 0)
        await search(replace(PLAIN, tags=["half-0"]), lambda n: n % 3 == 1 and n % 2 == 0)
        await search(replace(PLAIN, file_ids=["file-2"]), lambda n: n % 3 == 1 and n % 4 == 2)
        late = START + timedelta(days=20)
        await search(replace(PLAIN, after=late), lambda n: n % 3 == 1 and n % 30 >= 20)
        await search(replace(PLAIN, before=late), lambda n: n % 3 == 1 and n % 30 <= 20)


@LENGTHS
async def test_a_passage_is_found_as_soon_as_it_is_there_and_as_long_as_it_is(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(passage_search, "COMPARED_MIN", 60)
    texts = Texts(length)
    await put(rows, *rows_of(texts.alike(100), "alike"))
    first, second = texts.other(), texts.other()

    async def nearest(question: Vector) -> str:
        return names(await rows.passages.search(like(texts.beside(question, 0.5))))[0]

    assert await nearest(first) != "other0"
    await put(rows, *rows_of([first], "other"))
    assert await nearest(first) == "other0"
    anew = RowWrites()
    anew.patch(PASSAGES, {"id": "passage-other0", **embedding_columns(MODEL, pack_vector(second))})
    await rows.write("memory", anew)
    assert await nearest(first) != "other0"
    assert await nearest(second) == "other0"
    deletion = RowWrites()
    deletion.delete(PASSAGES, "id", "passage-other0")
    await rows.write("memory", deletion)
    assert await nearest(second) != "other0"


async def test_of_what_has_most_signs_in_common_the_nearest_comes_first(rows: Rows) -> None:
    """The signs choose what is compared, and nothing else."""
    wanted = unit([1.0] * 790 + [30.0] * 10)
    signs = unit([1.0] * 800)
    numbers = unit([-0.01] * 790 + [30.0] * 10)
    await put(rows, *rows_of([signs, numbers], "vector"))
    assert names(await rows.passages.search(like(wanted))) == ["vector1", "vector0"]


@LENGTHS
async def test_a_search_reads_nothing_of_the_large_archive_beside_it(
    database: Database, length: int
) -> None:
    texts, rows = Texts(length), PostgresRows(database)
    await put(rows, *rows_of(texts.alike(40), "small"))
    question = like(texts.other())
    alone = await blocks_read(database, question)
    await put(rows, *rows_of(texts.alike(1_200), "large", "archive-2"))
    assert await blocks_read(database, question) <= alone + 60, "one block more in each look-up"


async def blocks_read(database: Database, query: PassageQuery) -> int:
    """How many blocks a search reads, of rows that Postgres has vacuumed."""
    await vacuum(database, "memory.passages")
    text, parameters = search_statement(query)
    async with database.connection() as connection:
        cursor = await connection.execute(
            f"explain (analyze, buffers, format json) {text}".encode(), parameters
        )
        [[[document]]] = await cursor.fetchall()
    return int(document["Plan"]["Shared Hit Blocks"] + document["Plan"]["Shared Read Blocks"])
