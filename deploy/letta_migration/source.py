"""The database of a Letta server, read page by page in one snapshot while the server goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, override

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from deploy.letta_migration.versions import NEWEST, UnknownDatabase, release_of
from libs.contracts.storable_text import storable

type Row = dict[str, Any]


class TableRow(dict[str, Any]):
    """A row of a table. A column that is not there is an error, not a value that nobody gave: also
    when it is asked for by `get`, if the schema is said to be the newest (`whole`)."""

    def __init__(self, table: str, fields: Row, *, whole: bool) -> None:
        super().__init__(fields)
        self.table = table
        self.whole = whole

    def __missing__(self, column: str) -> Any:
        raise UnknownDatabase(
            f"The table `{self.table}` has no column `{column}`, so this is not the schema that"
            " its revision names: nothing was taken over in this pass. If the column was renamed,"
            " give it its name back"
        )

    @override
    def get(self, column: str, default: Any = None) -> Any:
        return self[column] if self.whole or column in self else default


def storable_json(text: str | bytes) -> Any:
    """A JSON value without what no text here may have: NUL, and halves of surrogate pairs."""
    value = json.loads(text)
    escaped = b"\\u" in text if isinstance(text, bytes) else "\\u" in text
    return storable_value(value) if escaped else value


def storable_value(value: Any) -> Any:
    """A value whose texts can be kept."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(each) for each in value]
        case dict():
            return {storable(name): storable_value(each) for name, each in value.items()}
    return value


# The old server writes the name of its driver into its own address: `postgresql+pg8000://`.
DRIVER = re.compile(r"^(postgres(?:ql)?)\+\w+(?=://)")
PAGE_ROWS = 500
# The vectors of a page of passages are 16 KB each as text.
PASSAGE_PAGE_ROWS = 200


class LettaDatabase:
    """A connection to the database of a Letta server, for reading alone.

    Everything is read as it was at one moment: the transaction is repeatable read, and ends with
    the connection. It holds no lock that the server waits for. Use it as a context manager.
    """

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(
            DRIVER.sub(r"\1", url),
            options="-c default_transaction_isolation=repeatable\\ read"
            " -c default_transaction_read_only=on -c TimeZone=UTC"
            # The transaction waits while what was read is sent.
            " -c idle_in_transaction_session_timeout=0 -c statement_timeout=0",
            application_name="heeler-migration",
            row_factory=dict_row,
        )
        set_json_loads(storable_json, self.connection)
        try:
            self.tables = self.table_names()
            self.release = release_of(self.revision())
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> LettaDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def table_names(self) -> frozenset[str]:
        """The names of the tables that the schema has."""
        rows = self.connection.execute(
            "select table_name from information_schema.tables"
            " where table_schema = current_schema() and table_type = 'BASE TABLE'"
        )
        return frozenset(row["table_name"] for row in rows)

    def revision(self) -> str | None:
        """The revision of the schema; None where the database is not of a Letta server."""
        if "alembic_version" not in self.tables:
            return None
        row = self.connection.execute("select version_num from alembic_version").fetchone()
        return row["version_num"] if row else None

    def organisations(self) -> list[Row]:
        """The organisations of the server, the oldest first."""
        return self.connection.execute(
            "select id, name from organizations where not is_deleted order by created_at, id"
        ).fetchall()

    def rows(
        self,
        table: str,
        where: str = "true",
        values: Sequence[object] = (),
        *,
        key: Sequence[str] = ("id",),
        page: int = PAGE_ROWS,
    ) -> Iterator[Row]:
        """The rows of a table in the order of a unique key, a page at a time.

        A table that the release does not have yet has no rows. `where` is SQL with `%s` for each
        of the values.
        """
        if table not in self.tables:
            return
        order = sql.SQL(", ").join(map(sql.Identifier, key))
        last: list[object] | None = None
        while True:
            after: sql.Composable = sql.SQL("true")
            if last is not None:
                marks = sql.SQL(", ").join(sql.Placeholder() * len(key))
                after = sql.SQL("({}) > ({})").format(order, marks)
            query = sql.SQL("select * from {} where ({}) and {} order by {} limit {}").format(
                sql.Identifier(table),
                sql.SQL(where),
                after,
                order,
                sql.Literal(page),
            )
            rows = self.connection.execute(query, [*values, *(last or [])]).fetchall()
            whole = self.release == NEWEST
            yield from (TableRow(table, row, whole=whole) for row in rows)
            if len(rows) < page:
                return
            last = [rows[-1][column] for column in key]

    def links(self, table: str, column: str, name: str, *, of: str) -> list[str]:
        """The values of a column of a link table for one owner, in the order of insertion."""
        if table not in self.tables:
            return []
        query = sql.SQL("select {column} as value from {table} where {of} = %s order by ctid")
        rows = self.connection.execute(
            query.format(
                column=sql.Identifier(column), table=sql.Identifier(table), of=sql.Identifier(of)
            ),
            [name],
        )
        return [row["value"] for row in rows]

    def count(self, table: str, where: str = "true", values: Sequence[object] = ()) -> int:
        """The number of a table's rows that meet a condition."""
        if table not in self.tables:
            return 0
        query = sql.SQL("select count(*) as rows from {} where {}").format(
            sql.Identifier(table),
            sql.SQL(where),
        )
        row = self.connection.execute(query, list(values)).fetchone()
        return row["rows"] if row else 0


def organisation_of(database: LettaDatabase, wanted: str | None) -> str:
    """The id of the organisation to take over. Raises UnknownDatabase where it has to be named, or
    is not there."""
    found = database.organisations()
    named = {row["id"]: row["id"] for row in found} | {row["name"]: row["id"] for row in found}
    choices = ", ".join(f"{row['id']} ({row['name']})" for row in found)
    if wanted is None and len(found) == 1:
        return str(found[0]["id"])
    if wanted is None:
        raise UnknownDatabase(f"Say which organisation, with --organisation: {choices or 'none'}")
    if wanted not in named:
        raise UnknownDatabase(f"There is no organisation {wanted!r}; there are: {choices}")
    return str(named[wanted])
