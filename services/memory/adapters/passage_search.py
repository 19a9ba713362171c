"""Passages by meaning, by words, or the newest: all within one statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic_core import from_json

from libs.contracts.memory.archives import FoundPassage
from libs.embeddings.ports import Vector
from libs.embeddings.rank_fusion import FUSION_RANKS
from libs.eventstore.connection_pool import Database
from services.memory.adapters.half_vectors import half_vector

# Of each list so many are fused, or as many as are asked for.
CANDIDATES_MIN = 60
FOUND_MAX = 1_000
QUERY_CHARS_MAX = 8_000  # of its text, which is looked for word by word
# Of the passages with the words so many are ranked: words that more have say little.
WORDED_MAX = 2_000
# What is nearest among the first so many is a bound for all others: what is beyond is not sorted.
BOUNDING_MAX = 500
# Vectors of more numbers than fit into the index are compared by the signs of these first, and so
# many of them, or for each candidate, by the numbers.
INDEXED_DIMENSIONS_MAX = 768
COMPARED_MIN = 500
COMPARED_FOR_EACH = 5


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The query as a vector: compared with the vectors of the same model."""

    model: str
    vector: Vector = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageQuery:
    """Which passages of some collections of an organisation: the nearest to `vectors` and those
    with the words of `text`, fused; without either the newest. With two models in a collection
    there are two vectors, and each finds its own. `after` and `before` are among what is found."""

    org: str
    collection_ids: list[str]
    vectors: tuple[QueryVector, ...] = ()
    text: str | None = None
    tags: list[str] = field(default_factory=list)
    tag_match: Literal["any", "all"] = "any"
    after: datetime | None = None
    before: datetime | None = None
    file_ids: list[str] = field(default_factory=list)
    limit: int = 10


class PassageSearch(Protocol):
    """The queries of searches of archives and of files."""

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        """The passages that fit, the best first; at most `FOUND_MAX`."""


class PostgresPassageSearch:
    """Keeps the contract of `PassageSearch`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        if not query.collection_ids or query.limit < 1:
            return []
        return [
            FoundPassage(id=row[0], collection_id=row[1], fields=from_json(row[2]), score=row[3])
            for row in await self.database.fetch(*search_statement(query))
        ]


# Words are put together by their lexemes, of which all have to be there, or any where nothing else
# is looked for: a question has words that its answer has not. Selected, so that a plan makes them
# once: as an expression of the text they would be made again for each passage.
ALL_WORDS = "(select plainto_tsquery('english', %(text)s))"
ANY_WORD = "(select replace(plainto_tsquery('english', %(text)s)::text, ' & ', ' | ')::tsquery)"

NEAREST = """
select id, row_number() over (order by distance, id) as place from (
    select p.id, p.embedding <#> %(vector_{n})s::halfvec as distance
    from memory.passages p
    where {filters} and p.embedding_model = %(model_{n})s
      and vector_dims(p.embedding) = {dimensions} {bound}
    order by distance limit %(candidates)s) nearest"""

# A minus more than the other conditions: Postgres evaluates the cheapest first, and this one fails
# for vectors of another length.
BOUND = """
      and -(p.embedding <#> %(vector_{n})s::halfvec) >= (
        select case when count(*) < %(candidates)s then '-infinity' else min(similarity) end
        from (select -(embedding <#> %(vector_{n})s::halfvec) as similarity
              from (select p.embedding from memory.passages p
                    where {filters} and p.embedding_model = %(model_{n})s
                      and vector_dims(p.embedding) = {dimensions} limit %(bounding)s) first
              order by similarity desc limit %(candidates)s) best)"""

# Of long vectors all signs are compared, in an index that is read alone, and of those that are most
# alike by them the numbers.
BY_SIGNS = """
select id, row_number() over (order by distance, id) as place from (
    select p.id, p.embedding <#> %(vector_{n})s::halfvec as distance
    from (
        select p.id from memory.passages p
        where {filters} and p.embedding_model = %(model_{n})s and length(p.signs) = {dimensions}
        order by p.signs <~> (select binary_quantize(%(vector_{n})s::halfvec))
        limit %(compared)s
    ) alike cross join lateral (
        select id, embedding from memory.passages where id = alike.id and org = %(org)s limit 1) p
    order by distance limit %(candidates)s) nearest"""

WORDED = """
select id, row_number() over (order by rank desc, id) as place from (
    select id, ts_rank_cd(search, {words}, 1) as rank from (
        select p.id, p.search from memory.passages p
        where {filters} and p.search @@ {words} limit {most}) few
    order by rank desc limit %(candidates)s) worded"""

NEWEST = """
select p.id, row_number() over (order by p.created_at desc, p.id) as place
from memory.passages p where {filters} order by p.created_at desc, p.id limit %(limit)s"""

FUSED = """
select p.id, p.collection_id, p.document, found.score
from (
    select id, sum(1.0 / ({ranks} + place))::float8 as score
    from ({lists}) listed group by id order by score desc, id limit %(limit)s
) found cross join lateral (
    select id, collection_id, document from memory.passage_view
    where id = found.id and org = %(org)s limit 1) p
order by found.score desc, p.id"""


def search_statement(query: PassageQuery) -> tuple[str, dict[str, Any]]:
    """The text and the parameters of a search. The text repeats, so it stays prepared."""
    text = (query.text or "").replace("\x00", "")[:QUERY_CHARS_MAX]
    limit = min(query.limit, FOUND_MAX)
    filters, parameters = filters_of(query)
    parameters |= {"limit": limit, "candidates": max(limit, CANDIDATES_MIN)}
    lists = []
    for n, wanted in enumerate(query.vectors):
        parameters |= {f"vector_{n}": half_vector(wanted.vector), f"model_{n}": wanted.model}
        nearest, bounds = way_of_comparing(query, wanted, parameters["candidates"])
        parameters |= bounds
        lists.append(nearest.format(n=n, dimensions=len(wanted.vector), filters=filters))
    if text.strip():
        parameters["text"] = text
        lists += [
            WORDED.format(words=words, filters=filters_of(query, by_word=True)[0], most=WORDED_MAX)
            for words in ((ALL_WORDS,) if query.vectors else (ALL_WORDS, ANY_WORD))
        ]
    if not lists:
        lists.append(NEWEST.format(filters=filters))
    joined = [f"select id, place from ({ranking}) l{n}" for n, ranking in enumerate(lists)]
    return FUSED.format(ranks=FUSION_RANKS, lists=" union all ".join(joined)), parameters


def way_of_comparing(
    query: PassageQuery, wanted: QueryVector, candidates: int
) -> tuple[str, dict[str, int]]:
    """The SQL that finds the nearest, and its parameters. With tags or files the table is read,
    otherwise an index alone."""
    if query.tags or query.file_ids:
        return NEAREST.replace("{bound}", ""), {}
    if len(wanted.vector) > INDEXED_DIMENSIONS_MAX:
        return BY_SIGNS, {"compared": max(COMPARED_FOR_EACH * candidates, COMPARED_MIN)}
    return NEAREST.replace("{bound}", BOUND), {"bounding": BOUNDING_MAX}


# As the index of words and that of tags know it, and no other.
COLLECTION_BY_WORD = 'p.collection_id collate "C"'


def filters_of(query: PassageQuery, *, by_word: bool = False) -> tuple[str, dict[str, Any]]:
    """The condition of everything that is found, whichever way, and its parameters. `by_word` has
    it read by the index of words or of tags; by times as well only where there are dates."""
    same, parameters = of_collections(query)
    parameters["org"] = query.org
    by_word = by_word or bool(query.tags)
    conditions = ["p.org = %(org)s"]
    if by_word:
        conditions.append(f"{COLLECTION_BY_WORD} {same}")
    if not by_word or query.after or query.before:
        conditions.append(f"p.collection_id {same}")
    overlap = "@>" if query.tag_match == "all" else "&&"
    for name, condition, value in (
        ("tags", f"p.tags {overlap} %(tags)s", query.tags),
        ("after", "p.created_at >= %(after)s", query.after),
        ("before", "p.created_at <= %(before)s", query.before),
        ("files", "p.file_id = any(%(files)s)", query.file_ids),
    ):
        if value:
            conditions.append(condition)
            parameters[name] = value
    return " and ".join(conditions), parameters


def of_collections(query: PassageQuery) -> tuple[str, dict[str, Any]]:
    """The SQL condition on a passage's collection: one is read in the order of an index."""
    if len(query.collection_ids) == 1:
        return "= %(collection)s", {"collection": query.collection_ids[0]}
    return "= any(%(collections)s)", {"collections": query.collection_ids}
