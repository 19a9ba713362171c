"""V1 operations that are not built yet: they say so, instead of pretending not to exist."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

from libs.contracts.bus_messages import JsonObject

OPERATIONS = Path(__file__).with_name("operations.tsv")

# Clients ask for these and use them if they are there; a 404 sends them another way.
PROBED = ("/schedule", "/v1/environments", "/v1/metadata")

NOT_BUILT = 501


def missing_operation(method: str, path: str) -> tuple[int, JsonObject, dict[str, str]] | None:
    """Status, body and headers for a V1 operation that is not built; None for any other path."""
    bare = path.rstrip("/").replace("/latest/", "/v1/", 1)
    for known_method, pattern, name in operations():
        if known_method == method and pattern.fullmatch(bare):
            if any(part in name for part in PROBED):
                return 404, {"detail": "Not Found"}, {}
            detail = (
                f"{name} is not built in this server yet; docs/compatibility.md lists what is. "
                "Nothing was changed."
            )
            return NOT_BUILT, {"detail": detail}, {"x-should-retry": "false"}
    return None


@cache
def operations() -> list[tuple[str, re.Pattern[str], str]]:
    """Method, pattern of the path, and name of every V1 operation; those with fewest parameters
    first, as `/v1/runs/active` fits `/v1/runs/{run_id}` too."""
    with OPERATIONS.open() as table:
        rows = sorted(csv.DictReader(table, delimiter="\t"), key=lambda row: row["path"].count("{"))
    return [
        (method, path_pattern(row["path"]), f"{row['method']} {row['path']}")
        for row in rows
        for method in row["method"].split("|")
    ]


def path_pattern(path: str) -> re.Pattern[str]:
    """What a path with `{parameters}` matches, with or without a slash at the end."""
    parts = re.split(r"(\{[^}]+\})", path.rstrip("/"))
    return re.compile("".join(map(part_pattern, parts)))


def part_pattern(part: str) -> str:
    """What a part of a path matches: itself, or as a parameter one segment or (`:path`) many."""
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part.endswith(":path}") else "[^/]+"
