"""python -m benchmarks.passages: how passages are embedded, stored and found, in one archive of
many, in one where nearly all are alike, and in many archives of few."""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.alike_passages import OTHERS, log_of
from deploy.embedded.postgres_server import buffers_mb, memory_bytes
from deploy.migrate import migrate_all
from libs.contracts.service_registry import names
from libs.embeddings.bundled_model_config import DIMENSIONS, HANDLE
from libs.embeddings.ports import Vector
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.commit_statement import commit_statement
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.ports import Commit
from libs.eventstore.read_model_rows import RowWrites
from services.memory.adapters.embedders.local_embedder import LocalEmbedder
from services.memory.adapters.embedders.minilm import MiniLm
from services.memory.adapters.half_vectors import half_vector
from services.memory.adapters.passage_search import (
    PassageQuery,
    PostgresPassageSearch,
    QueryVector,
    filters_of,
)
from services.memory.projections.passages import passage_row
from services.memory.projections.tables import PASSAGES
from tests.servers import PostgresServer

WRITTEN_AT_ONCE = 250
SYNTHETIC_CENTRES = 2_000
# Of logs so many are embedded; all others are as near to one of them as a log with other numbers.
EMBEDDED_LOGS = 1_000
LOG_DISTANCE = 0.2
LONG_DIMENSIONS = 1_536
VACUUM_SECONDS_MAX = 180.0
MADE_AT_ONCE = 20_000
type Halves = np.ndarray[tuple[int, int], np.dtype[np.float16]]
START = datetime(2026, 1, 1, tzinfo=UTC)
ORG = "org-1"
# All vectors that the filters leave, in the order of their distance.
EXACT = """
select p.id from memory.passages p
where {filters} and p.embedding_model = %(model)s and vector_dims(p.embedding) = {dimensions}
order by p.embedding <#> %(vector)s::halfvec limit %(limit)s"""
# What a passage is about: enough that hardly two are the same.
SUBJECTS = "her sister|the customer|our team|a neighbour|the doctor|my boss|the old cat|his band"
VERBS = "prefers|remembers|sold|repaired|asked about|forgot|dreams of|complained about|ordered"
OBJECTS = "green tea|a red bicycle|the quarterly report|mountain hikes|violin lessons|locks"
PLACES = "in Lisbon|at the harbour|near the station|during winter|after the meeting|on Sundays"
NOTES = "for the first time|because of the rain|without telling anyone|with great joy|once more"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: how long searches took, and how much of the exact answer they found."""

    name: str
    seconds: list[float]
    recall: float | None = None

    def __str__(self) -> str:
        p50, p99 = (1_000 * quantile(self.seconds, share) for share in (0.5, 0.99))
        recall = "" if self.recall is None else f"   recall@10 {self.recall:.3f}"
        return f"  {self.name:<46}p50 {p50:7.2f} ms   p99 {p99:7.2f} ms{recall}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which so much of them is."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def text_of(number: int) -> str:
    """A passage; the same for the same number."""
    chance = random.Random(number)
    parts = (SUBJECTS, VERBS, OBJECTS, PLACES, NOTES, SUBJECTS, VERBS, OBJECTS)
    said = " ".join(chance.choice(part.split("|")) for part in parts)
    return f"{said}, {chance.randrange(10_000)} times."


def synthetic(count: int, dimensions: int = DIMENSIONS) -> Halves:
    """Vectors in clusters, as texts have them."""
    chance = np.random.default_rng(7)
    centres = chance.standard_normal((SYNTHETIC_CENTRES, dimensions), np.float32)
    vectors = np.empty((count, dimensions), np.float16)
    for begin in range(0, count, MADE_AT_ONCE):
        some = min(MADE_AT_ONCE, count - begin)
        noise = chance.standard_normal((some, dimensions), np.float32)
        found = centres[chance.integers(0, SYNTHETIC_CENTRES, some)] + 0.7 * noise
        vectors[begin : begin + some] = found / np.linalg.norm(found, axis=1, keepdims=True)
    return vectors


async def embedded(count: int) -> Halves:
    """Vectors of the model that comes along; says how many it made in a second."""
    embedder = LocalEmbedder(HANDLE, DIMENSIONS, MiniLm)
    await embedder.embed(["load the model"])
    began, vectors = time.monotonic(), np.empty((count, DIMENSIONS), np.float16)
    for begin in range(0, count, 500):
        texts = [text_of(number) for number in range(begin, min(begin + 500, count))]
        vectors[begin : begin + 500] = await embedder.embed(texts)
    seconds = time.monotonic() - began
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    print(f"embedded {count} texts: {count / seconds:.0f}/s; RSS of this process {rss:.0f} MB")
    await embedder.aclose()
    return vectors


async def alike(count: int) -> tuple[Halves, Halves]:
    """Vectors of logs and tickets that are nearly all alike, the last ones on other subjects; and
    those of questions about these."""
    embedder = LocalEmbedder(HANDLE, DIMENSIONS, MiniLm)
    logs = np.array(await embedder.embed([log_of(n) for n in range(EMBEDDED_LOGS)]), np.float32)
    others = np.array(await embedder.embed([text for text, _ in OTHERS]), np.float16)
    questions = np.array(await embedder.embed([text for _, text in OTHERS]), np.float16)
    await embedder.aclose()
    chance = np.random.default_rng(17)
    vectors = np.empty((count, DIMENSIONS), np.float16)
    for begin in range(0, count, MADE_AT_ONCE):
        some = min(MADE_AT_ONCE, count - begin)
        noise = chance.standard_normal((some, DIMENSIONS), np.float32) / math.sqrt(DIMENSIONS)
        found = logs[chance.integers(0, len(logs), some)] + LOG_DISTANCE * noise
        vectors[begin : begin + some] = found / np.linalg.norm(found, axis=1, keepdims=True)
    vectors[-len(others) :] = others
    return vectors, questions


async def kept(file: str, count: int) -> Halves:
    """The vectors of the model, from a file if it is there; else they are kept in it."""
    try:
        vectors: Halves = np.load(file)[:count]
    except FileNotFoundError:
        vectors = await embedded(count)
        np.save(file, vectors)
    return vectors


async def write(database: Database, vectors: Halves, archives: int, name: str = "archive") -> None:
    """Store passages as commits do, each archive its share; says how many in a second."""
    began = time.monotonic()
    for begin in range(0, len(vectors), WRITTEN_AT_ONCE):
        rows = RowWrites()
        for number in range(begin, min(begin + WRITTEN_AT_ONCE, len(vectors))):
            text = text_of(number)
            tags = [f"tenth-{number // archives % 10}", f"hundredth-{number // archives % 100}"]
            row = passage_row(
                {
                    "organization_id": ORG,
                    "archive_id": f"{name}-{archives}-{number % archives}",
                    "file_id": None,
                    "tags": [*tags],
                    "id": f"passage-{name}-{archives}-{number}",
                    "text": text,
                },
                created_at=START + timedelta(seconds=number),
                version=1,
                embedding_model=HANDLE,
                embedding=pack_vector(vectors[number].tolist()),
            )
            rows.upsert(PASSAGES, row)
        await database.fetch(*commit_statement("memory", "bench", [Commit(rows=rows)]))
    rate = len(vectors) / (time.monotonic() - began)
    [(size,)] = await database.fetch(
        "select pg_total_relation_size('memory.passages') / 1e6 where 'org' is not null"
    )
    print(f"stored {len(vectors)} passages in {archives} archives: {rate:.0f}/s; {size:.0f} MB")


def near(chance: random.Random, vectors: Halves) -> Vector:
    """A question about one of these passages: not the same, and not far."""
    vector: list[float] = vectors[chance.randrange(len(vectors))].tolist()
    moved = [number + chance.gauss(0, 0.02) for number in vector]
    length = math.hypot(*moved)
    return [number / length for number in moved]


async def searched(
    database: Database,
    search: PostgresPassageSearch,
    queries: Sequence[PassageQuery],
    name: str,
    *,
    exactly: bool,
) -> Row:
    """Time searches, one after the other, and compare what they find with what is nearest."""
    seconds, hits, wanted = [], 0, 0
    for query in queries:
        began = time.perf_counter()
        found = {passage.id for passage in await search.search(query)}
        seconds.append(time.perf_counter() - began)
        if exactly:
            right = await nearest(database, query)
            hits, wanted = hits + len(found & right), wanted + len(right)
    return Row(name, seconds, hits / wanted if wanted else None)


async def nearest(database: Database, query: PassageQuery) -> set[str]:
    """What is nearest of all that there is."""
    filters, parameters = filters_of(query)
    [wanted] = query.vectors
    values = {"model": wanted.model, "vector": half_vector(wanted.vector), "limit": query.limit}
    statement = EXACT.format(filters=filters, dimensions=len(wanted.vector))
    rows = await database.fetch(statement, parameters | values)
    return {passage_id for (passage_id,) in rows}


async def one_archive(database: Database, vectors: Halves, searches: int) -> None:
    """An archive of many, with and without filters."""
    chance = random.Random(11)
    search = PostgresPassageSearch(database)
    await database.fetch("vacuum analyze memory.passages -- org")
    plain = PassageQuery(org=ORG, collection_ids=["archive-1-0"])
    age = timedelta(seconds=len(vectors))
    for name, asked in (
        ("no filter", plain),
        ("a tag that keeps 10 %", replace(plain, tags=["tenth-3"])),
        ("a tag that keeps 1 %", replace(plain, tags=["hundredth-3"])),
        ("dates that keep 10 %", replace(plain, after=START + 0.9 * age)),
        ("dates that keep 1 %", replace(plain, after=START + 0.99 * age)),
    ):
        queries = [
            replace(asked, vectors=(QueryVector(HANDLE, near(chance, vectors)),))
            for _ in range(searches)
        ]
        print(await searched(database, search, queries, name, exactly=True), flush=True)
    words = [
        replace(query, text=text_of(chance.randrange(len(vectors))).rpartition(" ")[0][:40])
        for query in queries
    ]
    both = [replace(word, after=None) for word in words]
    print(await searched(database, search, both, "vector and words", exactly=False), flush=True)


async def alike_archive(database: Database, count: int, searches: int) -> None:
    """An archive of logs and a few other passages: what is found of these, and of the logs; and an
    archive of few beside it."""
    chance = random.Random(19)
    search = PostgresPassageSearch(database)
    vectors, asked = await alike(count)
    few = synthetic(1_000)
    await write(database, few, 1, "few")
    await write(database, vectors, 1, "alike")
    await database.fetch("vacuum analyze memory.passages -- org")
    sought = [f"passage-alike-1-{count - len(asked) + n}" for n in range(len(asked))]
    first, exact = 0, 0
    for passage_id, question in zip(sought, asked, strict=True):
        query = query_for("alike-1-0", question.tolist())
        first += passage_id in {found.id for found in await search.search(query)}
        exact += passage_id in await nearest(database, query)
    print(f"of {len(asked)} on other subjects among the first ten: {first}; exactly {exact}")
    for name, archive, questions in (
        (f"{count} alike, other subjects", "alike-1-0", [*map(np.ndarray.tolist, asked)]),
        (f"{count} alike, one of them", "alike-1-0", [near(chance, vectors) for _ in asked]),
        ("1000 beside them", "few-1-0", [near(chance, few) for _ in asked]),
    ):
        queries = [query_for(archive, questions[n % len(questions)]) for n in range(searches)]
        print(await searched(database, search, queries, name, exactly=True), flush=True)


async def long_archive(database: Database, count: int, searches: int) -> None:
    """An archive of vectors that are too long for the index of whole ones."""
    chance = random.Random(23)
    vectors = synthetic(count, LONG_DIMENSIONS)
    await write(database, vectors, 1, "long")
    await database.fetch("vacuum analyze memory.passages -- org")
    queries = [query_for("long-1-0", near(chance, vectors)) for _ in range(searches)]
    row = f"{count} of {LONG_DIMENSIONS} numbers"
    search = PostgresPassageSearch(database)
    print(await searched(database, search, queries, row, exactly=True), flush=True)


def query_for(archive_id: str, vector: Vector) -> PassageQuery:
    """A search in one archive."""
    return PassageQuery(
        org=ORG, collection_ids=[archive_id], vectors=(QueryVector(HANDLE, vector),)
    )


async def many_archives(database: Database, vectors: Halves, archives: int, searches: int) -> None:
    """Archives of few, among many."""
    chance = random.Random(13)
    search = PostgresPassageSearch(database)
    queries = [
        PassageQuery(
            org=ORG,
            collection_ids=[f"archive-{archives}-{chance.randrange(archives)}"],
            vectors=(QueryVector(HANDLE, near(chance, vectors)),),
        )
        for _ in range(searches)
    ]
    for name in ("as they were written", "vacuumed", "vacuumed, again"):
        if name == "vacuumed":
            print(f"Postgres vacuumed them by itself after {await vacuumed(database):.0f} s")
        row = f"one of {archives} archives, {name}"
        print(await searched(database, search, queries, row, exactly=False), flush=True)


async def vacuumed(database: Database) -> float:
    """Wait until an index alone can be read of nearly all pages; returns the seconds that it took.
    Raises TimeoutError after `VACUUM_SECONDS_MAX`."""
    began = time.monotonic()
    while time.monotonic() - began < VACUUM_SECONDS_MAX:
        [(share,)] = await database.fetch(
            "select relallvisible::float8 / greatest(pg_relation_size(oid) / 8192, 1) from pg_class"
            " where oid = 'memory.passages'::regclass and 'org' is not null"
        )
        if share > 0.9:
            return time.monotonic() - began
        await asyncio.sleep(1)
    raise TimeoutError(f"Postgres did not vacuum within {VACUUM_SECONDS_MAX:.0f} s")


async def run(options: argparse.Namespace) -> None:
    server = PostgresServer()
    # As `make up` starts it.
    server.server = replace(server.server, buffers_mb=buffers_mb(memory_bytes(), little=False))
    server.start()
    try:
        url = server.create_database("passages")
        migrate_all(url, dict.fromkeys(names(), "bench"))
        async with open_pool(url) as pool:
            database = Database(pool)
            if options.alike:
                await alike_archive(database, options.alike, options.searches)
            if options.long:
                await long_archive(database, options.long, options.searches)
            if count := options.passages:
                if options.synthetic:
                    vectors = synthetic(count)
                elif options.vectors:
                    vectors = await kept(options.vectors, count)
                else:
                    vectors = await embedded(count)
                await write(database, vectors, 1)
                await one_archive(database, vectors, options.searches)
            if options.spread:
                spread = synthetic(options.spread)
                await write(database, spread, options.archives)
                await many_archives(database, spread, options.archives, options.searches)
    finally:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passages", description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000, help="in one archive")
    parser.add_argument("--alike", type=int, default=100_000, help="nearly all alike, in another")
    parser.add_argument("--long", type=int, default=0, help="with vectors of 1,536 numbers")
    parser.add_argument(
        "--vectors", metavar="FILE.npy", help="keeps the vectors of the model for the next time"
    )
    parser.add_argument("--synthetic", action="store_true", help="vectors without a model")
    parser.add_argument("--spread", type=int, default=0, help="passages over many archives")
    parser.add_argument("--archives", type=int, default=1_000)
    parser.add_argument("--searches", type=int, default=200, help="of each kind")
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
