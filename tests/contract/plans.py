"""How Postgres would carry out a statement, whatever the values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg

from libs.eventstore.connection_pool import Database
from tests.waiting import wait_for

Plan = dict[str, Any]

OF_WHAT_GOES_ON = (
    "runs_active",
    "firings_open",
)  # indexes that hold little, however old a server is
SEEN_BY_ALL = "select relallvisible = relpages from pg_class where oid = %s::regclass"


async def vacuum(database: Database, table: str) -> None:
    """Vacuum a table, until Postgres knows that all may see each of its pages: whoever reads at the
    same time, as it does itself for its statistics, prevents that."""

    async def is_seen() -> bool:
        await database.fetch(f"vacuum analyze {table}")
        return bool((await database.fetch(SEEN_BY_ALL, [table]))[0][0])

    await wait_for(f"all may see {table}", is_seen)


def flattened(node: Plan) -> Iterator[Plan]:
    """A node of a plan and all below it."""
    yield node
    for child in node.get("Plans", []):
        yield from flattened(child)


async def generic_plan(connection: psycopg.AsyncConnection[Any], text: str) -> list[Plan]:
    """The nodes of the plan for a statement with `$1`, `$2` ... in it."""
    explain = f"explain (generic_plan, format json) {text}"
    [[document]] = await (await connection.execute(explain, prepare=False)).fetchall()
    return list(flattened(document[0]["Plan"]))


def scans(plan: list[Plan]) -> list[Plan]:
    """The nodes that read a table or an index, and those that put two indexes together: what is
    read of the second is not bounded by the key in the first."""
    kinds = ("Seq Scan", "Index", "Bitmap Index", "BitmapAnd")
    return [node for node in plan if node["Node Type"].startswith(kinds)]


async def index_columns(connection: psycopg.AsyncConnection[Any]) -> dict[str, list[str]]:
    """The columns of each index, in their order."""
    found = await connection.execute(
        "select indexrelid::regclass::text, array(select pg_get_indexdef(indexrelid, n, true)"
        " from generate_series(1, indnkeyatts) n) from pg_index"
    )
    return {name.rpartition(".")[2]: columns for name, columns in await found.fetchall()}


def reads_by_key(scan: Plan, columns: dict[str, list[str]]) -> bool:
    """Whether it reads only what has a key, not all of a table or an index. A column is no key if
    one before it in the index is not asked for: all that there is of that one is read. Nor is an
    organisation, if it is there to narrow what another key has found."""
    if scan["Node Type"] == "BitmapAnd":
        return all(asked_for(plan) != {"org"} for plan in scan["Plans"])
    if scan["Node Type"] == "Seq Scan":
        return False
    if "Index Cond" not in scan:
        return scan["Index Name"] in OF_WHAT_GOES_ON
    given = [text in asked_for(scan) for text in columns[scan["Index Name"]] if text.isidentifier()]
    return given == sorted(given, reverse=True)


def asked_for(scan: Plan) -> set[str]:
    """The columns in the condition of an index."""
    return set(re.findall(r"(?<![.\w])[a-z_]+", scan.get("Index Cond", ""))) - {"text"}
