"""The database that a genuine Letta server 0.16.8 made, loaded into a Postgres of the tests."""

from __future__ import annotations

import gzip
from pathlib import Path

import psycopg

RECORDED = Path(__file__).parent / "recorded" / "letta-0.16.8"
COPY = "COPY "
ENDS_COPY = "\\."


def load(url: str, dump: Path = RECORDED / "dump.sql.gz") -> None:
    """Load the dump into an empty database, as `psql` would."""
    with (
        psycopg.connect(url, autocommit=True) as connection,
        gzip.open(dump, "rt", encoding="utf-8") as lines,
    ):
        statement: list[str] = []
        for line in lines:
            if line.startswith(COPY):
                with connection.cursor().copy(line) as copy:
                    for row in lines:
                        if row.rstrip("\n") == ENDS_COPY:
                            break
                        copy.write(row)
            elif not line.startswith(("--", "\\")) and line.strip():
                statement.append(line)
                if line.rstrip().endswith(";"):
                    connection.execute("".join(statement))
                    statement = []
