"""Every test that docs/capabilities.md names is there, and every capability has one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
ROWS = [
    line
    for line in (CHECKOUT / "docs" / "capabilities.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| id |", "| pain |"))
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:24])
def test_what_shows_a_capability_is_there(row: str) -> None:
    named = NAMED.findall(row)
    assert named, "a capability without a test is a claim"
    for path, name in named:
        tree = ast.parse((CHECKOUT / path).read_text())
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {one.name for one in ast.walk(tree) if isinstance(one, kinds)}, path


def test_no_capability_stands_there_twice() -> None:
    ids = [row.split("|")[1].strip() for row in ROWS]
    assert len(ids) == len(set(ids))
