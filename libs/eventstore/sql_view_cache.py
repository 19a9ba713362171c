"""Cache of a few rows of a published view, read again when they have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from libs.eventstore.connection_pool import Database
from libs.eventstore.ports import StoreUnavailable


class ViewReader(Protocol):
    """Reads a view that is small enough to be read as a whole."""

    async def fingerprint(self) -> str:
        """A value that changes whenever one of its rows does."""

    async def rows(self) -> Sequence[tuple[Any, ...]]:
        """Return all rows of the view."""


class PostgresView:
    """Keeps the contract of `ViewReader` with two queries, each of one column or more; while the
    `source` has no row, there is nothing that could have changed."""

    def __init__(self, database: Database, *, source: str, rows: str, fingerprint: str) -> None:
        self.database = database
        self.source = source
        self.rows_query = rows
        self.fingerprint_query = fingerprint

    async def fingerprint(self) -> str:
        if not await self.database.any_row(self.source):
            return "no rows"
        row = await self.database.fetch_one(self.fingerprint_query)
        return str(row[0]) if row else ""

    async def rows(self) -> Sequence[tuple[Any, ...]]:
        return await self.database.fetch(self.rows_query)


class CachedView[T]:
    """The `value` that `build` makes of the rows; None until they were read for the first time.

    Who hears that a row has changed calls `changed`; whoever may have missed that calls `look` now
    and then, which costs one small query. As long as the store is away the last value holds.
    """

    def __init__(self, reader: ViewReader, build: Callable[[Sequence[tuple[Any, ...]]], T]) -> None:
        self.reader = reader
        self.build = build
        self.value: T | None = None
        self.seen = ""
        self.unseen = False
        self.looking: asyncio.Task[None] | None = None
        self.reading = asyncio.Lock()

    async def look(self) -> None:
        """Read the rows if they have changed, one look after the other: no later value gives way to
        an earlier one. What changes meanwhile has another fingerprint next time. Raises
        StoreUnavailable."""
        async with self.reading:
            fingerprint = await self.reader.fingerprint()
            if self.value is None or fingerprint != self.seen:
                self.value = self.build(await self.reader.rows())
                self.seen = fingerprint

    def look_again(self) -> None:
        """A row has changed: look now. However many do while somebody looks, one more look
        follows."""
        self.unseen = True
        if self.looking is None:
            self.looking = asyncio.create_task(self.look_until_seen())

    async def look_until_seen(self) -> None:
        """Look until nothing has changed since; in an outage the next look finds it."""
        try:
            while self.unseen:
                self.unseen = False
                await self.look()
        except StoreUnavailable:
            self.unseen = False
        finally:
            self.looking = None
