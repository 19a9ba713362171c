"""Tests look at what was answered, not only at its status, and none is expected to fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
# Where the status is the behaviour: a refusal, an absence. It may only fall.
STATUS_ONLY_SHARE_MAX = 0.018


def asserting_tests() -> Iterator[tuple[str, list[ast.Assert]]]:
    """The tests that speak HTTP and assert something, with their assertions."""
    for folder in ("e2e", "integration"):
        for path in sorted((TESTS / folder).rglob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    inside = [each for each in ast.walk(node) if isinstance(each, ast.Assert)]
                    if node.name.startswith("test_") and inside:
                        yield f"{path.relative_to(TESTS)}::{node.name}", inside


def is_about_a_status_alone(assertion: ast.Assert) -> bool:
    attributes = {node.attr for node in ast.walk(assertion.test) if isinstance(node, ast.Attribute)}
    return "status_code" in attributes and not attributes & {"json", "text", "content", "headers"}


def test_few_tests_assert_nothing_but_a_status() -> None:
    tests = dict(asserting_tests())
    bare = [name for name, found in tests.items() if all(map(is_about_a_status_alone, found))]
    assert len(tests) > 1_000
    assert len(bare) <= STATUS_ONLY_SHARE_MAX * len(tests), bare


def test_no_test_is_expected_to_fail() -> None:
    """What does not work is said in docs/compatibility.md; a failing test is mended or goes."""
    modules = (path for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    marked = re.compile(r"pytest\.(?:mark\.)?xfail")
    assert [path.name for path in modules if marked.search(path.read_text())] == []
