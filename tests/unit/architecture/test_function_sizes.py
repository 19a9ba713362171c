"""No function is so long, or takes so many parameters, that nobody reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
LINES_MAX = 60
PARAMETERS_MAX = 8


def too_large(text: str) -> Iterator[str]:
    """The names of the functions of a module that are over a limit."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            given = node.args
            parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            count = len(parameters) + bool(given.vararg) + bool(given.kwarg)
            if lines > LINES_MAX or count > PARAMETERS_MAX:
                yield node.name


def test_functions_are_short_and_take_few_parameters() -> None:
    paths = [
        path
        for room in ("cli", "libs", "services", "deploy")
        for path in (ROOT / room).rglob("*.py")
    ]
    assert len(paths) > 500
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        if ".venv" not in path.parts
        for name in too_large(path.read_text())
    }
    assert not found


def test_a_long_function_and_one_of_many_parameters_are_found() -> None:
    long = "def long():\n" + "    pass\n" * LINES_MAX
    most = ", ".join(f"p{number}" for number in range(PARAMETERS_MAX))
    few = f"def few({most}): ...\n"
    many = f"class C:\n    def many(self, {most}): ...\n"
    assert [*too_large(long + few + many)] == ["long", "many"]
