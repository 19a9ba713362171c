"""Whether a refused command may come again is said by one table (`REFUSALS`), and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
TRANSIENT = {"BUSY", "UNAVAILABLE"}
# Says of a service that has no room for the question about its health that it lives.
ALLOWED = {"services/api/adapters/server/service_health.py"}


def compared(tree: ast.AST) -> set[str]:
    """The names of transient refusals that codes are compared with."""
    return {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "code"
        for other in node.comparators
        for name in ast.walk(other)
        if isinstance(name, ast.Name) and name.id in TRANSIENT
    }


def test_no_service_has_a_table_of_its_own() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("services", "libs/work")
        for path in (ROOT / folder).rglob("*.py")
        if compared(ast.parse(path.read_text()))
    }
    assert found == ALLOWED, "ask `Rejected.next_try` instead"
