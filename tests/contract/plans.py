"""How Postgres would carry out a statement, whatever the values of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

Plan = dict[str, Any]


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
    """The nodes that read a table or an index."""
    kinds = ("Seq Scan", "Index", "Bitmap Index")
    return [one for one in plan if one["Node Type"].startswith(kinds)]


def reads_by_key(scan: Plan) -> bool:
    """Whether it reads only what has a key, not all of a table or an index. An id that is not the
    first column of an index is no key: all that comes before it is read."""
    if scan["Node Type"] == "Seq Scan" or "Index Cond" not in scan:
        return False
    return "(id = " not in scan["Index Cond"] or scan["Index Name"].endswith("_pkey")
