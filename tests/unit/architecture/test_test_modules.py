"""Test files outside of packages are imported by their bare names, of which each is one file's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


def test_no_two_test_files_have_one_name() -> None:
    names = Counter(
        path.name
        for path in TESTS.rglob("test_*.py")
        if "node_modules" not in path.parts and not (path.parent / "__init__.py").exists()
    )
    assert len(names) > 200
    assert not {name for name, count in names.items() if count > 1}
