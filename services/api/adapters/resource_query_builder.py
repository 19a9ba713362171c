"""Resources as the api reads them: what a module of `services/api/resources` declares, and the
statements that are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Any, Literal

from pydantic import BaseModel

from libs.bus.fair_semaphore import FairSemaphore
from libs.eventstore.connection_pool import Database, DatabaseQueries
from libs.eventstore.text_search import has_text

Order = Literal["asc", "desc"]
OTHER_ORDER: dict[Order, Order] = {"asc": "desc", "desc": "asc"}
BY_TIME = {"created_at": "v.created_at"}
# As in the indexes of lists, which so are none of ids, and are used by nothing but lists: elsewhere
# an organisation is checked, and is no key.
PLACE_OF_ID = 'v.id collate "C"'
ALL_OF_ORG = 'v.org collate "C" = %(org)s'
ORG_CHECKED = "v.org = %(org)s"
NOT_HIDDEN = "not v.hidden"
COUNTED = (
    "select coalesce(sum(v.rows), 0)::bigint from {0}.row_count_view v"
    " where v.org = %(org)s and v.name = '{1}'"
)

# Of what is found in no order, such as words, so many of the newest are looked at first: of what
# many have the page is full then, and only what few have is looked up.
NEWEST_LOOKED_AT = 500

# Texts are read from one end to the other: most connections of a process are left for others.
SEARCHES_AT_ONCE_MAX = 4
SEARCHES_OF_ORG_AT_ONCE_MAX = 2
SEARCH_WAIT_SECONDS_MAX = 10.0

WITH_LENGTHS = (
    "select document, number, sum(octet_length(document)) over (order by number) as bytes from ("
)
SHORT_ENOUGH = ") page where page.number = 1 or page.bytes <= %(bytes_max)s"
IF_FULL = "case when count(*) >= %(limit)s then {} end"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of thing that clients list and retrieve. In all SQL here and in the filters, `v` is
    a row of its view, which has at least the columns `id` and `org`.

    `kind` is the prefix of its ids, `document` the SQL expression of its JSON, `sort_keys` that of
    each key that a list may be ordered by, where what has no value yet counts as the smallest.
    `created_view` names everything of the kind that was ever created, so that a deleted row can
    still be a cursor, with the sort keys in `created_sort_keys`; in a list ordered by another key
    nothing comes after it. Without such a view what is deleted is an unknown cursor. `counted` are
    the schema and the table whose rows are counted as they come and go.
    """

    kind: str
    view: str
    document: str
    sort_keys: Mapping[str, str] = field(default_factory=lambda: BY_TIME)
    created_view: str | None = None
    created_sort_keys: Mapping[str, str] = field(default_factory=lambda: BY_TIME)
    counted: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """The condition that a query parameter puts on a row, said in the annotation of its field:
    `{}` is the value of the parameter, `{name}` that of another one, without which there is no
    condition. A condition without `{}` holds where the parameter is true or not empty, and
    `otherwise` where it is false. With `contains` the value is a text that is looked for in others.

    With `key` it has an index of its own, which is in the order of the list. With `search` it has
    one that is in no order: that is the condition by which rows are found there, which all have
    that fit. Where the parameter `unless` is true another condition says more."""

    sql: str
    contains: bool = False
    key: bool = False
    search: str = ""
    otherwise: str = ""
    unless: str = ""

    def conditions(self, asked: BaseModel, name: str) -> tuple[str, str]:
        """The condition for the value of the parameter, and that of its search; empty for none."""
        value = self.value(getattr(asked, name))
        if value is None or (self.unless and getattr(asked, self.unless)):
            return "", ""
        if value is False and self.otherwise:
            return self.otherwise, ""
        if not (value or "" in placeholders(self.sql)):
            return "", ""
        if any(getattr(asked, other) is None for other in placeholders(self.sql) - {""}):
            return "", ""
        return self.sql, self.search

    def value(self, given: Any) -> Any:
        """The value of the parameter in the statement; None for no condition."""
        return given or None if self.contains else given


def contains(*columns: str) -> Where:
    """The text of the parameter stands somewhere in one of the columns, in any case of letters."""
    found = "(" + " or ".join(has_text(column, "{}") for column in columns) + ")"
    return Where(found, contains=True, search=found)


def any_of(condition: str, *, unless: str = "") -> Where:
    """A condition whose index finds what fits in no order."""
    return Where(condition, search=condition, unless=unless)


@dataclass(slots=True)
class Filter:
    """Conditions of a query, and their values by name; `searches` are conditions that follow from
    them, by whose indexes rows are found in no order, and `cursors` those of a part of a list.
    `reads_texts` says whether a text is looked for in them."""

    conditions: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    searches: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    reads_texts: bool = False

    def add(self, condition: str, **values: Any) -> Filter:
        """Add a condition on `%(name)s` for each of these values."""
        self.conditions.append(condition)
        self.values |= values
        return self

    def by_key(self, condition: str, **values: Any) -> Filter:
        """The same for a condition by whose index the rows are found; their organisation is then
        checked."""
        self.conditions = [
            ORG_CHECKED if condition == ALL_OF_ORG else condition for condition in self.conditions
        ]
        return self.add(condition, **values)

    @property
    def sql(self) -> str:
        """All conditions as one SQL expression."""
        return " and ".join([*self.conditions, *self.cursors]) or "true"

    @property
    def is_of_all(self) -> bool:
        """Whether everything that the organisation has fits, or is looked through."""
        return ALL_OF_ORG in self.conditions

    def with_searches(self) -> Filter:
        """The same, where rows are found by the indexes of its searches, if it has any."""
        if not (self.searches and self.is_of_all):
            return self
        found = Filter([*self.conditions], self.values, cursors=self.cursors)
        for search in self.searches:
            found.by_key(search)
        return found


def filter_of(asked: BaseModel, org: str | None) -> Filter:
    """The conditions that the query parameters put on the rows of an organisation; None for what
    belongs to none."""
    found = Filter() if org is None else Filter([ALL_OF_ORG], {"org": org})
    for name, where in conditions_of(type(asked)):
        condition, search = where.conditions(asked, name)
        if not condition:
            continue
        others = {other: getattr(asked, other) for other in placeholders(condition) - {""}}
        values = dict(others)
        if "" in placeholders(condition):
            values[name] = where.value(getattr(asked, name))
        add = found.by_key if where.key else found.add
        add(referring(condition, name), **values)
        found.reads_texts |= where.contains
        if search:
            found.searches.append(referring(search, name))
    return found


def referring(condition: str, name: str) -> str:
    """A condition with references to the values of parameters: `name` is its own."""
    named = condition.replace("{}", f"{{{name}}}")
    return named.format(**{other: f"%({other})s" for other in placeholders(named)})


@cache
def conditions_of(model: type[BaseModel]) -> Sequence[tuple[str, Where]]:
    """The names of the query parameters that are conditions, and what they say."""
    return [
        (name, where)
        for name, declared in model.model_fields.items()
        for where in declared.metadata
        if isinstance(where, Where)
    ]


def placeholders(sql: str) -> set[str]:
    """The names in braces, empty for the value of the parameter itself."""
    return {name for _, name, _, _ in Formatter().parse(sql) if name is not None}


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a list."""

    before: str | None = None
    after: str | None = None
    limit: int | None = 100
    order: Order = "desc"

    @property
    def cursors(self) -> list[tuple[str, str, str]]:
        """The names and the values of the cursors, and how what is wanted compares with them."""
        behind, ahead = (">", "<") if self.order == "asc" else ("<", ">")
        named = (("after", self.after, behind), ("before", self.before, ahead))
        return [(name, value, sign) for name, value, sign in named if value is not None]


class UnknownCursor(Exception):
    """A cursor that names nothing in the list."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(name)
        self.name, self.value = name, value


class ResourceQueries(DatabaseQueries):
    """Reads the rows of any resource: one statement, ready JSON out. Lists and counts of what
    contains a text wait for a place, and raise NoPlace where there is none."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.places = FairSemaphore(
            SEARCHES_AT_ONCE_MAX,
            of_organisation_max=SEARCHES_OF_ORG_AT_ONCE_MAX,
            wait_seconds_max=SEARCH_WAIT_SECONDS_MAX,
            users="searches",
            thing="place for a search",
        )

    def place(self, found: Filter) -> AbstractAsyncContextManager[None]:
        """The resources that a look at these rows holds meanwhile."""
        org = str(found.values.get("org", ""))
        return self.places.hold(org) if found.reads_texts else nullcontext()

    async def one(
        self, resource: Resource, org: str, resource_id: str, document: str = ""
    ) -> bytes | None:
        """The document of one row, or another expression on it."""
        found = Filter(["v.org = %(org)s", "v.id = %(id)s"], {"org": org, "id": resource_id})
        return await self.first(resource, found, document=document)

    async def first(
        self, resource: Resource, found: Filter, *, order: str = "", document: str = ""
    ) -> bytes | None:
        """The document of the first row, in the order that an SQL expression gives."""
        return await self.database.fetch_text(
            f"select ({document or resource.document})::text from {resource.view} v"
            f" where {found.sql}" + (f" order by {order} limit 1" if order else ""),
            found.values,
        )

    async def exists(self, resource: Resource, org: str, resource_id: str) -> bool:
        """Whether there is such a row."""
        row = await self.database.fetch_one(
            f"select from {resource.view} v where v.id = %s and v.org = %s", [resource_id, org]
        )
        return row is not None

    async def count(self, resource: Resource, found: Filter) -> int:
        """The number of rows that match."""
        if resource.counted and found.conditions == [ALL_OF_ORG]:
            return await self.number(COUNTED.format(*resource.counted), found.values)
        if resource.counted and found.conditions == [ALL_OF_ORG, NOT_HIDDEN]:
            hidden = Filter([ALL_OF_ORG, "v.hidden"], found.values)
            everything = Filter([ALL_OF_ORG], found.values)
            return await self.count(resource, everything) - await self.count(resource, hidden)
        query = f"select count(*) from {resource.view} v where {found.with_searches().sql}"
        async with self.place(found):
            return await self.number(query, found.values)

    async def all(self, resource: Resource, found: Filter, *, order: str) -> bytes:
        """The documents of all rows of a short list as a JSON array, in this order."""
        documents = await self.database.fetch_text(
            f"select coalesce(jsonb_agg({resource.document} order by {order}), '[]')::text"
            f" from {resource.view} v where {found.sql}",
            found.values,
        )
        assert documents is not None
        return documents

    async def page(
        self,
        resource: Resource,
        found: Filter,
        part: Slice,
        *,
        key: str = "created_at",
        document: str = "",
        bytes_max: int | None = None,
    ) -> bytes:
        """A page of documents as a JSON array, ordered by a sort key. With `before` alone it is
        the page that ends right there, so that one can leaf backwards. With `bytes_max` it ends
        before it is longer, but not before its first. Raises UnknownCursor."""
        sort = resource.sort_keys[key]
        await self.place_cursors(resource, found, part, key)
        backwards = part.before is not None and part.after is None
        order = OTHER_ORDER[part.order] if backwards else part.order
        ordered = f"{sort} {order}, {PLACE_OF_ID} {order}"
        turned = "desc" if backwards else "asc"
        # One text, not a row for each document: rows come in pieces of 8 kB, and the client waits
        # for each of them.
        joined = f"coalesce(string_agg(page.document, ',' order by page.number {turned}), '')"
        places = places_of(resource, found, ordered, part.limit)
        async with self.place(found):
            for number, place in enumerate(places, start=1):
                is_last = number == len(places)
                documents = await self.database.fetch_text(
                    f"select {joined if is_last else IF_FULL.format(joined)} from ("
                    + (WITH_LENGTHS if bytes_max else "")
                    + f" select ({document or resource.document})::text as document,"
                    f" row_number() over (order by {ordered}) as number"
                    f" from {place} order by {ordered} limit %(limit)s) page"
                    + (SHORT_ENOUGH if bytes_max else ""),
                    {**found.values, "limit": part.limit, "bytes_max": bytes_max},
                )
                if documents is not None:
                    break
        assert documents is not None
        return b"[%b]" % documents

    async def place_cursors(self, resource: Resource, found: Filter, part: Slice, key: str) -> None:
        """Turn the cursors into conditions; in V1 they count in the order of the list."""
        org, sort = found.values["org"], resource.sort_keys[key]
        for name, value, sign in part.cursors:
            place = f"select {sort} from {resource.view} v where v.id = %s and v.org = %s"
            row = await self.database.fetch_one(place, [value, org])
            if row is None:
                row = await self.place_of_deleted(resource, org, name, value, key)
            if row is None:
                found.add("false")
                continue
            found.cursors.append(f"({sort}, {PLACE_OF_ID}) {sign} (%({name}_at)s, %({name}_id)s)")
            found.values |= {f"{name}_at": row[0], f"{name}_id": value}

    async def place_of_deleted(
        self, resource: Resource, org: str, name: str, value: str, key: str
    ) -> tuple[Any, ...] | None:
        """The sort key of a row that is no more, None where it is not known. Raises UnknownCursor
        where there was never such a row."""
        if resource.created_view is None:
            raise UnknownCursor(name, value)
        sort = resource.created_sort_keys.get(key)
        row = await self.database.fetch_one(
            f"select {sort or 'null'} from {resource.created_view} v"
            " where v.id = %s and v.org = %s",
            [value, org],
        )
        if row is None:
            raise UnknownCursor(name, value)
        return row if sort else None


def places_of(resource: Resource, found: Filter, ordered: str, limit: int | None) -> Sequence[str]:
    """The `from` clauses for a page in an order, in turn until the page is full: first the newest
    alone, where rows are found in no order, and everything."""
    everything = f"{resource.view} v where {found.with_searches().sql}"
    is_short = limit is not None and limit <= NEWEST_LOOKED_AT
    if not (is_short and found.searches and found.is_of_all):
        return [everything]
    walked = Filter([ALL_OF_ORG], cursors=found.cursors)
    newest = (
        f"(select * from {resource.view} v where {walked.sql} order by {ordered}"
        f" limit {NEWEST_LOOKED_AT}) v where {found.sql}"
    )
    return [newest, everything]


def slice_of_items[T: Mapping[str, Any]](items: Sequence[T], part: Slice) -> list[T]:
    """The part of a short list that is read whole; raises UnknownCursor."""
    ordered = list(items) if part.order == "asc" else list(reversed(items))
    ids = [item["id"] for item in ordered]
    for name, value in (("after", part.after), ("before", part.before)):
        if value is not None and value not in ids:
            raise UnknownCursor(name, value)
    start = 0 if part.after is None else ids.index(part.after) + 1
    end = len(ids) if part.before is None else ids.index(part.before)
    if part.limit is None:
        return ordered[start:end]
    if part.before is not None and part.after is None:
        start = max(start, end - part.limit)
    return ordered[start : min(end, start + part.limit)]
