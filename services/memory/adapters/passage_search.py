"""Passages by meaning, by words, or the newest: all within one statement."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic_core import from_json

from libs.contracts.memory.archives import FoundPassage
from libs.embeddings.ports import Vector
from libs.embeddings.rank_fusion import FUSION_RANKS
from libs.eventstore.connection_pool import Database
from services.memory.adapters.halfvec_dumper import HalfVector
from services.memory.adapters.hnsw_indexing import LargeCollections

# Of each list so many are fused, or as many as are asked for.
CANDIDATES_MIN = 60
FOUND_MAX = 1_000
QUERY_CHARS_MAX = 8_000  # of its text, which is looked for word by word
# Of the passages with the words so many are ranked: words that more have say little.
WORDED_MAX = 2_000
# The lengths of vectors for which there is a graph; others are compared one by one.
GRAPH_DIMENSIONS = (384, 768, 1_024, 1_536, 3_072)
# Where a filter leaves so few, these are compared one by one: a graph would be walked for long
# until enough of its nodes pass the filter.
FILTERED_MAX = 15_000
SLOW_SECONDS = 0.02  # then it is looked at whether a collection is large


@dataclass(frozen=True, slots=True)
class QueryVector:
    """What is looked for, as a model embeds it: compared with what the same model has embedded."""

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
    """What searches of archives and of files read."""

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        """The passages that fit, the best first; at most `FOUND_MAX`."""
        ...


class PostgresPassageSearch:
    """Keeps the contract of `PassageSearch`. Which collections are `large` is known beforehand."""

    def __init__(self, database: Database, large: LargeCollections | None = None) -> None:
        self.database = database
        self.large = large

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        """The passages that fit, the best first."""
        if not query.collection_ids or query.limit < 1:
            return []
        graph = await self.by_graph(query)
        began = time.monotonic()
        rows = await self.database.fetch(*search_statement(query, graph=graph))
        if self.large and not graph and time.monotonic() - began > SLOW_SECONDS:
            self.large.suspect(query.org, query.collection_ids)
        return [
            FoundPassage(id=row[0], collection_id=row[1], fields=from_json(row[2]), score=row[3])
            for row in rows
        ]

    async def by_graph(self, query: PassageQuery) -> bool:
        """Whether too many vectors would be compared: those of a large collection, of which the
        filters, if there are any, leave many."""
        if not query.vectors or not self.large:
            return False
        if self.large.known.isdisjoint(query.collection_ids):
            return False
        if not (query.tags or query.after or query.before or query.file_ids):
            return True
        filters, parameters = filters_of(query)
        found = await self.database.fetch_one(
            MANY.format(filters=filters), {**parameters, "most": FILTERED_MAX + 1}
        )
        return found is not None and found[0] > FILTERED_MAX


MANY = "select count(*) from (select from memory.passages p where {filters} limit %(most)s) few"

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
      and vector_dims(p.embedding) = {dimensions}
    order by distance limit %(candidates)s) nearest"""

# In the graph of all large collections, whose nodes are passed over that do not fit; and one by one
# what is not in it yet.
IN_GRAPH = """
select id, row_number() over (order by distance, id) as place from (
    (select p.id, p.embedding::halfvec({dimensions}) <#> %(vector_{n})s::halfvec({dimensions})
        as distance
    from memory.passages p
    where p.large and vector_dims(p.embedding) = {dimensions} and {opaque}
      and p.embedding_model = %(model_{n})s
    order by distance limit %(candidates)s)
    union all
    (select p.id, p.embedding <#> %(vector_{n})s::halfvec as distance
    from memory.passages p
    where not p.large and p.collection_id {same} and {filters}
      and p.embedding_model = %(model_{n})s and vector_dims(p.embedding) = {dimensions}
    order by distance limit %(candidates)s)
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


def search_statement(query: PassageQuery, *, graph: bool = False) -> tuple[str, dict[str, Any]]:
    """The text and the parameters of a search. The text repeats, so it stays prepared."""
    text = (query.text or "").replace("\x00", "")[:QUERY_CHARS_MAX]
    limit = min(query.limit, FOUND_MAX)
    filters, parameters = filters_of(query)
    parameters |= {"limit": limit, "candidates": max(limit, CANDIDATES_MIN)}
    lists = []
    for n, wanted in enumerate(query.vectors):
        parameters |= {f"vector_{n}": HalfVector.of(wanted.vector), f"model_{n}": wanted.model}
        known = graph and len(wanted.vector) in GRAPH_DIMENSIONS
        nearest = IN_GRAPH if known else NEAREST
        lists.append(
            nearest.format(
                n=n,
                dimensions=len(wanted.vector),
                filters=filters,
                same=of_collections(query)[0],
                opaque=filters_of(query, OPAQUE)[0],
            )
        )
    if text.strip():
        parameters["text"] = text
        lists += [
            WORDED.format(words=words, filters=filters_of(query, BY_WORD)[0], most=WORDED_MAX)
            for words in ((ALL_WORDS,) if query.vectors else (ALL_WORDS, ANY_WORD))
        ]
    if not lists:
        lists.append(NEWEST.format(filters=filters))
    joined = [f"select id, place from ({ranking}) l{n}" for n, ranking in enumerate(lists)]
    return FUSED.format(ranks=FUSION_RANKS, lists=" union all ".join(joined)), parameters


@dataclass(frozen=True, slots=True)
class Columns:
    """How a condition names columns, which decides about the indexes that it can be read by."""

    collection: str = "p.collection_id"
    tags: str = "p.tags"
    created: str = "p.created_at"


PLAIN = Columns()
# By the index of words, and by that of tags, alone.
BY_WORD = Columns(collection='p.collection_id collate "C"')
# By none, so that the graph is walked.
OPAQUE = Columns(
    collection="(p.collection_id || '')",
    tags="(p.tags || '{}'::text[])",
    created="(p.created_at + interval '0')",
)


def filters_of(query: PassageQuery, columns: Columns = PLAIN) -> tuple[str, dict[str, Any]]:
    """The condition of everything that is found, whichever way, and its parameters."""
    same, parameters = of_collections(query)
    parameters["org"] = query.org
    conditions = ["p.org = %(org)s"]
    if columns is PLAIN and query.tags:
        columns = BY_WORD
    conditions.append(f"{columns.collection} {same}")
    if columns is BY_WORD and (query.after or query.before):
        conditions.append(f"{PLAIN.collection} {same}")  # by times as well
    overlap = "@>" if query.tag_match == "all" else "&&"
    for name, condition, value in (
        ("tags", f"{columns.tags} {overlap} %(tags)s", query.tags),
        ("after", f"{columns.created} >= %(after)s", query.after),
        ("before", f"{columns.created} <= %(before)s", query.before),
        ("files", "p.file_id = any(%(files)s)", query.file_ids),
    ):
        if value:
            conditions.append(condition)
            parameters[name] = value
    return " and ".join(conditions), parameters


def of_collections(query: PassageQuery) -> tuple[str, dict[str, Any]]:
    """What the collection of a passage has to be: one is read in the order of an index."""
    if len(query.collection_ids) == 1:
        return "= %(collection)s", {"collection": query.collection_ids[0]}
    return "= any(%(collections)s)", {"collections": query.collection_ids}
