"""Passages by meaning, by words, or the newest: all within one statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic_core import from_json

from libs.contracts.bus_messages import JsonObject
from libs.embeddings.ports import Vector
from libs.embeddings.vector_text import halfvec
from libs.eventstore.connection_pool import Database

# How far a place in one list counts against a place in another: what is first there has 1/61.
FUSION_RANKS = 60
# Of each list so many are fused, or as many as are asked for.
CANDIDATES_MIN = 60
FOUND_MAX = 1_000
QUERY_CHARS_MAX = 8_000  # of its text, which is looked for word by word


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


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage as clients read it, and how well it fits: more is better, within one search."""

    id: str
    collection_id: str
    doc: JsonObject
    score: float


class PassageSearch(Protocol):
    """What searches of archives and of files read."""

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        """The passages that fit, the best first; at most `FOUND_MAX`."""
        ...


class PostgresPassageSearch:
    """Keeps the contract of `PassageSearch`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def search(self, query: PassageQuery) -> list[FoundPassage]:
        """The passages that fit, the best first."""
        if not query.collection_ids or query.limit < 1:
            return []
        rows = await self.database.fetch(*search_statement(query))
        return [FoundPassage(row[0], row[1], from_json(row[2]), row[3]) for row in rows]


# Words are put together by their lexemes, of which all have to be there, or any where nothing else
# is looked for: a question has words that its answer has not.
ALL_WORDS = "plainto_tsquery('english', %(text)s)"
ANY_WORD = f"replace({ALL_WORDS}::text, ' & ', ' | ')::tsquery"

NEAREST = """
select id, row_number() over (order by distance, id) as place from (
    select p.id, p.embedding <#> %(vector_{n})s::halfvec as distance
    from memory.passages p where {filters} and p.embedding_model = %(model_{n})s
    order by distance limit %(candidates)s) nearest"""

WORDED = """
select id, row_number() over (order by rank desc, id) as place from (
    select p.id, ts_rank_cd(p.search, q.words, 1) as rank
    from (select {words} as words) q, memory.passages p
    where {filters} and p.search @@ q.words
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
    for n, one in enumerate(query.vectors):
        parameters |= {f"vector_{n}": halfvec(one.vector), f"model_{n}": one.model}
        lists.append(NEAREST.format(n=n, filters=filters))
    if text.strip():
        parameters["text"] = text
        words = ALL_WORDS if query.vectors else ANY_WORD
        lists.append(WORDED.format(words=words, filters=filters))
    if not lists:
        lists.append(NEWEST.format(filters=filters))
    joined = " union all ".join(
        f"select id, place from ({one}) l{n}" for n, one in enumerate(lists)
    )
    return FUSED.format(ranks=FUSION_RANKS, lists=joined), parameters


def filters_of(query: PassageQuery) -> tuple[str, dict[str, Any]]:
    """The condition of everything that is found, whichever way, and its parameters."""
    parameters: dict[str, Any] = {"org": query.org}
    conditions = ["p.org = %(org)s"]
    if len(query.collection_ids) == 1:  # in the order of an index of one collection
        conditions.append("p.collection_id = %(collection)s")
        parameters["collection"] = query.collection_ids[0]
    else:
        conditions.append("p.collection_id = any(%(collections)s)")
        parameters["collections"] = query.collection_ids
    for name, condition, value in (
        ("tags", f"p.tags {'@>' if query.tag_match == 'all' else '&&'} %(tags)s", query.tags),
        ("after", "p.created_at >= %(after)s", query.after),
        ("before", "p.created_at <= %(before)s", query.before),
        ("files", "p.file_id = any(%(files)s)", query.file_ids),
    ):
        if value:
            conditions.append(condition)
            parameters[name] = value
    return " and ".join(conditions), parameters
