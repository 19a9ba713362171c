"""Queries of the api over the views that the services publish: one statement, ready JSON out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from libs.contracts.told import Piece
from libs.eventstore.database import Database

Order = Literal["asc", "desc"]

# What a V1 agent has besides its own fields: from its conversation, from its last run, and, where
# the client asks for them, its relationships.
MESSAGE_IDS = (
    "array_to_json(array(select m.id from agent.message_view m"
    " where m.conversation_id = a.conversation_id and m.in_context order by m.position))::text"
)
LAST_RUN = (
    "coalesce((select jsonb_build_object('last_stop_reason', r.stop_reason, 'last_run_completion',"
    " r.doc->'completed_at', 'last_run_duration_ms',"
    " (r.doc->>'total_duration_ns')::bigint / 1000000)"
    " from agent.run_view r where r.agent_id = a.id and r.stop_reason is not null"
    " order by r.created_at desc, r.id desc limit 1), '{}')"
)
# Blocks are text, as what else a client wrote: `jsonb` would change the form of its numbers.
BLOCKS = (
    "(select '[' || coalesce(string_agg(b.document, ', ' order by array_position(a.block_ids,"
    " b.id)), '') || ']' from memory.block_view b where b.id = any(a.block_ids))"
)
WITH_BLOCKS = (
    "left(((a.doc->'memory') - 'blocks')::text, -1) || ', \"blocks\": ' || x.blocks || '}'"
)
BLOCKS_AND_MEMORY = (
    f"(select '\"blocks\": ' || x.blocks || ', \"memory\": ' || {WITH_BLOCKS} || ', '"
    f" from (select {BLOCKS} as blocks) x)"
)
RELATIONSHIPS = {
    "agent.tools": "jsonb_build_object('tools', a.tools)",
    "agent.tags": "jsonb_build_object('tags', to_jsonb(a.tags))",
}
ALL_RELATIONSHIPS = frozenset({"agent.blocks", *RELATIONSHIPS})

# The V1 messages of a row that are of the wanted types.
OF_TYPES = (
    "from json_array_elements(m.docs) doc where doc->>'message_type' = any(%(types)s::text[])"
)

# What a list may be ordered by; what has no value yet counts as the smallest. `{}` is the alias.
SORT_KEYS = {
    "created_at": "{}.created_at",
    "updated_at": "{}.updated_at",
    "duration": "coalesce(({}.doc->>'total_duration_ns')::bigint, 0)",
    "last_run_completion": (
        "coalesce((select max((r.doc->>'completed_at')::timestamptz) from agent.run_view r"
        " where r.agent_id = {}.id), 'epoch'::timestamptz)"
    ),
}
OTHER_ORDER: dict[Order, Order] = {"asc": "desc", "desc": "asc"}


@dataclass(slots=True)
class Filter:
    """Conditions of a query, and their values."""

    conditions: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, condition: str, name: str, value: Any) -> None:
        """Keep a condition on `%(name)s`, if there is a value."""
        if value is not None:
            self.conditions.append(condition)
            self.values[name] = value

    @property
    def sql(self) -> str:
        """All conditions in one."""
        return " and ".join(self.conditions) or "true"


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


class Reads:
    """What the api reads."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def one(self, query: str, values: Any) -> bytes | None:
        """The JSON of the one row of a query."""
        row = await self.database.fetch_one(query, values)
        return None if row is None or row[0] is None else str(row[0]).encode()

    async def page(
        self,
        view: str,
        document: str,
        found: Filter,
        part: Slice,
        alias: str = "v",
        key: str = "created_at",
    ) -> bytes:
        """A page of documents as a JSON array, ordered by a key of `SORT_KEYS`. With `before`
        alone it is the page that ends right there, so that one can leaf backwards."""
        sort = SORT_KEYS[key].format(alias)
        await self.place_cursors(view, found, part, alias, sort)
        backwards = part.before is not None and part.after is None
        order = OTHER_ORDER[part.order] if backwards else part.order
        ordered = f"{sort} {order}, {alias}.id {order}"
        turned = "desc" if backwards else "asc"
        # One text, not a row for each document: rows come in pieces of 8 kB, and the client waits
        # for each of them.
        page = await self.one(
            "select coalesce("
            f" string_agg(page.document, ',' order by page.number {turned}), '') from ("
            f" select ({document})::text as document,"
            f" row_number() over (order by {ordered}) as number"
            f" from {view} {alias} where {found.sql} order by {ordered} limit %(limit)s) page",
            {**found.values, "limit": part.limit},
        )
        assert page is not None
        return b"[" + page + b"]"

    async def place_cursors(
        self, view: str, found: Filter, part: Slice, alias: str, sort: str
    ) -> None:
        """Turn the cursors into conditions; in V1 they count in the order of the list."""
        forward = ">" if part.order == "asc" else "<"
        backward = "<" if part.order == "asc" else ">"
        for name, value, sign in (
            ("after", part.after, forward),
            ("before", part.before, backward),
        ):
            if value is None:
                continue
            row = await self.database.fetch_one(
                f"select {sort}, {alias}.id from {view} {alias} where {alias}.id = %s", [value]
            )
            if row is None:
                raise UnknownCursor(name, value)
            found.conditions.append(f"({sort}, {alias}.id) {sign} (%({name}_at)s, %({name}_id)s)")
            found.values |= {f"{name}_at": row[0], f"{name}_id": row[1]}

    async def count(self, view: str, found: Filter, alias: str = "v") -> int:
        """How many rows there are."""
        row = await self.database.fetch_one(
            f"select count(*) from {view} {alias} where {found.sql}", found.values
        )
        assert row is not None
        return int(row[0])

    # Agents

    async def agent(self, org: str, agent_id: str, include: frozenset[str]) -> bytes | None:
        """One agent."""
        return await self.one(
            f"select ({agent_document(include)})::text from agent.agent_view a"
            " where a.id = %s and a.org = %s",
            [agent_id, org],
        )

    async def agents(
        self, found: Filter, part: Slice, include: frozenset[str], key: str = "created_at"
    ) -> bytes:
        """A page of agents."""
        document = agent_document(include)
        return await self.page("agent.agent_view", document, found, part, alias="a", key=key)

    async def agent_exists(self, org: str, agent_id: str) -> bool:
        """Whether there is such an agent."""
        row = await self.database.fetch_one(
            "select from agent.agent_view where id = %s and org = %s", [agent_id, org]
        )
        return row is not None

    async def agent_memory(self, org: str, agent_id: str) -> bytes | None:
        """The memory of an agent, with its blocks."""
        return await self.one(
            f"select {WITH_BLOCKS} from agent.agent_view a, lateral (select {BLOCKS} as blocks) x"
            " where a.id = %s and a.org = %s",
            [agent_id, org],
        )

    async def agent_tools(self, org: str, agent_id: str) -> list[dict[str, Any]] | None:
        """The tools of an agent, by name."""
        row = await self.database.fetch_one(
            "select a.tools from agent.agent_view a where a.id = %s and a.org = %s",
            [agent_id, org],
        )
        return None if row is None else list(row[0])

    async def agent_block(self, org: str, agent_id: str, label_or_id: str) -> bytes | None:
        """The block of an agent that has this label, or this id."""
        return await self.one(
            "select b.document from memory.block_view b where b.id = any((select a.block_ids"
            " from agent.agent_view a where a.id = %s and a.org = %s)::text[])"
            " and (b.label = %s or b.id = %s)",
            [agent_id, org, label_or_id, label_or_id],
        )

    # Messages

    async def messages(
        self, agent_id: str, found: Filter, part: Slice, types: Sequence[str] | None
    ) -> bytes:
        """A page of an agent's messages, oldest first whatever the order: `order` says from
        which end the page is cut, and the cursors count in time, as recorded. With `types` only
        messages of these types, and only as these types."""
        for name, value, sign in (("after", part.after, ">"), ("before", part.before, "<")):
            if value is None:
                continue
            row = await self.database.fetch_one(
                "select position from agent.message_view where id = %s and agent_id = %s",
                [value, agent_id],
            )
            if row is None:
                raise UnknownCursor(name, value)
            found.add(f"m.position {sign} %({name})s", name, row[0])
        shown = "m.docs"
        if types is not None:
            shown = f"(select json_agg(doc) {OF_TYPES})"
            found.add(f"exists (select {OF_TYPES})", "types", [*types])
        rows = await self.database.fetch(
            "select docs::text from ("
            f" select {shown} as docs, m.position from agent.message_view m where {found.sql}"
            f" order by m.position {part.order} limit %(limit)s) page order by position",
            {**found.values, "limit": part.limit},
        )
        return b"[" + b",".join(inner(row[0]) for row in rows if inner(row[0])) + b"]"

    async def run_answer(self, run_id: str) -> list[AnswerPart]:
        """What a run has answered so far, in order."""
        rows = await self.database.fetch(
            "select docs, number, pieces from agent.message_view"
            " where run_id = %s and not sent order by position",
            [run_id],
        )
        return [AnswerPart(*row) for row in rows]

    # Runs

    async def run(self, org: str, run_id: str) -> bytes | None:
        """One run."""
        return await self.one(
            "select doc::text from agent.run_view where id = %s and org = %s", [run_id, org]
        )

    async def run_end(self, run_id: str) -> RunRow | None:
        """Where a run stands."""
        row = await self.database.fetch_one(
            "select status, stop_reason, usage, error, background, stream_tokens"
            " from agent.run_view where id = %s",
            [run_id],
        )
        return RunRow(*row) if row else None


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One stored message of an answer: the V1 messages that it is served as, and how it was told
    (see `libs.contracts.told`)."""

    docs: list[dict[str, Any]]
    number: int | None
    pieces: list[Piece] | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """Where a run stands; stop reason, usage and error are there when it has ended."""

    status: str
    stop_reason: str | None
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    background: bool
    stream_tokens: bool


def agent_document(include: frozenset[str]) -> str:
    """The SQL expression of a V1 agent with the relationships that were asked for."""
    shown = [RELATIONSHIPS[name] for name in sorted(include & RELATIONSHIPS.keys())]
    own, blocks = "a.doc", "''"
    if "agent.blocks" in include:
        own, blocks = "(a.doc - '{blocks,memory}'::text[])", BLOCKS_AND_MEMORY
    rest = " || ".join([own, LAST_RUN, *shown])
    # What is large is text, so that it is neither put together nor printed.
    return (
        f"'{{' || a.body || ', \"message_ids\": ' || {MESSAGE_IDS} || ', ' || {blocks}"
        f" || substr(({rest})::text, 2)"
    )


def containing(text: str | None) -> str | None:
    """The pattern for LIKE of what contains a text, its wildcards taken literally."""
    if not text:
        return None
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def cut[T: Mapping[str, Any]](items: Sequence[T], part: Slice) -> list[T]:
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


def inner(array: str) -> bytes:
    """What stands between the brackets of a JSON array."""
    return array[1:-1].encode()
