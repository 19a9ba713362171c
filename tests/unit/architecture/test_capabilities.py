"""Every test that docs/capabilities.md names can be run as it is written there, and every
capability has one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
ROWS = [
    line
    for line in (CHECKOUT / "docs" / "capabilities.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| id |", "| pain |"))
]
NAMED = re.compile(r"`(tests/[^`]+)`")


@cache
def ids(file: str) -> set[str]:
    """The ids of all tests in a file, without their parameters, and the file itself."""
    body = tree(file).body
    methods = {
        f"{node.name}::{test}"
        for node in body
        if isinstance(node, ast.ClassDef)
        for test in methods_of(file, node.name)
    }
    return {f"{file}::{test}" for test in functions(body) | methods} | {file}


def methods_of(file: str, name: str) -> set[str]:
    """The tests of a class, and those of the classes that it extends."""
    for node in tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            return functions(node.body).union(*(methods_of(file, base) for base in bases))
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            module = f"{node.module}".replace(".", "/") + ".py"
            return methods_of(module, name) if module.startswith("tests/") else set()
    return set()


def functions(body: list[ast.stmt]) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in body if isinstance(node, kinds) and node.name.startswith("test_")}


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((CHECKOUT / file).read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:24])
def test_what_shows_a_capability_can_be_run_as_it_is_written(row: str) -> None:
    named = NAMED.findall(row)
    assert named, "a capability without a test is a claim"
    missing = [test for test in named if test not in ids(test.partition("::")[0])]
    assert missing == []


def test_no_capability_stands_there_twice() -> None:
    ids = [row.split("|")[1].strip() for row in ROWS]
    assert len(ids) == len(set(ids))
