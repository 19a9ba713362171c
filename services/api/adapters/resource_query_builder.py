"""Resources as the api reads them: what a module of `services/api/resources` declares, and the
statements that are made from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Any, Literal

from pydantic import BaseModel

from libs.eventstore.connection_pool import Database

Order = Literal["asc", "desc"]
OTHER_ORDER: dict[Order, Order] = {"asc": "desc", "desc": "asc"}
BY_TIME = {"created_at": "v.created_at"}
# As in the indexes of lists, which so are none of ids, and are used by nothing but lists: elsewhere
# an organisation is checked, and is no key.
PLACE_OF_ID = 'v.id collate "C"'
ALL_OF_ORG = 'v.org collate "C" = %(org)s'
ORG_CHECKED = "v.org = %(org)s"


WITH_LENGTHS = (
    "select document, number, sum(octet_length(document)) over (order by number) as bytes from ("
)
SHORT_ENOUGH = ") page where page.number = 1 or page.bytes <= %(bytes_max)s"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of thing that clients list and retrieve. In all SQL here and in the filters, `v` is
    a row of its view, which has at least the columns `id` and `org`.

    `kind` is the prefix of its ids, `document` the SQL expression of its JSON, `sort_keys` that of
    each key that a list may be ordered by, where what has no value yet counts as the smallest.
    `created_view` names everything of the kind that was ever created, so that a deleted row can
    still be a cursor, with the sort keys in `created_sort_keys`; in a list ordered by another key
    nothing comes after it. Without such a view what is deleted is an unknown cursor.
    """

    kind: str
    view: str
    document: str
    sort_keys: Mapping[str, str] = field(default_factory=lambda: BY_TIME)
    created_view: str | None = None
    created_sort_keys: Mapping[str, str] = field(default_factory=lambda: BY_TIME)


@dataclass(frozen=True, slots=True)
class Where:
    """The condition that a query parameter puts on a row, said in the annotation of its field:
    `{}` is the value of the parameter, `{name}` that of another one. A condition without `{}`
    holds where the parameter is true or not empty. With `contains` the value is a text, and `{}`
    the pattern for ILIKE of what contains it. With `key` it has an index of its own."""

    sql: str
    contains: bool = False
    key: bool = False

    @property
    def names_its_value(self) -> bool:
        """Whether the condition depends on the value itself."""
        return "" in placeholders(self.sql)

    def value(self, given: Any) -> Any:
        """What stands in the statement for the value of the parameter; None for no condition."""
        return pattern_of(given) if self.contains else given


def contains(*columns: str) -> Where:
    """The text of the parameter stands somewhere in one of the columns, in any case of letters."""
    return Where("(" + " or ".join(f"{column} ilike {{}}" for column in columns) + ")", True)


def pattern_of(text: str | None) -> str | None:
    """The pattern for ILIKE of what contains a text, its wildcards taken literally; None for no
    text."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%" if text else None


@dataclass(slots=True)
class Filter:
    """Conditions of a query, and their values by name."""

    conditions: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

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
        return " and ".join(self.conditions) or "true"


def filter_of(asked: BaseModel, org: str | None) -> Filter:
    """The conditions that the query parameters put on the rows of an organisation; None for what
    belongs to none."""
    found = Filter() if org is None else Filter([ALL_OF_ORG], {"org": org})
    for name, where in conditions_of(type(asked)):
        value = where.value(getattr(asked, name))
        if value is None or not (value or where.names_its_value):
            continue
        others = {other: getattr(asked, other) for other in placeholders(where.sql) - {""}}
        condition = where.sql.replace("{}", f"{{{name}}}")
        references = {parameter: f"%({parameter})s" for parameter in [name, *others]}
        values = others | ({name: value} if where.names_its_value else {})
        add = found.by_key if where.key else found.add
        add(condition.format(**references), **values)
    return found


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


class UnknownCursor(Exception):
    """A cursor that names nothing in the list."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(name)
        self.name = name
        self.value = value


class ResourceQueries:
    """Reads the rows of any resource: one statement, ready JSON out."""

    def __init__(self, database: Database) -> None:
        self.database = database

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
        """How many rows there are."""
        row = await self.database.fetch_one(
            f"select count(*) from {resource.view} v where {found.sql}", found.values
        )
        assert row is not None
        return int(row[0])

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
        documents = await self.database.fetch_text(
            "select coalesce("
            f" string_agg(page.document, ',' order by page.number {turned}), '') from ("
            + (WITH_LENGTHS if bytes_max else "")
            + f" select ({document or resource.document})::text as document,"
            f" row_number() over (order by {ordered}) as number"
            f" from {resource.view} v where {found.sql} order by {ordered} limit %(limit)s) page"
            + (SHORT_ENOUGH if bytes_max else ""),
            {**found.values, "limit": part.limit, "bytes_max": bytes_max},
        )
        assert documents is not None
        return b"[%b]" % documents

    async def place_cursors(self, resource: Resource, found: Filter, part: Slice, key: str) -> None:
        """Turn the cursors into conditions; in V1 they count in the order of the list."""
        org, sort = found.values["org"], resource.sort_keys[key]
        forward = ">" if part.order == "asc" else "<"
        backward = "<" if part.order == "asc" else ">"
        for name, value, sign in (
            ("after", part.after, forward),
            ("before", part.before, backward),
        ):
            if value is None:
                continue
            row = await self.database.fetch_one(
                f"select {sort} from {resource.view} v where v.id = %s and v.org = %s",
                [value, org],
            )
            if row is None:
                row = await self.place_of_deleted(resource, org, name, value, key)
            if row is None:
                found.add("false")
                continue
            found.add(
                f"({sort}, {PLACE_OF_ID}) {sign} (%({name}_at)s, %({name}_id)s)",
                **{f"{name}_at": row[0], f"{name}_id": value},
            )

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
